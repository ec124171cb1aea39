package perdix.testbed;

import java.util.StringTokenizer;
import java.util.function.Consumer;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** Splits a line into its words. The Kafka timestamp of the line stays with each of them as the record's timestamp. */
final class Words implements FlatMapFunction<String, Words.Word> {

    /** A word of a line. Public fields and constructor: what Flink serialises without reflection's help. */
    public static final class Word {
        /** The word itself. */
        public String text;

        /** Whether the line ends here: the latency of a line is that of its last word. */
        public boolean last;

        /** For Flink's serialiser. */
        public Word() {}

        Word(String text, boolean last) {
            this.text = text;
            this.last = last;
        }

        /** Gives the key. */
        String text() {
            return text;
        }
    }

    @Override
    public void flatMap(String line, Collector<Word> out) {
        split(line, out::collect);
    }

    static void split(String line, Consumer<Word> out) {
        StringTokenizer words = new StringTokenizer(line);
        while (words.hasMoreTokens()) {
            String word = words.nextToken();
            out.accept(new Word(word, !words.hasMoreTokens()));
        }
    }
}

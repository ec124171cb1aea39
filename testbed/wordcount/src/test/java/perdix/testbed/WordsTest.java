package perdix.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** How a line becomes words. */
class WordsTest {

    private static List<String> split(String line) {
        List<String> words = new ArrayList<>();
        Words.split(line, word -> words.add(word.text + (word.last ? "!" : "")));
        return words;
    }

    @Test
    void onlyTheLastWordEndsTheLine() {
        assertEquals(List.of("to", "be", "or", "be!"), split("to be or be"));
    }

    @Test
    void blanksAroundAndBetweenDoNotMakeWords() {
        assertEquals(List.of("a", "b!"), split("  a \t b \n"));
    }

    @Test
    void aLineWithoutWordsMakesNone() {
        assertEquals(List.of(), split("   "));
    }
}

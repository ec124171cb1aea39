package perdix.testbed;

import java.util.Random;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Counts each word in keyed state, and takes its service time for it: the operator that makes the job's capacity. */
final class Count extends KeyedProcessFunction<String, Words.Word, Count.Counted> {

    /**
     * How often a word came so far.
     *
     * @param word the word
     * @param count how often, this time included
     * @param last whether it ends its line
     */
    public record Counted(String word, long count, boolean last) {}

    private final double burnMs;
    private final Throttle.Kind kind;
    private final int stateBytes;
    private final long openDelayMs;

    private transient Throttle throttle;
    private transient ValueState<Long> counts;
    private transient ValueState<byte[]> padding;

    Count(Options options) {
        burnMs = options.burnMs();
        kind = options.throttle();
        stateBytes = options.stateBytes();
        openDelayMs = options.openDelayMs();
    }

    @Override
    public void open(OpenContext context) throws InterruptedException {
        counts = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        padding = getRuntimeContext()
                .getState(new ValueStateDescriptor<>("padding", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        throttle = Throttle.of(kind, burnMs);
        Thread.sleep(openDelayMs);
    }

    @Override
    public void processElement(Words.Word word, Context context, Collector<Counted> out) throws Exception {
        throttle.spend();
        Long before = counts.value();
        if (before == null && stateBytes > 0) {
            // Random, so that no compression of a checkpoint makes it vanish.
            byte[] bytes = new byte[stateBytes];
            new Random(word.text.hashCode()).nextBytes(bytes);
            padding.update(bytes);
        }
        long count = before == null ? 1 : before + 1;
        counts.update(count);
        out.collect(new Counted(word.text, count, word.last));
    }
}

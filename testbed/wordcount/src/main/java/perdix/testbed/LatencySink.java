package perdix.testbed;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Ends the stream: throws the counts away, and measures how long each line took from its Kafka timestamp to here, once
 * per line, at its last word. A line that a restart plays again is measured again, with the time that it truly took. A
 * process function without output, since a sink of Flink's would add a writer to the names that dashboards show.
 */
final class LatencySink extends ProcessFunction<Count.Counted, Void> {

    /** Age from which a latency is no longer reported. */
    private static final long WINDOW_MS = 10_000;
    /** Lines of one subtask in that window: 800/s; a subtask of the testbed does far fewer. */
    private static final int MOST_SAMPLES = 8_192;

    private final List<Long> bucketsMs;

    private transient RecentHistogram lag;
    private transient LatencyCounters counters;

    LatencySink(Options options) {
        bucketsMs = List.copyOf(options.latencyBucketsMs());
    }

    @Override
    public void open(OpenContext context) {
        MetricGroup group = getRuntimeContext().getMetricGroup();
        lag = new RecentHistogram(MOST_SAMPLES, WINDOW_MS, () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime()));
        group.histogram("eventTimeLag", lag);
        counters = new LatencyCounters(group, bucketsMs);
    }

    @Override
    public void processElement(Count.Counted counted, Context context, Collector<Void> out) {
        Long createdMs = context.timestamp();
        if (!counted.last() || createdMs == null) {
            return;
        }
        // The producer's clock may be ahead by a moment when it runs elsewhere.
        long latencyMs = Math.max(0, System.currentTimeMillis() - createdMs);
        lag.update(latencyMs);
        counters.add(latencyMs);
    }
}

package perdix.testbed;

import java.util.List;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;

/**
 * Counts records by their latency, cumulatively as Prometheus does it: the counter of {@code le="500"} holds every record
 * of at most 500 ms, that of {@code le="+Inf"} all. Unlike quantiles they can be added up over subtasks and over time, so
 * the true distribution of a run follows from them.
 */
final class LatencyCounters {

    private final List<Long> boundsMs;
    private final Counter[] upTo;
    private final Counter all;
    private final Counter sumMs;

    /**
     * @param group where the counters are registered: {@code latencyCount} under a key {@code le}, and {@code latencySumMs}
     * @param boundsMs upper ends in ms, rising
     */
    LatencyCounters(MetricGroup group, List<Long> boundsMs) {
        this.boundsMs = boundsMs;
        upTo = boundsMs.stream().map(bound -> counter(group, bound.toString())).toArray(Counter[]::new);
        all = counter(group, "+Inf");
        sumMs = group.counter("latencySumMs");
    }

    private static Counter counter(MetricGroup group, String bound) {
        return group.addGroup("le", bound).counter("latencyCount");
    }

    void add(long latencyMs) {
        for (int i = upTo.length - 1; i >= 0 && latencyMs <= boundsMs.get(i); i--) {
            upTo[i].inc();
        }
        all.inc();
        sumMs.inc(latencyMs);
    }
}

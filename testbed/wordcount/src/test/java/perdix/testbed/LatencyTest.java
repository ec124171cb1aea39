package perdix.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.HistogramStatistics;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.junit.jupiter.api.Test;

/** What the job reports of its latencies. */
class LatencyTest {

    /** A group that remembers its counters under the name that a reporter would show. */
    private static final class Remembering extends UnregisteredMetricsGroup {
        private final Map<String, Counter> counters;
        private final String scope;

        Remembering(Map<String, Counter> counters, String scope) {
            this.counters = counters;
            this.scope = scope;
        }

        @Override
        public Remembering addGroup(String key, String value) {
            return new Remembering(counters, scope + key + "=" + value + " ");
        }

        @Override
        public Counter counter(String name) {
            return counters.computeIfAbsent(scope + name, ignored -> super.counter(name));
        }
    }

    private static Map<String, Long> counted(List<Long> boundsMs, long... latenciesMs) {
        Map<String, Counter> counters = new LinkedHashMap<>();
        LatencyCounters latencies = new LatencyCounters(new Remembering(counters, ""), boundsMs);
        for (long latencyMs : latenciesMs) {
            latencies.add(latencyMs);
        }
        Map<String, Long> counts = new LinkedHashMap<>();
        counters.forEach((name, counter) -> counts.put(name, counter.getCount()));
        return counts;
    }

    @Test
    void aCounterHoldsEveryRecordUpToItsBound() {
        assertEquals(
                Map.of("le=100 latencyCount", 2L, "le=500 latencyCount", 4L, "le=+Inf latencyCount", 5L, "latencySumMs", 1202L),
                counted(List.of(100L, 500L), 0, 100, 101, 500, 501));
    }

    @Test
    void quantilesAreThoseOfTheWindow() {
        AtomicLong clock = new AtomicLong();
        RecentHistogram histogram = new RecentHistogram(1_000, 10_000, clock::get);
        histogram.update(90_000);
        clock.set(10_000);
        for (int value = 0; value <= 100; value++) {
            histogram.update(value);
        }
        HistogramStatistics statistics = histogram.getStatistics();
        assertEquals(95, statistics.getQuantile(0.95));
        assertEquals(100, statistics.getMax());
        assertEquals(50, statistics.getMean());
        assertEquals(101, statistics.size());
        assertEquals(102, histogram.getCount());
    }

    @Test
    void beyondItsCapacityTheOldestGoFirst() {
        RecentHistogram histogram = new RecentHistogram(3, 10_000, () -> 0);
        for (int value = 1; value <= 5; value++) {
            histogram.update(value);
        }
        assertEquals(3, histogram.getStatistics().getMin());
        assertEquals(5, histogram.getStatistics().getMax());
    }

    @Test
    void withoutRecentSamplesThereIsNoQuantile() {
        AtomicLong clock = new AtomicLong();
        RecentHistogram histogram = new RecentHistogram(3, 10_000, clock::get);
        assertTrue(Double.isNaN(histogram.getStatistics().getQuantile(0.95)));
        histogram.update(7);
        clock.set(20_000);
        assertTrue(Double.isNaN(histogram.getStatistics().getQuantile(0.95)));
        assertEquals(0, histogram.getStatistics().size());
    }
}

package perdix.testbed;

import java.util.Arrays;
import java.util.function.LongSupplier;
import org.apache.flink.metrics.Histogram;
import org.apache.flink.metrics.HistogramStatistics;

/**
 * A histogram of the samples of the last seconds. Flink's own ones keep the last N samples however old they are: after a
 * burst they would report its latencies until N more records have come. Without samples every quantile is NaN, not zero:
 * nothing finished is not the same as fast. The task's thread writes, the reporter's thread reads.
 */
final class RecentHistogram implements Histogram {

    private final long[] values;
    private final long[] timesMs;
    private final long windowMs;
    private final LongSupplier nowMs;
    private long count;

    /**
     * @param capacity most samples that are kept; beyond it the oldest go first
     * @param windowMs age in ms from which a sample no longer counts
     * @param nowMs a clock in ms that never goes back
     */
    RecentHistogram(int capacity, long windowMs, LongSupplier nowMs) {
        values = new long[capacity];
        timesMs = new long[capacity];
        this.windowMs = windowMs;
        this.nowMs = nowMs;
    }

    @Override
    public synchronized void update(long value) {
        int slot = (int) (count % values.length);
        values[slot] = value;
        timesMs[slot] = nowMs.getAsLong();
        count++;
    }

    @Override
    public synchronized long getCount() {
        return count;
    }

    @Override
    public HistogramStatistics getStatistics() {
        long[] recent = recent();
        Arrays.sort(recent);
        return new Statistics(recent);
    }

    private synchronized long[] recent() {
        long oldestMs = nowMs.getAsLong() - windowMs;
        int kept = (int) Math.min(count, values.length);
        long[] recent = new long[kept];
        int size = 0;
        // From the newest back: times only fall.
        for (long i = count - 1; i >= count - kept; i--) {
            int slot = (int) (i % values.length);
            if (timesMs[slot] <= oldestMs) {
                break;
            }
            recent[size++] = values[slot];
        }
        return Arrays.copyOf(recent, size);
    }

    /** Figures of samples in rising order. */
    private static final class Statistics extends HistogramStatistics {
        private final long[] sorted;

        Statistics(long[] sorted) {
            this.sorted = sorted;
        }

        @Override
        public double getQuantile(double quantile) {
            if (sorted.length == 0) {
                return Double.NaN;
            }
            double position = quantile * (sorted.length - 1);
            int below = (int) position;
            int above = Math.min(below + 1, sorted.length - 1);
            return sorted[below] + (position - below) * (sorted[above] - sorted[below]);
        }

        @Override
        public long[] getValues() {
            return sorted;
        }

        @Override
        public int size() {
            return sorted.length;
        }

        @Override
        public double getMean() {
            return Arrays.stream(sorted).average().orElse(Double.NaN);
        }

        @Override
        public double getStdDev() {
            double mean = getMean();
            double squares = Arrays.stream(sorted).mapToDouble(value -> (value - mean) * (value - mean)).sum();
            return sorted.length < 2 ? Double.NaN : Math.sqrt(squares / (sorted.length - 1));
        }

        @Override
        public long getMax() {
            return sorted.length == 0 ? 0 : sorted[sorted.length - 1];
        }

        @Override
        public long getMin() {
            return sorted.length == 0 ? 0 : sorted[0];
        }
    }
}

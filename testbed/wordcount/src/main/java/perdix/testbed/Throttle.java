package perdix.testbed;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;

/**
 * Spends the service time of each word, so that a subtask has a capacity that does not hang on the machine. Time that
 * one word took too long is taken from the next ones: the mean is exact although clocks and parking are coarse. Belongs
 * to one thread.
 */
abstract class Throttle {

    /** How the service time is spent. */
    enum Kind {
        /** On the CPU. With a CPU quota the worker saturates and its CPU load means something. */
        BURN,
        /** Asleep, for machines where no quota can be set. The CPU load then means nothing; busy time does. */
        SLEEP;

        static Kind parse(String text) {
            for (Kind kind : values()) {
                if (kind.name().toLowerCase(Locale.ROOT).equals(text)) {
                    return kind;
                }
            }
            throw new IllegalArgumentException("--throttle " + text + " is neither burn nor sleep");
        }
    }

    /** Spend the service time of one word. */
    abstract void spend();

    /**
     * Build a throttle for the current thread.
     *
     * @param kind how the time is spent
     * @param serviceMs service time of a word in ms
     * @return the throttle
     */
    static Throttle of(Kind kind, double serviceMs) {
        long serviceNs = Math.round(serviceMs * 1e6);
        return switch (kind) {
            case BURN -> {
                ThreadMXBean threads = ManagementFactory.getThreadMXBean();
                // Thread CPU time stands still while a quota holds the thread back: the work stays the same, only later.
                yield new Burn(serviceNs, threads::getCurrentThreadCpuTime);
            }
            case SLEEP -> new Sleep(serviceNs, System::nanoTime, LockSupport::parkNanos);
        };
    }

    /** Computes until the thread's CPU time says that the word was served. */
    static final class Burn extends Throttle {
        /** Steps of arithmetic between two looks at the clock, about 1 us: looking costs a system call. */
        private static final int STEPS = 1_000;

        private final long serviceNs;
        private final LongSupplier cpuNs;
        private long owedNs;
        private long state = 1;

        Burn(long serviceNs, LongSupplier cpuNs) {
            this.serviceNs = serviceNs;
            this.cpuNs = cpuNs;
        }

        @Override
        void spend() {
            owedNs += serviceNs;
            if (owedNs <= 0) {
                return;
            }
            long startNs = cpuNs.getAsLong();
            long spentNs;
            do {
                for (int i = 0; i < STEPS; i++) {
                    state = state * 6364136223846793005L + 1442695040888963407L;
                }
                spentNs = cpuNs.getAsLong() - startNs;
            } while (spentNs < owedNs);
            owedNs -= spentNs;
        }
    }

    /** Parks until the wall clock says that the word was served. */
    static final class Sleep extends Throttle {
        /** Idle time that may be made good, in ns. With more, bursts pass at once and busy time reads too low. */
        static final long CREDIT_NS = 1_000_000;
        /** Parking for less would overshoot by as much. */
        static final long SHORTEST_PARK_NS = 500_000;

        private final long serviceNs;
        private final LongSupplier nowNs;
        private final LongConsumer park;
        private long aheadNs;
        private long seenNs;

        Sleep(long serviceNs, LongSupplier nowNs, LongConsumer park) {
            this.serviceNs = serviceNs;
            this.nowNs = nowNs;
            this.park = park;
            seenNs = nowNs.getAsLong();
        }

        @Override
        void spend() {
            passTime();
            aheadNs += serviceNs;
            if (aheadNs >= SHORTEST_PARK_NS) {
                park.accept(aheadNs);
                passTime();
            }
        }

        private void passTime() {
            long now = nowNs.getAsLong();
            aheadNs = Math.max(aheadNs - (now - seenNs), -CREDIT_NS);
            seenNs = now;
        }
    }
}

package perdix.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** Whether the service time that was asked for is what is spent, on clocks that the test moves. */
class ThrottleTest {

    private static final long SERVICE_NS = 400_000;

    @Test
    void theMeanBurnIsExactAlthoughEachLookAtTheClockCostsTime() {
        // Each look moves the clock by 70 us: a single word overshoots by up to that.
        AtomicLong clock = new AtomicLong();
        Throttle throttle = new Throttle.Burn(SERVICE_NS, () -> clock.getAndAdd(70_000));
        for (int word = 0; word < 1_000; word++) {
            throttle.spend();
        }
        // A word that borrows from the one before looks once for nothing, which is work and not service.
        assertEquals(1_000 * (SERVICE_NS + 70_000), clock.get(), 200_000);
    }

    @Test
    void aWordThatIsPaidForByAnOvershootBurnsNothing() {
        AtomicInteger looks = new AtomicInteger();
        Throttle throttle = new Throttle.Burn(SERVICE_NS, () -> looks.getAndIncrement() * 3 * SERVICE_NS);
        throttle.spend();
        assertEquals(2, looks.get());
        throttle.spend();
        throttle.spend();
        assertEquals(2, looks.get());
    }

    @Test
    void theRealBurnSpendsThreadTime() {
        Throttle throttle = Throttle.of(Throttle.Kind.BURN, 1);
        long before = java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        for (int word = 0; word < 50; word++) {
            throttle.spend();
        }
        long spentNs = java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before;
        assertTrue(spentNs >= 50_000_000 && spentNs < 100_000_000, spentNs + " ns for 50 words of 1 ms");
    }

    @Test
    void sleepingTooLongIsTakenFromTheNextWords() {
        AtomicLong clock = new AtomicLong();
        Throttle throttle = new Throttle.Sleep(SERVICE_NS, clock::get, ns -> clock.addAndGet(ns + 60_000));
        for (int word = 0; word < 1_000; word++) {
            throttle.spend();
        }
        assertEquals(1_000 * SERVICE_NS, clock.get(), 1_000_000);
    }

    @Test
    void anIdleHourBuysNoMoreThanTheCredit() {
        AtomicLong clock = new AtomicLong();
        AtomicLong parkedNs = new AtomicLong();
        Throttle throttle = new Throttle.Sleep(SERVICE_NS, clock::get, ns -> {
            parkedNs.addAndGet(ns);
            clock.addAndGet(ns);
        });
        clock.addAndGet(3_600_000_000_000L);
        for (int word = 0; word < 100; word++) {
            throttle.spend();
        }
        assertEquals(100 * SERVICE_NS - Throttle.Sleep.CREDIT_NS, parkedNs.get(), Throttle.Sleep.SHORTEST_PARK_NS);
    }
}

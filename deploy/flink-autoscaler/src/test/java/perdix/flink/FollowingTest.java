package perdix.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.flink.autoscaler.ScalingSummary;
import org.apache.flink.autoscaler.metrics.EvaluatedScalingMetric;
import org.apache.flink.autoscaler.metrics.ScalingMetric;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the rule of Flink's autoscaler comes to with the evaluator's rates, and what the executor makes of it. */
class FollowingTest {

    private static final Duration RESTART = Duration.ofMinutes(5);
    private final Configuration configuration = new Configuration();
    private final Random random = new Random(7);

    private static Map<ScalingMetric, EvaluatedScalingMetric> vertex(int runs, double takes) {
        Map<ScalingMetric, EvaluatedScalingMetric> metrics = new HashMap<>();
        metrics.put(ScalingMetric.PARALLELISM, EvaluatedScalingMetric.of(runs));
        metrics.put(ScalingMetric.MAX_PARALLELISM, EvaluatedScalingMetric.of(128));
        metrics.put(ScalingMetric.TRUE_PROCESSING_RATE, EvaluatedScalingMetric.avg(takes));
        return metrics;
    }

    /** The parallelism by the rule, before alignment, and whether it is outside of the band that it leaves alone. */
    private int byTheRule(Map<ScalingMetric, EvaluatedScalingMetric> measured, Wish wish) {
        Map<ScalingMetric, EvaluatedScalingMetric> seen = new HashMap<>(measured);
        seen.putAll(PerdixEvaluator.seen(wish, measured, configuration, RESTART));
        double takes = seen.get(ScalingMetric.TRUE_PROCESSING_RATE).getAverage();
        double arrives = seen.get(ScalingMetric.TARGET_DATA_RATE).getAverage();
        double catchUpS = configuration.get(Options.CATCH_UP_DURATION).toSeconds();
        double restarts = catchUpS == 0 ? 0.0 : arrives * RESTART.toSeconds() / catchUpS;
        double capacity = Math.round(
                seen.get(ScalingMetric.CATCH_UP_DATA_RATE).getCurrent() + restarts
                        + arrives / configuration.get(Options.UTILIZATION_TARGET));
        int runs = (int) seen.get(ScalingMetric.PARALLELISM).getCurrent();
        boolean outside = takes < seen.get(ScalingMetric.SCALE_UP_RATE_THRESHOLD).getCurrent()
                || takes > seen.get(ScalingMetric.SCALE_DOWN_RATE_THRESHOLD).getCurrent();
        int found = Math.min(Math.max((int) Math.ceil(capacity / takes * runs), 1), 200);
        return outside ? found : runs;
    }

    @Test
    void theRuleGoesWherePerdixWants() {
        for (int k = 0; k < 20_000; k++) {
            int runs = 1 + random.nextInt(60);
            int wanted = 1 + random.nextInt(60);
            double takes = Math.pow(10.0, -2.0 + 9.0 * random.nextDouble());
            configuration.set(Options.UTILIZATION_TARGET, 0.1 + 0.9 * random.nextDouble());
            configuration.set(Options.CATCH_UP_DURATION, Duration.ofSeconds(random.nextInt(3_600)));
            int found = byTheRule(vertex(runs, takes), Wish.follow(wanted));
            assertEquals(Integer.signum(wanted - runs), Integer.signum(found - runs), runs + " -> " + wanted + " " + takes);
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {Double.POSITIVE_INFINITY, 0.0})
    void anIdleJobIsScaledToo(double takes) {
        assertTrue(byTheRule(vertex(4, takes), Wish.follow(1)) < 4);
        assertTrue(byTheRule(vertex(1, takes), Wish.follow(4)) > 1);
    }

    @Test
    void whileItIsPausedTheRuleSeesNoReason() {
        assertEquals(4, byTheRule(vertex(4, 100.0), Wish.other(Wish.Leave.HOLD, "paused")));
    }

    @Test
    void whatWasNotMeasuredIsNotMadeUp() {
        assertEquals(Map.of(), PerdixEvaluator.seen(Wish.follow(3), vertex(4, Double.NaN), configuration, RESTART));
        assertEquals(Map.of(), PerdixEvaluator.seen(Wish.follow(3), Map.of(), configuration, RESTART));
        for (Wish.Leave leave : List.of(Wish.Leave.DECIDE, Wish.Leave.SCALE_OUT_ONLY)) {
            Wish none = Wish.other(leave, "");
            assertEquals(Map.of(), PerdixEvaluator.seen(none, vertex(4, 100.0), configuration, RESTART));
        }
    }

    private Map<JobVertexID, Integer> decided(
            Wish wish,
            Map<JobVertexID, Map<ScalingMetric, EvaluatedScalingMetric>> metrics,
            Map<JobVertexID, ScalingSummary> found) {
        Map<JobVertexID, Integer> parallelisms = new HashMap<>();
        PerdixExecutor.decided(wish, metrics, found, configuration)
                .forEach((vertex, summary) -> parallelisms.put(vertex, summary.getNewParallelism()));
        return parallelisms;
    }

    @Test
    void everyVertexGetsExactlyWhatIsWanted() {
        JobVertexID source = new JobVertexID();
        JobVertexID count = new JobVertexID();
        JobVertexID narrow = new JobVertexID();
        JobVertexID left = new JobVertexID();
        var metrics = Map.of(
                source, vertex(3, 100.0), count, vertex(5, 100.0), narrow, vertex(1, 1.0), left, vertex(2, 1.0));
        metrics.get(narrow).put(ScalingMetric.MAX_PARALLELISM, EvaluatedScalingMetric.of(1));
        configuration.setString("job.autoscaler.vertex.exclude.ids", left.toHexString());
        var found = Map.of(source, new ScalingSummary(3, 9, metrics.get(source)));
        assertEquals(Map.of(source, 5), decided(Wish.follow(5), metrics, found));
        assertEquals(Map.of(source, 2, count, 2), decided(Wish.follow(2), metrics, found));
    }

    @Test
    void theAutoscalersOwnBoundsForVerticesHold() {
        JobVertexID source = new JobVertexID();
        var metrics = Map.of(source, vertex(4, 100.0));
        configuration.setString("job.autoscaler.vertex.max-parallelism", "6");
        configuration.setString("job.autoscaler.vertex.min-parallelism", "3");
        assertEquals(Map.of(source, 6), decided(Wish.follow(20), metrics, Map.of()));
        assertEquals(Map.of(source, 3), decided(Wish.follow(1), metrics, Map.of()));
    }

    @Test
    void whatEachIsExpectedToTakeIsKnownAtTheNextScaleOut() {
        JobVertexID source = new JobVertexID();
        var metrics = Map.of(source, vertex(2, 100.0));
        var summary = PerdixExecutor.decided(Wish.follow(3), metrics, Map.of(), configuration).get(source);
        assertEquals(150.0, summary.getMetrics().get(ScalingMetric.EXPECTED_PROCESSING_RATE).getCurrent());
    }

    @Test
    void whilePerdixCannotJudgeNothingIsGivenBack() {
        JobVertexID out = new JobVertexID();
        JobVertexID in = new JobVertexID();
        var metrics = Map.of(out, vertex(2, 100.0), in, vertex(4, 100.0));
        var found = Map.of(out, new ScalingSummary(2, 3, metrics.get(out)), in, new ScalingSummary(4, 1, metrics.get(in)));
        assertEquals(Map.of(out, 3), decided(Wish.other(Wish.Leave.SCALE_OUT_ONLY, ""), metrics, found));
        assertEquals(Map.of(), decided(Wish.other(Wish.Leave.HOLD, ""), metrics, found));
        assertEquals(Map.of(out, 3, in, 1), decided(Wish.other(Wish.Leave.DECIDE, ""), metrics, found));
    }
}

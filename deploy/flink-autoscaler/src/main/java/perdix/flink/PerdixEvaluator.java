package perdix.flink;

import java.time.Duration;
import java.util.EnumMap;
import java.util.Map;
import org.apache.flink.autoscaler.metrics.EvaluatedScalingMetric;
import org.apache.flink.autoscaler.metrics.ScalingMetric;
import org.apache.flink.autoscaler.metrics.ScalingMetricsEvaluatorPlugin;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobVertexID;

/**
 * Lets the autoscaler see when perdix wants another parallelism: the rates that it compares are those at which its rule
 * comes to a change in that direction, or to none. By how much, {@link PerdixExecutor} says.
 */
public final class PerdixEvaluator implements ScalingMetricsEvaluatorPlugin {

    @Override
    public Map<ScalingMetric, EvaluatedScalingMetric> evaluateVertexMetrics(
            JobVertexID vertex, Map<ScalingMetric, EvaluatedScalingMetric> evaluatedMetrics, Context<?> context) {
        return seen(Perdix.wish(context.getConfiguration()), evaluatedMetrics, context.getConfiguration(),
                context.getRestartTime());
    }

    /** The metrics that replace those of a vertex; none where the rule is to decide by what was measured. */
    static Map<ScalingMetric, EvaluatedScalingMetric> seen(
            Wish wish,
            Map<ScalingMetric, EvaluatedScalingMetric> measured,
            Configuration configuration,
            Duration restartTime) {
        if (wish.leave != Wish.Leave.FOLLOW && wish.leave != Wish.Leave.HOLD) {
            return Map.of();
        }
        int runs = (int) current(measured, ScalingMetric.PARALLELISM);
        int most = (int) current(measured, ScalingMetric.MAX_PARALLELISM);
        int wanted = wish.leave == Wish.Leave.HOLD ? runs : wish.of(runs, most, configuration);
        EvaluatedScalingMetric processing = measured.get(ScalingMetric.TRUE_PROCESSING_RATE);
        double takes = processing == null ? Double.NaN : processing.getAverage();
        if (runs < 1 || Double.isNaN(takes)) {
            return Map.of(); // nothing was measured: the rule changes nothing
        }
        Map<ScalingMetric, EvaluatedScalingMetric> found = new EnumMap<>(ScalingMetric.class);
        if (Double.isInfinite(takes) || takes <= 0.0) { // idle: any rate does, and the rule needs one
            takes = runs;
            found.put(ScalingMetric.TRUE_PROCESSING_RATE, EvaluatedScalingMetric.avg(takes));
        }
        // The rule rounds to whole records/s and to whole subtasks: one more, or one less, is always a change.
        double capacity = takes * wanted / runs + Integer.signum(wanted - runs);
        found.put(ScalingMetric.TARGET_DATA_RATE,
                EvaluatedScalingMetric.avg(Math.max(capacity, 0.0) / capacityPerRate(configuration, restartTime)));
        found.put(ScalingMetric.CATCH_UP_DATA_RATE, EvaluatedScalingMetric.of(0.0));
        found.put(ScalingMetric.SCALE_UP_RATE_THRESHOLD, EvaluatedScalingMetric.of(wanted > runs ? 2.0 * takes + 1.0 : 0.0));
        found.put(ScalingMetric.SCALE_DOWN_RATE_THRESHOLD,
                EvaluatedScalingMetric.of(wanted < runs ? 0.5 * takes : 4.0 * takes + 2.0));
        return found;
    }

    /** How much capacity the rule asks for per record/s that arrives (AutoScalerUtils.getTargetProcessingCapacity). */
    private static double capacityPerRate(Configuration configuration, Duration restartTime) {
        double catchUpS = configuration.get(Options.CATCH_UP_DURATION).toSeconds();
        double utilization = Math.min(Math.max(configuration.get(Options.UTILIZATION_TARGET), 1e-3), 1.0);
        double restarts = catchUpS == 0.0 ? 0.0 : restartTime.toSeconds() / catchUpS;
        return restarts + 1.0 / utilization;
    }

    private static double current(Map<ScalingMetric, EvaluatedScalingMetric> metrics, ScalingMetric metric) {
        EvaluatedScalingMetric found = metrics.get(metric);
        return found == null ? 0.0 : found.getCurrent();
    }
}

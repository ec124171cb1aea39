package perdix.flink;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.autoscaler.ScalingExecutorPlugin;
import org.apache.flink.autoscaler.ScalingSummary;
import org.apache.flink.autoscaler.metrics.EvaluatedScalingMetric;
import org.apache.flink.autoscaler.metrics.ScalingMetric;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Says to what parallelism the autoscaler goes: to the one that perdix wants, for every vertex that it may scale. While
 * perdix is paused nothing is changed, and while it cannot judge the job nothing is given back.
 *
 * @param <KEY> what the autoscaler knows jobs by
 */
public final class PerdixExecutor<KEY> implements ScalingExecutorPlugin<KEY> {

    private static final Logger LOG = LoggerFactory.getLogger(PerdixExecutor.class);

    @Override
    public Map<JobVertexID, ScalingSummary> apply(Context<KEY> context, Map<JobVertexID, ScalingSummary> found) {
        Wish wish = Perdix.wish(context.getConfiguration());
        LOG.info("job {}: {}", context.getJobKey(), wish);
        return decided(wish, context.getEvaluatedMetrics().getVertexMetrics(), found, context.getConfiguration());
    }

    /** What is scaled, in place of what the rule found; nothing vetoes it. */
    static Map<JobVertexID, ScalingSummary> decided(
            Wish wish,
            Map<JobVertexID, Map<ScalingMetric, EvaluatedScalingMetric>> metrics,
            Map<JobVertexID, ScalingSummary> found,
            Configuration configuration) {
        Map<JobVertexID, ScalingSummary> decided = new HashMap<>();
        switch (wish.leave) {
            case DECIDE:
                return found;
            case SCALE_OUT_ONLY:
                found.forEach((vertex, summary) -> {
                    if (summary.isScaledUp()) {
                        decided.put(vertex, summary);
                    }
                });
                return decided;
            case FOLLOW:
                List<String> left = configuration.get(Options.VERTEX_EXCLUDE_IDS);
                metrics.forEach((vertex, seen) -> {
                    int runs = (int) seen.get(ScalingMetric.PARALLELISM).getCurrent();
                    int most = (int) seen.get(ScalingMetric.MAX_PARALLELISM).getCurrent();
                    int wanted = wish.of(runs, most, configuration);
                    if (runs != wanted && !left.contains(vertex.toHexString())) {
                        decided.put(vertex, new ScalingSummary(runs, wanted, expecting(seen, runs, wanted)));
                    }
                });
                return decided;
            default:
                return decided;
        }
    }

    /** The metrics of a vertex with what it is expected to take then, which the rule looks up at its next scale-out. */
    private static Map<ScalingMetric, EvaluatedScalingMetric> expecting(
            Map<ScalingMetric, EvaluatedScalingMetric> seen, int runs, int wanted) {
        EvaluatedScalingMetric processing = seen.get(ScalingMetric.TRUE_PROCESSING_RATE);
        double takes = processing == null ? Double.NaN : processing.getAverage();
        Map<ScalingMetric, EvaluatedScalingMetric> metrics = new HashMap<>(seen);
        metrics.put(ScalingMetric.EXPECTED_PROCESSING_RATE, EvaluatedScalingMetric.of(takes / runs * wanted));
        return metrics;
    }
}

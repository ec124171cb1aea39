package org.apache.flink.autoscaler;

import java.util.Map;
import org.apache.flink.autoscaler.metrics.EvaluatedMetrics;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobVertexID;

/**
 * The face of Flink's own interface (FLIP-575), to compile against: no release of it can be had from a repository of
 * jars yet. It is not in the jar; the autoscaler brings the real one.
 */
public interface ScalingExecutorPlugin<KEY> {

    /** Plugins with lower numbers come first. */
    default int priority() {
        return 0;
    }

    /** Return what is to be scaled, in place of what the rule found; nothing at all vetoes it. */
    Map<JobVertexID, ScalingSummary> apply(Context<KEY> context, Map<JobVertexID, ScalingSummary> scalingSummaries);

    /** The job that is looked at. */
    class Context<KEY> extends JobAutoScalerContext<KEY> {

        private final EvaluatedMetrics metrics;

        /** Made by the autoscaler; here by tests only, in another way than there. */
        public Context(KEY key, Configuration configuration, EvaluatedMetrics metrics) {
            super(key, null, null, configuration, null, null);
            this.metrics = metrics;
        }

        /** What was evaluated in this look, by vertex. */
        public EvaluatedMetrics getEvaluatedMetrics() {
            return metrics;
        }
    }
}

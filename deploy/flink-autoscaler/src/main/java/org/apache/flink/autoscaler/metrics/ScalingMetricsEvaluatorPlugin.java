package org.apache.flink.autoscaler.metrics;

import java.time.Duration;
import java.util.Map;
import org.apache.flink.autoscaler.JobAutoScalerContext;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobVertexID;

/**
 * The face of Flink's own interface (FLIP-514), to compile against: no release of it can be had from a repository of
 * jars yet. It is not in the jar; the autoscaler brings the real one.
 */
public interface ScalingMetricsEvaluatorPlugin {

    /** Return the metrics of a vertex that are to be others than those that were evaluated. */
    Map<ScalingMetric, EvaluatedScalingMetric> evaluateVertexMetrics(
            JobVertexID vertex, Map<ScalingMetric, EvaluatedScalingMetric> evaluatedMetrics, Context<?> evaluationContext);

    /** The job that is looked at. */
    class Context<KEY> extends JobAutoScalerContext<KEY> {

        private final Duration restartTime;

        /** Made by the autoscaler; here by tests only, in another way than there. */
        public Context(KEY key, Configuration configuration, Duration restartTime) {
            super(key, null, null, configuration, null, null);
            this.restartTime = restartTime;
        }

        /** How long a restart takes, as the rule reckons with it. */
        public Duration getRestartTime() {
            return restartTime;
        }
    }
}

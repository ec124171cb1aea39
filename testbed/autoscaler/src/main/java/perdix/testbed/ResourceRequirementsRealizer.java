package perdix.testbed;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.autoscaler.JobAutoScalerContext;
import org.apache.flink.autoscaler.config.AutoScalerOptions;
import org.apache.flink.autoscaler.realizer.ScalingRealizer;
import org.apache.flink.autoscaler.tuning.ConfigChanges;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.runtime.jobgraph.JobResourceRequirements;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.apache.flink.runtime.jobgraph.JobVertexResourceRequirements;
import org.apache.flink.runtime.rest.messages.EmptyRequestBody;
import org.apache.flink.runtime.rest.messages.JobMessageParameters;
import org.apache.flink.runtime.rest.messages.job.JobResourceRequirementsHeaders;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes the rule's parallelisms real through the adaptive scheduler's resource requirements: 1 is the lower bound and the
 * wanted parallelism the upper one. The rule repeats what it wants at every look; only a change is sent.
 */
final class ResourceRequirementsRealizer implements ScalingRealizer<JobID, JobAutoScalerContext<JobID>> {

    private static final Logger LOG = LoggerFactory.getLogger(ResourceRequirementsRealizer.class);

    @Override
    public void realizeParallelismOverrides(JobAutoScalerContext<JobID> context, Map<String, String> parallelisms)
            throws Exception {
        Duration timeout = context.getConfiguration().get(AutoScalerOptions.FLINK_CLIENT_TIMEOUT);
        try (RestClusterClient<String> client = context.getRestClusterClient()) {
            JobMessageParameters job = new JobMessageParameters();
            job.jobPathParameter.resolve(context.getJobID());
            JobResourceRequirements present = client.sendRequest(
                            JobResourceRequirementsHeaders.INSTANCE, job, EmptyRequestBody.getInstance())
                    .get(timeout.toMillis(), TimeUnit.MILLISECONDS)
                    .asJobResourceRequirements()
                    .orElseThrow(() -> new IllegalStateException(
                            "the cluster knows no resource requirements; is jobmanager.scheduler adaptive?"));
            Map<JobVertexID, JobVertexResourceRequirements> wanted = wanted(present, parallelisms);
            if (wanted.equals(present.getJobVertexParallelisms())) {
                return;
            }
            LOG.info("job {}: rescale {} -> {}", context.getJobID(), upperBounds(present.getJobVertexParallelisms()),
                    upperBounds(wanted));
            client.updateJobResourceRequirements(context.getJobID(), new JobResourceRequirements(wanted))
                    .get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        }
    }

    /** The requirements of all vertices, which the API wants together, with those changed that the rule speaks of. */
    static Map<JobVertexID, JobVertexResourceRequirements> wanted(
            JobResourceRequirements present, Map<String, String> parallelisms) {
        Map<JobVertexID, JobVertexResourceRequirements> wanted = new HashMap<>(present.getJobVertexParallelisms());
        wanted.replaceAll((vertex, requirements) -> {
            String parallelism = parallelisms.get(vertex.toHexString());
            return parallelism == null
                    ? requirements
                    : new JobVertexResourceRequirements(
                            new JobVertexResourceRequirements.Parallelism(1, Integer.parseInt(parallelism)));
        });
        return wanted;
    }

    private static Map<String, Integer> upperBounds(Map<JobVertexID, JobVertexResourceRequirements> requirements) {
        Map<String, Integer> bounds = new TreeMap<>();
        requirements.forEach((vertex, requirement) ->
                bounds.put(vertex.toHexString(), requirement.getParallelism().getUpperBound()));
        return bounds;
    }

    @Override
    public void realizeConfigOverrides(JobAutoScalerContext<JobID> context, ConfigChanges changes) {
        // A change of memory needs new TaskManagers, which a standalone cluster does not start.
        if (!changes.getOverrides().isEmpty() || !changes.getRemovals().isEmpty()) {
            LOG.warn("job {}: no change of configuration in a session cluster: {} {}", context.getJobID(),
                    changes.getOverrides(), changes.getRemovals());
        }
    }
}

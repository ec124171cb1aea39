package perdix.flink;

import java.time.Duration;
import java.util.List;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;

/**
 * What the plugin reads of a job's configuration. The autoscaler's own options stand here once more, with its keys and
 * defaults: the constants that name them there go by other names from release to release.
 */
final class Options {

    static final ConfigOption<String> URL = ConfigOptions.key("job.autoscaler.perdix.url")
            .stringType()
            .noDefaultValue()
            .withDescription("Where perdix publishes its metrics, such as http://perdix.streaming.svc:9464/metrics");
    static final ConfigOption<String> JOB = ConfigOptions.key("job.autoscaler.perdix.stream-job")
            .stringType()
            .noDefaultValue()
            .withFallbackKeys("kubernetes.cluster-id")
            .withDescription("The job's name in perdix; the deployment's where it is left out.");

    static final ConfigOption<Double> UTILIZATION_TARGET = ConfigOptions.key("job.autoscaler.utilization.target")
            .doubleType()
            .defaultValue(0.7)
            .withFallbackKeys(
                    "job.autoscaler.target.utilization",
                    "kubernetes.operator.job.autoscaler.utilization.target",
                    "kubernetes.operator.job.autoscaler.target.utilization");
    static final ConfigOption<Duration> CATCH_UP_DURATION = ConfigOptions.key("job.autoscaler.catch-up.duration")
            .durationType()
            .defaultValue(Duration.ofMinutes(30))
            .withFallbackKeys("kubernetes.operator.job.autoscaler.catch-up.duration");
    static final ConfigOption<List<String>> VERTEX_EXCLUDE_IDS = ConfigOptions.key("job.autoscaler.vertex.exclude.ids")
            .stringType()
            .asList()
            .defaultValues()
            .withFallbackKeys("kubernetes.operator.job.autoscaler.vertex.exclude.ids");

    static final ConfigOption<Integer> VERTEX_MIN_PARALLELISM = ConfigOptions.key("job.autoscaler.vertex.min-parallelism")
            .intType()
            .defaultValue(1)
            .withFallbackKeys("kubernetes.operator.job.autoscaler.vertex.min-parallelism");
    static final ConfigOption<Integer> VERTEX_MAX_PARALLELISM = ConfigOptions.key("job.autoscaler.vertex.max-parallelism")
            .intType()
            .defaultValue(200)
            .withFallbackKeys("kubernetes.operator.job.autoscaler.vertex.max-parallelism");

    private Options() {}
}

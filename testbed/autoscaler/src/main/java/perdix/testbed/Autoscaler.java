package perdix.testbed;

import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.autoscaler.JobAutoScaler;
import org.apache.flink.autoscaler.JobAutoScalerContext;
import org.apache.flink.autoscaler.JobAutoScalerImpl;
import org.apache.flink.autoscaler.RestApiMetricsCollector;
import org.apache.flink.autoscaler.ScalingExecutor;
import org.apache.flink.autoscaler.ScalingMetricEvaluator;
import org.apache.flink.autoscaler.config.AutoScalerOptions;
import org.apache.flink.autoscaler.event.AutoScalerEventHandler;
import org.apache.flink.autoscaler.state.AutoScalerStateStore;
import org.apache.flink.autoscaler.state.InMemoryAutoScalerStateStore;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.client.JobStatusMessage;
import org.apache.flink.runtime.rest.messages.EmptyRequestBody;
import org.apache.flink.runtime.rest.messages.JobMessageParameters;
import org.apache.flink.runtime.rest.messages.job.JobManagerJobConfigurationHeaders;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs the rule of Flink's autoscaler, the library that its Kubernetes operator and its standalone program contain,
 * against the jobs of one cluster. Only the loop, the list of jobs and the realizer are ours: what is collected, evaluated
 * and decided is upstream's code. Ends by SIGTERM or Ctrl-C.
 */
public final class Autoscaler {

    private static final Logger LOG = LoggerFactory.getLogger(Autoscaler.class);

    /** The client wants a name for the cluster and uses it for nothing. */
    private static final String CLUSTER = "testbed";

    private final Arguments arguments;
    private final JobAutoScaler<JobID, JobAutoScalerContext<JobID>> rule;
    private final Set<JobID> seen = new HashSet<>();

    private Autoscaler(Arguments arguments) {
        this.arguments = arguments;
        AutoScalerEventHandler<JobID, JobAutoScalerContext<JobID>> events = Autoscaler::log;
        AutoScalerStateStore<JobID, JobAutoScalerContext<JobID>> state = new InMemoryAutoScalerStateStore<>();
        rule = new JobAutoScalerImpl<>(
                new RestApiMetricsCollector<>(),
                new ScalingMetricEvaluator(),
                new ScalingExecutor<>(events, state),
                events,
                new ResourceRequirementsRealizer(),
                state);
    }

    /**
     * Watch and scale until the process is told to end.
     *
     * @param commandLine see {@link Arguments}
     * @throws InterruptedException never in practice
     */
    public static void main(String[] commandLine) throws InterruptedException {
        Arguments arguments;
        try {
            arguments = Arguments.parse(commandLine);
        } catch (IllegalArgumentException wrong) {
            System.err.println("autoscaler: " + wrong.getMessage());
            System.exit(2);
            return;
        }
        CountDownLatch told = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            told.countDown();
            try {
                // A look that is under way may end: half a rescale would be worse than a late goodbye.
                if (!ended.await(10, TimeUnit.SECONDS)) {
                    LOG.warn("ended while the cluster had not answered for 10 s");
                }
            } catch (InterruptedException hurried) {
                Thread.currentThread().interrupt();
            }
        }, "ending"));
        try {
            new Autoscaler(arguments).run(told);
        } finally {
            ended.countDown();
        }
    }

    private void run(CountDownLatch told) throws InterruptedException {
        LOG.info("watching {} every {} s with {}", arguments.url(), arguments.interval().toMillis() / 1000.0,
                arguments.configuration());
        do {
            look();
        } while (!told.await(arguments.interval().toMillis(), TimeUnit.MILLISECONDS));
        LOG.info("ended");
    }

    /** Let the rule have one look at each job. A cluster that does not answer is looked at again next time. */
    private void look() {
        Collection<JobStatusMessage> jobs;
        try {
            jobs = jobs();
        } catch (Exception unreachable) {
            LOG.warn("no list of jobs from {}: {}", arguments.url(), rootMessage(unreachable));
            return;
        }
        Set<JobID> present = new HashSet<>();
        for (JobStatusMessage job : jobs) {
            if (job.getJobState().isGloballyTerminalState()) {
                continue;
            }
            present.add(job.getJobId());
            try {
                rule.scale(context(job));
            } catch (Exception failed) {
                LOG.warn("job {}: {}", job.getJobId(), rootMessage(failed));
            }
        }
        seen.removeAll(present);
        seen.forEach(rule::cleanup);
        seen.clear();
        seen.addAll(present);
    }

    private Collection<JobStatusMessage> jobs() throws Exception {
        // The loop is the retry. The client's own, which goes on beyond our timeout, ends in stack traces.
        Configuration once = new Configuration(arguments.configuration());
        once.set(RestOptions.RETRY_MAX_ATTEMPTS, 0);
        try (RestClusterClient<String> client = new RestClusterClient<>(once, CLUSTER)) {
            return client.listJobs().get(timeoutMs(), TimeUnit.MILLISECONDS);
        }
    }

    private JobAutoScalerContext<JobID> context(JobStatusMessage job) throws Exception {
        return new JobAutoScalerContext<>(
                job.getJobId(),
                job.getJobId(),
                job.getJobState(),
                configuration(job.getJobId()),
                new UnregisteredMetricsGroup(),
                this::client);
    }

    /** What the rule reports, each report on a line of its own. */
    private static void log(
            JobAutoScalerContext<JobID> context,
            AutoScalerEventHandler.Type type,
            String reason,
            String message,
            String key,
            Duration interval) {
        String line = message.strip().replaceAll("\\s*\\R\\s*", "; ");
        if (type == AutoScalerEventHandler.Type.Warning) {
            LOG.warn("job {}: {}: {}", context.getJobID(), reason, line);
        } else {
            LOG.info("job {}: {}: {}", context.getJobID(), reason, line);
        }
    }

    /** What the rule goes by: the configuration that the JobManager runs the job with, under that of the command line. */
    private Configuration configuration(JobID job) throws Exception {
        JobMessageParameters parameters = new JobMessageParameters();
        parameters.jobPathParameter.resolve(job);
        Configuration configuration = new Configuration();
        try (RestClusterClient<String> client = client()) {
            client.sendRequest(
                            JobManagerJobConfigurationHeaders.getInstance(), parameters, EmptyRequestBody.getInstance())
                    .get(timeoutMs(), TimeUnit.MILLISECONDS)
                    .forEach(entry -> configuration.setString(entry.getKey(), entry.getValue()));
        }
        configuration.addAll(arguments.configuration());
        return configuration;
    }

    private long timeoutMs() {
        return arguments.configuration().get(AutoScalerOptions.FLINK_CLIENT_TIMEOUT).toMillis();
    }

    /** A client of its own for each question, since the library closes the one that it was given. */
    private RestClusterClient<String> client() throws Exception {
        return new RestClusterClient<>(arguments.configuration(), CLUSTER);
    }

    private static String rootMessage(Throwable failed) {
        Throwable root = failed;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        return root.toString();
    }
}

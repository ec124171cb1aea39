package perdix.testbed;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.flink.util.ParameterTool;

/**
 * What a run of the job can be told: {@code --name value} for each field, checked before anything is submitted. The
 * REST API answers a bad option with the message of the exception, so each message names the option.
 *
 * @param bootstrap address of a Kafka broker
 * @param topic topic whose records are lines of words
 * @param group consumer group; its committed offsets are where a new job starts
 * @param name name of the job in Flink
 * @param burnMs service time of a word in ms: thread CPU time, or wall time asleep
 * @param throttle how the service time is spent
 * @param stateBytes bytes of state that each key carries beside its count
 * @param openDelayMs ms that each counting subtask waits when it opens, so that a restart takes as long as elsewhere
 * @param parallelism parallelism of every vertex, and the upper bound of the job's requirements
 * @param maxParallelism number of key groups; no vertex can have more subtasks
 * @param bufferTimeoutMs ms after which a network buffer that is not full is sent
 * @param latencyBucketsMs upper ends of the latency counters in ms; the counter of all records is added
 */
record Options(
        String bootstrap,
        String topic,
        String group,
        String name,
        double burnMs,
        Throttle.Kind throttle,
        int stateBytes,
        long openDelayMs,
        int parallelism,
        int maxParallelism,
        long bufferTimeoutMs,
        List<Long> latencyBucketsMs) {

    /** What ParameterTool makes of a name that no value follows; its constant is not public. */
    private static final String NO_VALUE = ParameterTool.fromArgs(new String[] {"--name"}).get("name");

    private static final String BUCKETS_MS =
            "50,100,200,350,500,750,1000,1500,2000,3000,5000,7500,10000,15000,20000,30000,60000,120000,300000";

    private static final Map<String, String> DEFAULTS = Map.ofEntries(
            Map.entry("bootstrap", "127.0.0.1:19092"),
            Map.entry("topic", "words"),
            Map.entry("group", "wordcount"),
            Map.entry("name", "wordcount"),
            Map.entry("burn-ms", "0.4"),
            Map.entry("throttle", "burn"),
            Map.entry("state-bytes", "0"),
            Map.entry("open-delay-ms", "0"),
            Map.entry("parallelism", "1"),
            Map.entry("max-parallelism", "120"),
            Map.entry("buffer-timeout-ms", "20"),
            Map.entry("objective-buckets", BUCKETS_MS));

    /**
     * Read options from a command line.
     *
     * @param arguments {@code --name value ...}
     * @return the options, with defaults where nothing was said
     * @throws IllegalArgumentException if an option is unknown, or its value cannot be meant
     */
    static Options parse(String... arguments) {
        Map<String, String> given = ParameterTool.fromArgs(arguments).toMap();
        Set<String> unknown = new TreeSet<>(given.keySet());
        unknown.removeAll(DEFAULTS.keySet());
        if (!unknown.isEmpty()) {
            throw new IllegalArgumentException(
                    "unknown option --" + String.join(", --", unknown) + "; known are --"
                            + String.join(", --", new TreeSet<>(DEFAULTS.keySet())));
        }
        Options options = new Options(
                text(given, "bootstrap"),
                text(given, "topic"),
                text(given, "group"),
                text(given, "name"),
                number(given, "burn-ms", 0, 60_000),
                Throttle.Kind.parse(text(given, "throttle")),
                (int) whole(given, "state-bytes", 0, 64 << 20),
                whole(given, "open-delay-ms", 0, 3_600_000),
                (int) whole(given, "parallelism", 1, 1 << 15),
                (int) whole(given, "max-parallelism", 1, 1 << 15),
                whole(given, "buffer-timeout-ms", 0, 60_000),
                buckets(given));
        if (options.parallelism > options.maxParallelism) {
            throw new IllegalArgumentException("--parallelism " + options.parallelism + " is above --max-parallelism "
                    + options.maxParallelism);
        }
        return options;
    }

    private static String text(Map<String, String> given, String name) {
        String value = given.getOrDefault(name, DEFAULTS.get(name));
        if (value.isBlank() || value.equals(NO_VALUE)) {
            throw new IllegalArgumentException("--" + name + " needs a value");
        }
        return value;
    }

    private static double number(Map<String, String> given, String name, double lowest, double highest) {
        String value = text(given, name);
        try {
            double number = Double.parseDouble(value);
            if (number >= lowest && number <= highest) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            throw new IllegalArgumentException("--" + name + " " + value + " is not a number", notANumber);
        }
        throw new IllegalArgumentException(
                "--" + name + " " + value + " is outside of " + lowest + " to " + highest);
    }

    private static long whole(Map<String, String> given, String name, long lowest, long highest) {
        double number = number(given, name, lowest, highest);
        if (number != Math.rint(number)) {
            throw new IllegalArgumentException("--" + name + " " + text(given, name) + " is not a whole number");
        }
        return (long) number;
    }

    private static List<Long> buckets(Map<String, String> given) {
        String name = "objective-buckets";
        List<Long> buckets;
        try {
            buckets = Arrays.stream(text(given, name).split(",")).map(String::trim).map(Long::valueOf).toList();
        } catch (NumberFormatException notANumber) {
            throw new IllegalArgumentException(
                    "--" + name + " " + text(given, name) + " is not a list of ms such as 100,500,1000", notANumber);
        }
        for (int i = 0; i < buckets.size(); i++) {
            if (buckets.get(i) <= (i == 0 ? 0 : buckets.get(i - 1))) {
                throw new IllegalArgumentException("--" + name + " must be positive and rise: " + buckets);
            }
        }
        return buckets;
    }
}

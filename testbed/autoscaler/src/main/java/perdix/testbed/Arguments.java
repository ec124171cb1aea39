package perdix.testbed;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.autoscaler.config.AutoScalerOptions;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;

/**
 * The command line of the autoscaler, checked before the loop begins: a misspelt option of the rule would otherwise be
 * ignored by it, and a run would be taken for a tuned one.
 *
 * @param url address of the JobManager's REST API
 * @param interval pause from the end of one look at the jobs to the next
 * @param configuration options of the rule, and where the client finds the cluster
 */
record Arguments(URI url, Duration interval, Configuration configuration) {

    private static final String USAGE = "Usage: java -jar autoscaler.jar [--url http://127.0.0.1:18081]"
            + " [--interval-s 10] [--job.autoscaler.<option>=<value> ...]";

    /**
     * Read a command line.
     *
     * @param arguments {@code --name=value} or {@code --name value}
     * @return the arguments; the rule is enabled unless they say otherwise
     * @throws IllegalArgumentException if a name is unknown or its value cannot be meant
     */
    static Arguments parse(String... arguments) {
        Map<String, String> given = pairs(arguments);
        URI url = url(take(given, "url", "http://127.0.0.1:18081"));
        Duration interval = interval(take(given, "interval-s", "10"));

        Configuration configuration = new Configuration();
        configuration.set(AutoScalerOptions.AUTOSCALER_ENABLED, true);
        configuration.set(RestOptions.ADDRESS, url.getHost());
        configuration.set(RestOptions.PORT, url.getPort());
        Map<String, ConfigOption<?>> known = options();
        for (Map.Entry<String, String> entry : given.entrySet()) {
            ConfigOption<?> option = known.get(entry.getKey());
            if (option == null) {
                throw refused("--" + entry.getKey() + " is not known; options of the rule are "
                        + String.join(", ", known.keySet()));
            }
            configuration.setString(entry.getKey(), entry.getValue());
            try {
                configuration.get(option);
            } catch (IllegalArgumentException unreadable) {
                throw refused("--" + entry.getKey() + "=" + entry.getValue() + ": " + unreadable.getMessage());
            }
        }
        return new Arguments(url, interval, configuration);
    }

    private static IllegalArgumentException refused(String why) {
        return new IllegalArgumentException(why + "\n" + USAGE);
    }

    private static Map<String, String> pairs(String... arguments) {
        Map<String, String> pairs = new TreeMap<>();
        for (int i = 0; i < arguments.length; i++) {
            String argument = arguments[i];
            if (!argument.startsWith("--")) {
                throw refused(argument + " is not an option");
            }
            int equals = argument.indexOf('=');
            String name = argument.substring(2, equals < 0 ? argument.length() : equals);
            if (equals < 0 && (i + 1 == arguments.length || arguments[i + 1].startsWith("--"))) {
                throw refused("--" + name + " needs a value");
            }
            pairs.put(name, equals < 0 ? arguments[++i] : argument.substring(equals + 1));
        }
        return pairs;
    }

    private static String take(Map<String, String> given, String name, String otherwise) {
        String value = given.remove(name);
        return value == null ? otherwise : value;
    }

    private static URI url(String text) {
        URI url;
        try {
            url = URI.create(text);
        } catch (IllegalArgumentException unreadable) {
            throw refused("--url " + text + ": " + unreadable.getMessage());
        }
        if (!"http".equals(url.getScheme()) || url.getHost() == null || url.getPort() < 0) {
            throw refused("--url " + text + " is not of the form http://127.0.0.1:18081");
        }
        return url;
    }

    private static Duration interval(String text) {
        try {
            double seconds = Double.parseDouble(text);
            if (seconds > 0 && seconds <= 86_400) {
                return Duration.ofMillis(Math.max(1, Math.round(seconds * 1000)));
            }
        } catch (NumberFormatException unreadable) {
            throw refused("--interval-s " + text + " is not a number");
        }
        throw refused("--interval-s " + text + " is outside of 0 to 86400");
    }

    /** Options that the library itself defines, by their names. */
    private static Map<String, ConfigOption<?>> options() {
        Map<String, ConfigOption<?>> options = new TreeMap<>();
        for (Field field : AutoScalerOptions.class.getFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.getType() == ConfigOption.class) {
                try {
                    ConfigOption<?> option = (ConfigOption<?>) field.get(null);
                    options.put(option.key(), option);
                } catch (IllegalAccessException impossible) {
                    throw new IllegalStateException(impossible);
                }
            }
        }
        return options;
    }
}

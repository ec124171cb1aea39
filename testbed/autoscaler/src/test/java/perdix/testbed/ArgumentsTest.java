package perdix.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.time.Duration;
import org.apache.flink.autoscaler.config.AutoScalerOptions;
import org.apache.flink.configuration.RestOptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What the autoscaler understands of its command line. */
class ArgumentsTest {

    @Test
    void withoutArgumentsTheRuleIsOnWithItsOwnDefaults() {
        Arguments arguments = Arguments.parse();
        assertEquals(URI.create("http://127.0.0.1:18081"), arguments.url());
        assertEquals(Duration.ofSeconds(10), arguments.interval());
        assertTrue(arguments.configuration().get(AutoScalerOptions.AUTOSCALER_ENABLED));
        assertEquals(
                AutoScalerOptions.METRICS_WINDOW.defaultValue(),
                arguments.configuration().get(AutoScalerOptions.METRICS_WINDOW));
    }

    @Test
    void optionsOfTheRuleReachItsConfigurationInBothSpellings() {
        Arguments arguments = Arguments.parse(
                "--url", "http://localhost:28081", "--interval-s=2.5", "--job.autoscaler.metrics.window=90s",
                "--job.autoscaler.vertex.max-parallelism", "12");
        assertEquals("localhost", arguments.configuration().get(RestOptions.ADDRESS));
        assertEquals(28081, arguments.configuration().get(RestOptions.PORT));
        assertEquals(Duration.ofMillis(2500), arguments.interval());
        assertEquals(Duration.ofSeconds(90), arguments.configuration().get(AutoScalerOptions.METRICS_WINDOW));
        assertEquals(12, arguments.configuration().get(AutoScalerOptions.VERTEX_MAX_PARALLELISM));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "--job.autoscaler.window=1m | --job.autoscaler.window is not known",
        "--job.autoscaler.metrics.window=soon | --job.autoscaler.metrics.window=soon",
        "--interval-s | --interval-s needs a value",
        "--interval-s 0 | --interval-s 0 is outside",
        "--interval-s often | --interval-s often is not a number",
        "--url https://127.0.0.1:18081 | is not of the form http",
        "--url 127.0.0.1:18081 | --url 127.0.0.1:18081",
        "run | run is not an option",
    })
    void whatCannotBeMeantIsRefusedByName(String line, String expected) {
        IllegalArgumentException refused =
                assertThrows(IllegalArgumentException.class, () -> Arguments.parse(line.trim().split(" ")));
        assertTrue(refused.getMessage().contains(expected), refused.getMessage());
    }
}

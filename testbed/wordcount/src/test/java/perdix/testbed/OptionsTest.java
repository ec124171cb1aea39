package perdix.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What the job understands of its command line. */
class OptionsTest {

    @Test
    void whatIsNotGivenHasADefault() {
        Options options = Options.parse();
        assertEquals("127.0.0.1:19092", options.bootstrap());
        assertEquals(0.4, options.burnMs());
        assertEquals(Throttle.Kind.BURN, options.throttle());
        assertEquals(120, options.maxParallelism());
        assertEquals(300_000, options.latencyBucketsMs().get(options.latencyBucketsMs().size() - 1));
    }

    @Test
    void whatIsGivenIsTaken() {
        Options options = Options.parse(
                "--topic", "t", "--burn-ms", "2.5", "--throttle", "sleep", "--state-bytes", "1024", "--open-delay-ms",
                "3000", "--parallelism", "6", "--objective-buckets", "100, 250");
        assertEquals("t", options.topic());
        assertEquals(2.5, options.burnMs());
        assertEquals(Throttle.Kind.SLEEP, options.throttle());
        assertEquals(1024, options.stateBytes());
        assertEquals(3000, options.openDelayMs());
        assertEquals(6, options.parallelism());
        assertEquals(List.of(100L, 250L), options.latencyBucketsMs());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "--burn 1 | unknown option --burn",
        "--burn-ms fast | --burn-ms fast is not a number",
        "--burn-ms -1 | --burn-ms -1 is outside",
        "--burn-ms NaN | --burn-ms NaN is outside",
        "--throttle nap | --throttle nap is neither burn nor sleep",
        "--state-bytes 1.5 | --state-bytes 1.5 is not a whole number",
        "--parallelism 0 | --parallelism 0 is outside",
        "--parallelism 121 | above --max-parallelism 120",
        "--topic | --topic needs a value",
        "--objective-buckets 500,100 | --objective-buckets must be positive and rise",
        "--objective-buckets soon | --objective-buckets soon is not a list of ms",
    })
    void whatCannotBeMeantIsRefusedByName(String line, String expected) {
        IllegalArgumentException refused =
                assertThrows(IllegalArgumentException.class, () -> Options.parse(line.trim().split(" ")));
        assertTrue(refused.getMessage().contains(expected), refused.getMessage());
    }
}

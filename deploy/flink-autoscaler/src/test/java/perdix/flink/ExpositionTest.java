package perdix.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ExpositionTest {

    private static final double NOW_S = 1_000.0;

    private static String job(String mode, String status, String desired, String validUntil) {
        return "# HELP perdix_desired_scale_out Workers that perdix wants.\n"
                + "# TYPE perdix_desired_scale_out gauge\n"
                + "perdix_desired_scale_out{stream_job=\"ads\"} " + desired + "\n"
                + "perdix_desired_scale_out{stream_job=\"other\"} 9.0\n"
                + "perdix_desired_valid_until_timestamp_seconds{stream_job=\"ads\"} " + validUntil + "\n"
                + "perdix_status_info{status=\"" + status + "\",stream_job=\"ads\"} 1.0\n"
                + "perdix_job_info{engine=\"flink\",mode=\"" + mode
                + "\",policy=\"perdix\",stream_job=\"ads\",target=\"advisory\"} 1.0\n"
                + "perdix_up 1.0\n";
    }

    private static Wish wish(String text) {
        return Exposition.read(text).of("ads", NOW_S);
    }

    @ParameterizedTest
    @CsvSource({
        "acting, FOLLOW", "advise, FOLLOW", "late, FOLLOW", "observing, FOLLOW", "paused, HOLD",
        "blind, SCALE_OUT_ONLY", "unreachable, SCALE_OUT_ONLY", "broken, SCALE_OUT_ONLY", "silent, SCALE_OUT_ONLY",
        "never heard of, SCALE_OUT_ONLY",
    })
    void howTheJobStandsSaysWhatTheAutoscalerMayDo(String status, Wish.Leave leave) {
        assertEquals(leave, wish(job("act", status, "5.0", "1.2e3")).leave);
    }

    @Test
    void whatIsWantedIsFollowed() {
        assertEquals(5, wish(job("act", "advise", "5.0", "1.2e3")).scaleOut);
    }

    @Test
    void aJobThatIsOnlyAdvisedIsLeftAlone() {
        Wish wish = wish(job("advise", "advise", "5.0", "1.2e3"));
        assertEquals(Wish.Leave.DECIDE, wish.leave);
        assertEquals("perdix only advises a scale-out of 5 (mode: advise)", wish.why);
    }

    @ParameterizedTest
    @ValueSource(strings = {"999.9", "0", "NaN", "-Inf", "soon"})
    void aWishThatIsTooOldGivesNothingBack(String validUntil) {
        assertEquals(Wish.Leave.SCALE_OUT_ONLY, wish(job("act", "advise", "5.0", validUntil)).leave);
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "-1", "2.5", "NaN", "+Inf", "1e300", "five"})
    void whatIsNoScaleOutGivesNothingBack(String desired) {
        assertEquals(Wish.Leave.SCALE_OUT_ONLY, wish(job("act", "advise", desired, "1.2e3")).leave);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "<html>not perdix</html>", "perdix_status_info{", "perdix_up 0.0"})
    void whereThereIsNoSuchJobTheRuleDecides(String text) {
        assertEquals(Wish.Leave.DECIDE, wish(text).leave);
    }

    @ParameterizedTest
    @ValueSource(strings = {"perdix_status_info", "perdix_job_info"})
    void whoCannotReadItsStoreOrItsJobFileLetsNothingBeGivenBack(String gone) {
        String text = job("act", "advise", "5.0", "1.2e3").replaceAll("(?m)^" + gone + ".*$", "");
        assertEquals(Wish.Leave.SCALE_OUT_ONLY, wish(text).leave);
    }

    @Test
    void namesMayHoldWhatPrometheusEscapes() {
        String name = "a\\\"b\\\\n";
        String text = job("act", "acting", "3", "2000").replace("\"ads\"", "\"" + name + "\"");
        assertEquals(3, Exposition.read(text).of("a\"b\\n", NOW_S).scaleOut);
    }
}

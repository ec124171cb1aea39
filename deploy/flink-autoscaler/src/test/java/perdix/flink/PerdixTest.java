package perdix.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.configuration.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(20)
class PerdixTest {

    private static final String ANSWER = "perdix_desired_scale_out{stream_job=\"ads\"} 5.0\n"
            + "perdix_desired_valid_until_timestamp_seconds{stream_job=\"ads\"} 1900\n"
            + "perdix_status_info{status=\"advise\",stream_job=\"ads\"} 1.0\n"
            + "perdix_job_info{mode=\"act\",stream_job=\"ads\"} 1.0\n";

    private final AtomicInteger asked = new AtomicInteger();
    private final Hands hands = new Hands();
    private volatile int status = 200;
    private volatile String answer = ANSWER;
    private HttpServer server;
    private Perdix perdix;

    /** A clock that is set by hand. */
    private static final class Hands extends Clock {

        private volatile Instant now = Instant.ofEpochSecond(1_000);

        @Override
        public Instant instant() {
            return now;
        }

        @Override
        public ZoneOffset getZone() {
            return ZoneOffset.UTC;
        }

        @Override
        public Clock withZone(java.time.ZoneId zone) {
            return this;
        }
    }

    @BeforeEach
    void serve() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newCachedThreadPool(work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        }));
        server.createContext("/metrics", exchange -> {
            asked.incrementAndGet();
            byte[] body = answer.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(body);
            }
        });
        server.start();
        perdix = new Perdix(Perdix.metricsOf("http://127.0.0.1:" + server.getAddress().getPort()), hands);
    }

    @AfterEach
    void end() {
        server.stop(0);
    }

    private Wish.Leave after(int seconds) {
        hands.now = hands.now.plusSeconds(seconds);
        return perdix.wish("ads").leave;
    }

    @Test
    void oneAnswerServesAllVerticesOfALook() {
        assertEquals(Wish.Leave.FOLLOW, after(0));
        assertEquals(Wish.Leave.FOLLOW, after(1));
        assertEquals(1, asked.get());
        after((int) Perdix.FRESH.toSeconds());
        assertEquals(2, asked.get());
    }

    @Test
    void whileItDoesNotAnswerTheLastAnswerCountsAsLongAsItWasMeantTo() {
        after(0);
        status = 503;
        assertEquals(Wish.Leave.FOLLOW, after(60));
        assertEquals(Wish.Leave.SCALE_OUT_ONLY, after(900));
        status = 200;
        answer = ANSWER.replace("1900", "9000");
        assertEquals(Wish.Leave.FOLLOW, after(60));
    }

    @Test
    void aPauseCountsNoLongerThanTheAnswerThatReportedIt() {
        answer = ANSWER.replace("advise", "paused");
        assertEquals(Wish.Leave.HOLD, after(0));
        assertEquals(Wish.Leave.HOLD, after(7 * 86_400)); // a long pause of a perdix that answers
        status = 503;
        assertEquals(Wish.Leave.HOLD, after(60));
        assertEquals(Wish.Leave.SCALE_OUT_ONLY, after((int) Perdix.COUNTS.toSeconds()));
        status = 200;
        assertEquals(Wish.Leave.HOLD, after(60));
    }

    @Test
    void whoDoesNotAnswerIsNotAskedByEachLook() {
        status = 503;
        after(0);
        after((int) Perdix.FRESH.toSeconds());
        assertEquals(1, asked.get());
        after((int) Perdix.PAUSE.toSeconds());
        assertEquals(2, asked.get());
    }

    @Test
    void aClockThatIsSetBackAsksAnew() {
        after(0);
        after(-3_600);
        assertEquals(2, asked.get());
    }

    @Test
    void whoNeverAnsweredLetsNothingBeGivenBack() {
        server.stop(0);
        Wish wish = perdix.wish("ads");
        assertEquals(Wish.Leave.SCALE_OUT_ONLY, wish.leave);
        assertTrue(wish.why.startsWith("perdix does not answer: "), wish.why);
    }

    @Test
    void anAnswerWithoutEndIsNotRead() {
        answer = "#".repeat(17 << 20);
        Wish wish = perdix.wish("ads");
        assertEquals("perdix does not answer: java.io.IOException: an answer of more than 16 MiB", wish.why);
    }

    @Test
    void anAnswerThatDoesNotComeIsNotWaitedFor() throws IOException {
        server.createContext("/slow", exchange -> {
            exchange.sendResponseHeaders(200, 0);
            for (int k = 0; k < 40; k++) { // a drip: each byte comes in time, all of them do not
                exchange.getResponseBody().write('#');
                exchange.getResponseBody().flush();
                try {
                    Thread.sleep(250);
                } catch (InterruptedException ended) {
                    return;
                }
            }
        });
        Perdix slow = new Perdix(URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/slow"), hands);
        long began = System.nanoTime();
        assertEquals(Wish.Leave.SCALE_OUT_ONLY, slow.wish("ads").leave);
        assertTrue(Duration.ofNanos(System.nanoTime() - began).toSeconds() < 6);
    }

    @ParameterizedTest
    @ValueSource(strings = {"perdix:9464", "ftp://perdix/metrics", "http:///metrics", "", "http://a b"})
    void whatIsNoAddressIsSaid(String url) {
        assertThrows(IllegalArgumentException.class, () -> Perdix.metricsOf(url));
        Configuration configuration = new Configuration();
        configuration.set(Options.URL, url);
        configuration.set(Options.JOB, "ads");
        assertEquals(Wish.Leave.DECIDE, Perdix.wish(configuration).leave);
    }

    @Test
    void aPortThatCannotBeFailsNoLook() {
        Configuration configuration = new Configuration();
        configuration.set(Options.URL, "http://127.0.0.1:99999");
        configuration.set(Options.JOB, "ads");
        assertEquals(Wish.Leave.SCALE_OUT_ONLY, Perdix.wish(configuration).leave);
    }

    @Test
    void withoutOptionsTheRuleDecides() {
        assertEquals("job.autoscaler.perdix.url is not set", Perdix.wish(new Configuration()).why);
    }

    @Test
    void theDeploymentsNameIsTheJobsWhereNoOtherIsGiven() {
        Configuration configuration = new Configuration();
        configuration.setString("kubernetes.cluster-id", "ads");
        assertEquals("ads", configuration.get(Options.JOB));
    }
}

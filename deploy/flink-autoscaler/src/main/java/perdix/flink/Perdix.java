package perdix.flink;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.configuration.Configuration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The perdix that is asked, and its newest answer, which all jobs and both plugins share. */
final class Perdix {

    /** An answer counts for so long: a look at a job asks once for each of its vertices. */
    static final Duration FRESH = Duration.ofSeconds(5);
    /** After no answer: looks wait for each attempt, and what was answered last still counts. */
    static final Duration PAUSE = Duration.ofSeconds(30);
    /** A pause counts for so long after the answer that reported it: as long as what perdix wants. */
    static final Duration COUNTS = Duration.ofMinutes(15);
    private static final Duration LONGEST = Duration.ofSeconds(3);
    private static final int MOST_BYTES = 16 << 20;
    private static final Logger LOG = LoggerFactory.getLogger(Perdix.class);
    private static final Map<URI, Perdix> ASKED = new ConcurrentHashMap<>();

    private final URI url;
    private final Clock clock;
    private Exposition answer;
    private long askedMs = Long.MIN_VALUE;
    private long answeredMs = Long.MIN_VALUE;
    private String failure = "";

    Perdix(URI url, Clock clock) {
        this.url = url;
        this.clock = clock;
    }

    /** What perdix wants of the job that a configuration is of. Never fails: whoever cannot be asked wants nothing. */
    static Wish wish(Configuration configuration) {
        String given = configuration.get(Options.URL);
        String job = configuration.get(Options.JOB);
        if (given == null || job == null) {
            return Wish.other(Wish.Leave.DECIDE, (given == null ? Options.URL : Options.JOB).key() + " is not set");
        }
        URI url;
        try {
            url = metricsOf(given);
        } catch (IllegalArgumentException wrong) {
            return Wish.other(Wish.Leave.DECIDE, Options.URL.key() + ": " + wrong.getMessage());
        }
        return ASKED.computeIfAbsent(url, one -> new Perdix(one, Clock.systemUTC())).wish(job);
    }

    /** The address of the metrics that are needed, with nothing else in the answer. */
    static URI metricsOf(String url) {
        URI given = URI.create(url.strip());
        if (given.getHost() == null || !("http".equals(given.getScheme()) || "https".equals(given.getScheme()))) {
            throw new IllegalArgumentException("'" + url + "' is no address such as http://perdix:9464/metrics");
        }
        String path = given.getPath() == null || given.getPath().length() < 2 ? "/metrics" : given.getPath();
        String names = Stream.of(Exposition.DESIRED, Exposition.VALID_UNTIL, Exposition.STATUS, Exposition.JOB)
                .map(name -> URLEncoder.encode("name[]", StandardCharsets.UTF_8) + "=" + name)
                .collect(Collectors.joining("&"));
        return URI.create(given.getScheme() + "://" + given.getAuthority() + path + "?" + names);
    }

    /**
     * What perdix wants of a job. While it does not answer, its last answer counts for as long as that was meant to;
     * then nothing is given back until it answers again.
     */
    synchronized Wish wish(String job) {
        long nowMs = clock.millis();
        if (askedMs == Long.MIN_VALUE || Math.abs(nowMs - askedMs) >= (failure.isEmpty() ? FRESH : PAUSE).toMillis()) {
            ask();
            askedMs = clock.millis();
        }
        if (answer == null) {
            return Wish.other(Wish.Leave.SCALE_OUT_ONLY, "perdix does not answer: " + failure);
        }
        Wish wish = answer.of(job, clock.millis() / 1_000.0);
        if (wish.leave == Wish.Leave.HOLD && Math.abs(clock.millis() - answeredMs) > COUNTS.toMillis()) {
            return Wish.other(Wish.Leave.SCALE_OUT_ONLY, "perdix was paused, and does not answer: " + failure);
        }
        return wish;
    }

    private void ask() {
        String failed = "";
        try {
            answer = Exposition.read(read());
            answeredMs = clock.millis();
        } catch (IOException | RuntimeException unreachable) { // of an address that no connection can be made to
            failed = unreachable.toString();
        }
        if (!failed.equals(failure)) {
            LOG.warn(failed.isEmpty() ? "perdix answers again at {}{}" : "perdix at {}: {}", url, failed);
        }
        failure = failed;
    }

    /** Read the whole answer, within a limit of time and one of size. */
    private String read() throws IOException {
        long began = System.nanoTime();
        HttpURLConnection connection = (HttpURLConnection) url.toURL().openConnection();
        connection.setConnectTimeout((int) LONGEST.toMillis());
        connection.setReadTimeout((int) LONGEST.toMillis());
        connection.setInstanceFollowRedirects(false);
        try {
            if (connection.getResponseCode() != HttpURLConnection.HTTP_OK) {
                throw new IOException("HTTP " + connection.getResponseCode());
            }
            ByteArrayOutputStream found = new ByteArrayOutputStream();
            try (InputStream body = connection.getInputStream()) {
                byte[] some = new byte[1 << 16];
                for (int read = body.read(some); read >= 0; read = body.read(some)) {
                    found.write(some, 0, read);
                    if (found.size() > MOST_BYTES) {
                        throw new IOException("an answer of more than " + (MOST_BYTES >> 20) + " MiB");
                    }
                    if (System.nanoTime() - began > LONGEST.toNanos()) {
                        throw new IOException("the answer was not whole after " + LONGEST.toSeconds() + " s");
                    }
                }
            }
            return found.toString(StandardCharsets.UTF_8);
        } finally {
            connection.disconnect();
        }
    }
}

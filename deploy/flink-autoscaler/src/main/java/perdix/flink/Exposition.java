package perdix.flink;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The metrics of all jobs, as {@code perdix metrics} or {@code perdix controller --metrics-port} writes them, and what
 * follows from them for one job.
 */
final class Exposition {

    static final String DESIRED = "perdix_desired_scale_out";
    static final String VALID_UNTIL = "perdix_desired_valid_until_timestamp_seconds";
    static final String STATUS = "perdix_status_info";
    static final String JOB = "perdix_job_info";

    private static final Pattern SAMPLE = Pattern.compile("^([a-zA-Z_:][\\w:]*)\\{(.*)\\} (\\S+)(?: .*)?$");
    private static final Pattern ESCAPED = Pattern.compile("\\\\(.)");
    private static final Pattern LABEL = Pattern.compile("(\\w+)=\"((?:[^\"\\\\]|\\\\.)*)\",?");

    private final Map<String, Double> desired = new HashMap<>();
    private final Map<String, Double> validUntilS = new HashMap<>();
    private final Map<String, String> status = new HashMap<>();
    private final Map<String, String> mode = new HashMap<>();

    /** Read what a scrape answered; lines of other metrics are passed over. */
    static Exposition read(String text) {
        Exposition found = new Exposition();
        text.lines().forEach(found::take);
        return found;
    }

    private void take(String line) {
        Matcher sample = SAMPLE.matcher(line);
        if (!sample.matches()) {
            return;
        }
        Map<String, String> labels = labels(sample.group(2));
        String job = labels.get("stream_job");
        if (job == null) {
            return;
        }
        switch (sample.group(1)) {
            case DESIRED:
                desired.put(job, number(sample.group(3)));
                break;
            case VALID_UNTIL:
                validUntilS.put(job, number(sample.group(3)));
                break;
            case STATUS:
                status.put(job, labels.getOrDefault("status", ""));
                break;
            case JOB:
                mode.put(job, labels.getOrDefault("mode", ""));
                break;
            default:
        }
    }

    private static Map<String, String> labels(String text) {
        Map<String, String> found = new HashMap<>();
        Matcher label = LABEL.matcher(text);
        while (label.find()) {
            found.put(label.group(1), unescaped(label.group(2)));
        }
        return found;
    }

    private static String unescaped(String value) {
        return ESCAPED.matcher(value).replaceAll(found -> {
            String sign = found.group(1).equals("n") ? "\n" : found.group(1);
            return Matcher.quoteReplacement(sign);
        });
    }

    private static double number(String text) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException notOne) {
            return Double.NaN;
        }
    }

    /**
     * What perdix wants of a job at a point in time.
     *
     * @param job its name in perdix
     * @param nowS epoch seconds
     */
    Wish of(String job, double nowS) {
        String how = status.get(job);
        String said = mode.get(job);
        if (how == null && said == null) {
            return Wish.other(Wish.Leave.DECIDE, "perdix knows no job '" + job + "'");
        }
        if (said != null && !said.equals("act")) {
            return Wish.other(Wish.Leave.DECIDE, "perdix only advises" + wanted(job) + " (mode: " + said + ")");
        }
        if (how == null || said == null) { // its store or its job file cannot be read now
            String what = how == null ? "how the job stands" : "what its job file says";
            return Wish.other(Wish.Leave.SCALE_OUT_ONLY, "perdix cannot say " + what);
        }
        switch (how) {
            case "paused":
                return Wish.other(Wish.Leave.HOLD, "perdix is paused");
            case "acting":
            case "advise": // it does not ask Flink itself
            case "late": // this tick did not come to it
            case "observing": // another controller looks after it
                return following(job, nowS);
            default:
                return Wish.other(Wish.Leave.SCALE_OUT_ONLY, "perdix cannot judge the job now (" + how + ")");
        }
    }

    private Wish following(String job, double nowS) {
        double wanted = desired.getOrDefault(job, Double.NaN);
        boolean whole = wanted >= 1 && wanted <= Integer.MAX_VALUE && wanted == Math.rint(wanted);
        if (!whole || !(nowS <= validUntilS.getOrDefault(job, Double.NaN))) {
            return Wish.other(Wish.Leave.SCALE_OUT_ONLY, "perdix has no scale-out that still counts");
        }
        return Wish.follow((int) wanted);
    }

    private String wanted(String job) {
        Double found = desired.get(job);
        return found == null ? "" : String.format(Locale.ROOT, " a scale-out of %.0f", found);
    }
}

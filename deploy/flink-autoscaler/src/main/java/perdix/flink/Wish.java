package perdix.flink;

import org.apache.flink.configuration.Configuration;

/** What perdix wants of one job, as far as it binds Flink's autoscaler. */
final class Wish {

    /** What the autoscaler may do. */
    enum Leave {
        /** Go to the scale-out that perdix wants, or stay at it. */
        FOLLOW,
        /** Change nothing. */
        HOLD,
        /** Decide by its own rule, but give nothing back: perdix cannot judge the job now. */
        SCALE_OUT_ONLY,
        /** Decide by its own rule. */
        DECIDE
    }

    final Leave leave;

    /** The scale-out that is wanted; of no meaning unless it is followed. */
    final int scaleOut;

    /** Why, in words. */
    final String why;

    private Wish(Leave leave, int scaleOut, String why) {
        this.leave = leave;
        this.scaleOut = scaleOut;
        this.why = why;
    }

    static Wish follow(int scaleOut) {
        return new Wish(Leave.FOLLOW, scaleOut, "perdix wants a scale-out of " + scaleOut);
    }

    static Wish other(Leave leave, String why) {
        return new Wish(leave, 0, why);
    }

    /** The parallelism that a vertex is to have, within its own maximum and the autoscaler's bounds for vertices. */
    int of(int runs, int maxParallelism, Configuration configuration) {
        int lowest = Math.min(runs, configuration.get(Options.VERTEX_MIN_PARALLELISM));
        int highest = Math.max(runs, configuration.get(Options.VERTEX_MAX_PARALLELISM));
        int most = maxParallelism > 0 ? Math.min(maxParallelism, highest) : highest;
        return Math.min(Math.max(scaleOut, lowest), most);
    }

    @Override
    public String toString() {
        return why;
    }
}

package perdix.testbed;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/**
 * The stream job that the testbed scales: lines from Kafka, split into words, each counted at a price. Two vertices,
 * {@code Source: words -> split} and {@code count -> sink}. Checkpoints, state backend and restarts are the cluster's
 * settings.
 */
public final class WordCount {

    private WordCount() {}

    /**
     * Submit the job.
     *
     * @param arguments see {@link Options}
     * @throws Exception if an option is wrong or the cluster refuses the job
     */
    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        build(environment, options);
        environment.execute(options.name());
    }

    static void build(StreamExecutionEnvironment environment, Options options) {
        environment.setParallelism(options.parallelism());
        environment.setMaxParallelism(options.maxParallelism());
        environment.setBufferTimeout(options.bufferTimeoutMs());
        environment.getConfig().enableObjectReuse();

        // Without watermarks, but the strategy leaves each record the timestamp that Kafka gave it.
        environment
                .fromSource(source(options), WatermarkStrategy.noWatermarks(), "words")
                .uid("words")
                .flatMap(new Words())
                .returns(Words.Word.class)
                .name("split")
                .uid("split")
                .keyBy(Words.Word::text, Types.STRING)
                .process(new Count(options))
                .name("count")
                .uid("count")
                .process(new LatencySink(options))
                .returns(Types.VOID)
                .name("sink")
                .uid("sink");
    }

    /** Kafka deprecates the enumeration of reset strategies, which is the only one that the connector takes. */
    @SuppressWarnings("deprecation")
    private static KafkaSource<String> source(Options options) {
        return KafkaSource.<String>builder()
                .setBootstrapServers(options.bootstrap())
                .setTopics(options.topic())
                .setGroupId(options.group())
                .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.LATEST))
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .setProperty("commit.offsets.on.checkpoint", "true")
                // What a reader has fetched but not handed on is missing in the lag that it reports (pendingRecords), and it
                // learns the end of a partition only when it fetches: with the defaults (500 records, 1 MB, 2 batches)
                // 3 of 4 records of an overload of some seconds were hidden.
                .setProperty("max.poll.records", "20")
                .setProperty("max.partition.fetch.bytes", "4096")
                .setProperty("source.reader.element.queue.capacity", "1")
                // A fetch costs as much CPU as a record or more: one per record would make CPU load a matter of how
                // records are spaced, and not of how many there are.
                .setProperty("fetch.min.bytes", "4096")
                .setProperty("fetch.max.wait.ms", "100")
                .build();
    }
}

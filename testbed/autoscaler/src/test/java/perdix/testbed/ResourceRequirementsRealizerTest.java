package perdix.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.apache.flink.runtime.jobgraph.JobResourceRequirements;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.apache.flink.runtime.jobgraph.JobVertexResourceRequirements;
import org.junit.jupiter.api.Test;

/** What is asked of the adaptive scheduler for what the rule wants. */
class ResourceRequirementsRealizerTest {

    private static final JobVertexID SOURCE = new JobVertexID();
    private static final JobVertexID COUNT = new JobVertexID();

    private static final JobResourceRequirements PRESENT = JobResourceRequirements.newBuilder()
            .setParallelismForJobVertex(SOURCE, 1, 4)
            .setParallelismForJobVertex(COUNT, 1, 2)
            .build();

    private static JobVertexResourceRequirements between(int lower, int upper) {
        return new JobVertexResourceRequirements(new JobVertexResourceRequirements.Parallelism(lower, upper));
    }

    @Test
    void aVertexThatTheRuleDoesNotSpeakOfKeepsItsBounds() {
        assertEquals(
                Map.of(SOURCE, between(1, 4), COUNT, between(1, 3)),
                ResourceRequirementsRealizer.wanted(PRESENT, Map.of(COUNT.toHexString(), "3")));
    }

    @Test
    void whatIsThereAlreadyIsNoChange() {
        assertEquals(
                PRESENT.getJobVertexParallelisms(),
                ResourceRequirementsRealizer.wanted(
                        PRESENT, Map.of(COUNT.toHexString(), "2", SOURCE.toHexString(), "4")));
    }

    @Test
    void aVertexThatTheJobDoesNotHaveIsLeftOut() {
        assertEquals(
                PRESENT.getJobVertexParallelisms(),
                ResourceRequirementsRealizer.wanted(PRESENT, Map.of(new JobVertexID().toHexString(), "9")));
    }
}

"""A job of Flink: what is asked of the JobManager, what is read back, and what each refusal means."""

import pytest

from perdix.settings.targets import FlinkSettings
from perdix.targets.contract import Fault, Running, TargetError
from perdix.targets.flink.target import FlinkTarget, Pace
from tests.targets.flink_api import FlinkCluster, Vertex, a_job


@pytest.fixture
def cluster():
    cluster = FlinkCluster([a_job()])
    yield cluster
    cluster.close()


class PatientClock:
    """Time that passes only while somebody pauses."""

    def __init__(self):
        self.now_s, self.pauses = 0.0, []

    def elapsed_s(self):
        return self.now_s

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock():
    return PatientClock()


def target_of(cluster, job="orders", timeout_s=5.0, clock=None, **settings):
    clock = clock or PatientClock()
    pace = Pace(clock.elapsed_s, clock.pause)
    return FlinkTarget(FlinkSettings(url=cluster.url, **settings), job, timeout_s, pace)


@pytest.fixture
def target(cluster, clock):
    with target_of(cluster, clock=clock) as target:
        yield target


def acted(cluster):
    return [(method, path.rsplit("/", 1)[1]) for method, path, _ in cluster.asked if method != "GET"]


PUT, POST = ("PUT", "resource-requirements"), ("POST", "checkpoints")


def test_one_rescale_asks_at_most_four_requests(cluster, target):
    cluster.checkpoints_pass = True
    target.scale(4, "the first also asks what the cluster is like")
    for key, scale_out in (("a", 1), ("b", 3)):
        target.read()
        before = len(cluster.asked)
        target.scale(scale_out, key)
        assert len(cluster.asked) - before <= 4, cluster.asked[before:]
        assert target.read() == Running(scale_out, scale_out, settled=True)


@pytest.mark.parametrize("changes", [{}, {"configuration": {}, "version": "1.20.1"}])
def test_where_flink_rescales_at_once_the_checkpoint_is_complete_before_it(cluster, target, changes):
    vars(cluster).update(changes, looks=2)
    assert target.scale(4, "a") == Running(2, 4, settled=False)
    assert cluster.puts() == [{"s" * 32: (1, 4), "c" * 32: (1, 4)}]
    assert acted(cluster) == [POST, PUT]
    looked = [path for method, path, _ in cluster.asked if path.endswith("/checkpoints/r")]
    assert len(looked) == 3


def test_where_it_waits_for_a_checkpoint_that_follows_once_free_slots_are_the_jobs(cluster, target, clock):
    cluster.configuration = {}
    cluster.checkpoints_pass = True
    assert target.scale(4, "a") == Running(2, 4, settled=False)
    assert acted(cluster) == [PUT, POST]
    assert clock.pauses == [1.0]
    assert target.read() == Running(4, 4, settled=True)
    target.scale(3, "b")
    assert clock.pauses == [1.0], "a scale-in needs no slots"


def test_it_waits_for_the_end_of_the_cooldown_in_which_checkpoints_are_ignored(cluster, target, clock):
    cluster.configuration = {}
    cluster.jobs[0].runs_since_s = 26.0
    assert target.scale(1, "a").note == ""
    assert clock.pauses == [pytest.approx(4.0, abs=0.1)]
    assert acted(cluster) == [PUT, POST]


def test_a_job_that_does_not_tell_since_when_it_runs_is_not_waited_for(cluster, target, clock):
    cluster.jobs[0].runs_since_s = None
    assert target.scale(1, "a").note == ""
    assert sum(clock.pauses) < 1.0


def test_a_tick_does_not_wait_for_a_long_cooldown(cluster, target, clock):
    cluster.configuration = {"jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 min"}
    cluster.jobs[0].runs_since_s = 20.0
    assert target.scale(1, "a").note == "Flink rescales once its cooldown is over, in 40 s"
    assert clock.pauses == []
    assert acted(cluster) == [PUT], "a checkpoint of now would do nothing"


def test_no_checkpoint_is_made_of_a_job_that_is_not_there_as_a_whole(cluster, target, clock):
    cluster.jobs[0].state = "RESTARTING"
    assert target.scale(1, "a") == Running(2, 1, settled=False)
    assert acted(cluster) == [PUT]


def test_a_checkpoint_that_takes_too_long_does_not_keep_the_rescale(cluster, target, clock):
    cluster.looks = 1_000
    running = target.scale(4, "a")
    assert running.note == "its checkpoint was not complete within 10 s, so more is read again"
    assert running.requested == 4
    assert clock.now_s == pytest.approx(10.0)
    assert acted(cluster) == [POST, PUT]


def test_a_checkpoint_that_fails_does_not_keep_it_either(cluster, target):
    cluster.failure = "disk full"
    assert target.scale(4, "a").note == "the checkpoint before it failed, so more is read again"
    assert target.read().requested == 4


def test_the_guard_is_asked_after_every_wait_and_right_before_the_request(cluster, target):
    cluster.looks = 3
    asked = []
    target.scale(4, "a", guard=lambda: asked.extend(cluster.asked))
    assert [method for method, *_ in asked].count("POST") == 1
    assert cluster.asked[len(asked)][0] == "PUT"


def test_what_somebody_else_asks_for_meanwhile_is_not_asked_again(cluster, target):
    def somebody():
        for vertex in cluster.jobs[0].vertices:
            vertex.upper = 4

    cluster.meanwhile["POST checkpoints"] = somebody
    target.scale(4, "a")
    assert cluster.puts() == []


def test_lower_bounds_that_others_set_while_a_checkpoint_was_made_are_kept(cluster, target):
    cluster.meanwhile["POST checkpoints"] = lambda: setattr(cluster.jobs[0].vertices[0], "lower", 2)
    target.scale(4, "a")
    assert cluster.puts() == [{"s" * 32: (2, 4), "c" * 32: (1, 4)}]


def test_what_a_read_found_long_ago_is_read_again(cluster, target, clock):
    target.read()
    cluster.jobs[0].vertices[0].most = 3
    clock.now_s += 60.0
    target.scale(6, "a")
    assert cluster.puts() == [{"s" * 32: (1, 3), "c" * 32: (1, 6)}]


def test_a_cluster_that_does_not_show_its_configuration_is_taken_for_a_usual_one(cluster, target):
    cluster.refusals = {"GET /jobmanager/config": (403, "no")}
    target.scale(4, "a")
    assert acted(cluster) == [PUT, POST]


def test_it_is_settled_when_the_new_parallelism_really_runs(cluster, target):
    target.scale(4, "a")
    assert target.read() == Running(2, 4, settled=False)
    cluster.complete_checkpoint()
    assert target.read() == Running(4, 4, settled=True)


def test_a_scale_in_waits_for_its_checkpoint_too(cluster, target):
    target.scale(1, "a")
    assert not target.read().settled
    cluster.complete_checkpoint()
    assert target.read() == Running(1, 1, settled=True)


def test_while_slots_are_missing_less_runs_and_nothing_more_is_to_come(cluster, target):
    cluster.slots = 3
    target.scale(5, "a")
    cluster.complete_checkpoint()
    assert target.read() == Running(3, 5, settled=True)
    cluster.slots = 5
    assert not target.read().settled, "slots have come, so Flink is about to use them"


def test_slots_that_other_jobs_hold_are_not_waited_for(cluster, target):
    cluster.slots = 6
    cluster.jobs.append(a_job(3, name="bills", jid="d" * 32))
    target.scale(5, "a")
    assert not target.read().settled
    for vertex in cluster.jobs[0].vertices:
        vertex.running = 3
    assert target.read() == Running(3, 5, settled=True)


def in_two_groups(job, *running):
    for vertex, group, count in zip(job.vertices, ("g" * 32, "h" * 32), running, strict=True):
        vertex.group, vertex.running = group, count
    return job


def test_a_job_of_two_slot_sharing_groups_holds_the_slots_of_both(cluster, target):
    cluster.slots = 9
    target.scale(6, "a")
    in_two_groups(cluster.jobs[0], 4, 5)
    assert target.read() == Running(5, 6, settled=True)
    before = len(cluster.asked)
    assert target.read().settled
    assert [path.rsplit("/", 1)[1] for _, path, _ in cluster.asked[before:]] == [
        "overview",
        "a" * 32,
        "resource-requirements",
        "overview",
    ]
    cluster.slots = 10
    assert target.read() == Running(5, 6, settled=False)


def test_another_job_of_two_slot_sharing_groups_leaves_less(cluster, target):
    cluster.slots = 9
    cluster.jobs.append(in_two_groups(a_job(name="bills", jid="d" * 32), 4, 2))
    target.scale(5, "a")
    in_two_groups(cluster.jobs[0], 2, 1)
    assert target.read() == Running(2, 5, settled=True)
    assert target.read_dataflow().slots == 3


def test_more_than_the_job_can_ever_have_is_refused_for_good(cluster, target):
    with pytest.raises(TargetError, match=r"maximum parallelism of 128, asked was 200; lower the bounds") as refused:
        target.scale(200, "a")
    assert (refused.value.retriable, refused.value.most) == (False, 128)
    assert cluster.puts() == []


def test_a_job_that_restarts_is_not_settled(cluster, target):
    cluster.jobs[0].state = "RESTARTING"
    assert target.read() == Running(2, 2, settled=False)


def test_a_job_of_which_nothing_is_deployed_yet_is_not_settled(cluster, target):
    for vertex in cluster.jobs[0].vertices:
        vertex.running = 0
    assert target.read() == Running(2, 2, settled=False)


def test_what_is_asked_for_already_is_not_asked_again(cluster, target):
    assert target.scale(2, "a") == Running(2, 2, settled=True)
    assert cluster.puts() == []


def test_a_vertex_that_cannot_have_so_many_gets_what_it_can(cluster, target):
    cluster.jobs[0].vertices[0].most = 3
    target.scale(6, "a")
    assert cluster.puts() == [{"s" * 32: (1, 3), "c" * 32: (1, 6)}]


def test_a_lower_bound_that_an_operator_set_is_kept_as_far_as_it_fits(cluster, target):
    cluster.jobs[0].vertices[0].lower = 2
    target.scale(4, "a")
    target.scale(1, "b")
    assert [put["s" * 32] for put in cluster.puts()] == [(2, 4), (1, 1)]


def test_single_operators_are_scaled_and_the_others_left(cluster, target):
    running = target.scale_operators({"count -> sink": 5}, "a")
    assert cluster.puts() == [{"s" * 32: (1, 2), "c" * 32: (1, 5)}]
    assert running.requested == 5
    cluster.complete_checkpoint()
    assert target.operators() == {"Source: words -> split": 2, "count -> sink": 5}
    assert target.requested_operators() == target.operators()
    target.scale_operators({"count -> sink": 5}, "a")
    assert len(cluster.puts()) == 1
    with pytest.raises(TargetError, match="was used for 5 workers"):
        target.scale_operators({"count -> sink": 4}, "a")


def test_an_operator_that_is_not_there_is_refused_and_those_that_are_named(target):
    with pytest.raises(
        TargetError, match="no operator 'sort'; it has Source: words -> split, count -> sink"
    ) as refused:
        target.scale_operators({"sort": 2}, "a")
    assert not refused.value.retriable


def test_without_checkpoints_the_rescale_is_left_to_flink(cluster):
    with target_of(cluster, checkpoint=False) as target:
        target.scale(4, "a")
    assert [method for method, *_ in cluster.asked if method == "POST"] == []


def test_a_checkpoint_that_is_refused_does_not_undo_the_rescale(cluster, target):
    cluster.refusals["POST"] = (400, "Checkpointing has not been enabled")
    running = target.scale(4, "a")
    assert running.requested == 4
    assert running.note.startswith("no checkpoint was made before it, so more is read again (")


def test_the_newest_job_of_that_name_is_meant_and_ended_ones_are_not(cluster):
    cluster.jobs.insert(0, a_job(6, state="CANCELED", jid="b" * 32))
    cluster.jobs.append(a_job(7, name="bills", jid="d" * 32))
    with target_of(cluster, "wordcount", job_name="orders") as target:
        assert target.read().scale_out == 2


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ([], "no job named 'orders' runs; submit it"),
        ([a_job(state="FAILED")], "no job named 'orders' runs; submit it"),
        (
            [a_job(name="Orders", state="FAILED"), a_job(name="Orders (v2)")],
            r"no job named 'orders' runs; submit it, or name it in 'job_name': there is 'Orders \(v2\)'$",
        ),
        (
            [a_job(name=name, jid=name[0] * 32) for name in ("bills", "ads", "bills", "sql-orders", "border")],
            "in 'job_name': there is 'border', 'sql-orders', 'ads' and 1 more$",
        ),
        ([a_job(), a_job(jid="b" * 32)], "2 jobs are named 'orders'; end all but one"),
    ],
)
def test_a_job_that_is_not_there_may_come_back(cluster, target, jobs, told):
    cluster.jobs = jobs
    with pytest.raises(TargetError, match=told) as failed:
        target.read()
    assert failed.value.retriable


REACTIVE = "Cannot change the parallelism of a job running in reactive mode."
DEFAULT = "The DefaultScheduler does not support changing the parallelism without a job restart."


@pytest.mark.parametrize(
    ("refusal", "told", "retriable"),
    [
        ({"PUT": (500, REACTIVE)}, "jobmanager.scheduler: adaptive", False),
        ({"resource-requirements": (500, DEFAULT)}, "jobmanager.scheduler: adaptive", False),
        ({"resource-requirements": (500, "Could not find Flink job")}, "500: .*Could not find Flink job", True),
        ({"PUT": (500, "Akka ask timed out")}, "500: .*ask timed out", True),
        ({"PUT": (400, "upper bound")}, "400: .*upper bound", False),
        ({"PUT": (401, "who are you")}, "401", True),
        ({"PUT": (503, "leader election")}, "503: .*leader election", True),
        ({"GET": (503, "no leader")}, "503: .*no leader", True),
        ({"resource-requirements": (404, "not found")}, "just ended, or Flink is older than 1.18", True),
    ],
)
def test_each_refusal_is_told_in_flinks_own_words_without_its_stack(cluster, target, refusal, told, retriable):
    cluster.refusals = refusal
    with pytest.raises(TargetError, match=told) as failed:
        target.scale(4, "a")
    assert failed.value.retriable is retriable
    assert "Foo.java" not in str(failed.value)


@pytest.mark.parametrize(
    ("status", "fault"), [(400, Fault.SIZE), (409, Fault.PASSING), (422, Fault.SIZE), (429, Fault.PASSING)]
)
def test_a_conflict_with_an_update_that_is_still_stored_passes_and_says_nothing_of_the_size(
    cluster, target, status, fault
):
    cluster.refusals = {"PUT": (status, "Another update to the job [a0] resource requirements is in progress.")}
    with pytest.raises(TargetError, match=f"{status}: .*Another update") as failed:
        target.scale(4, "a")
    assert (failed.value.fault, failed.value.retriable) == (fault, fault is Fault.PASSING)
    cluster.refusals = {}
    assert target.scale(4, "a").requested == 4


def test_a_refused_request_may_be_repeated_with_its_key(cluster, target):
    cluster.refusals = {"PUT": (503, "leader election")}
    with pytest.raises(TargetError):
        target.scale(4, "a")
    cluster.refusals = {}
    assert target.scale(4, "a").requested == 4, "the first try changed nothing, so the key must not stand in its way"


def test_a_server_that_is_slow_or_gone_may_be_asked_again(cluster):
    cluster.delay_s = 0.5
    with target_of(cluster, timeout_s=0.1) as target:
        with pytest.raises(TargetError, match=r"did not answer in time$") as late:
            target.read()
        assert late.value.retriable


def test_the_token_is_sent_and_never_told(cluster, tmp_path):
    file = tmp_path / "token"
    file.write_text("s3cret")
    with target_of(cluster, token_file=file) as target:
        target.read()
        assert cluster.headers[-1]["Authorization"] == "Bearer s3cret"
        cluster.refusals["GET"] = (401, "no")
        with pytest.raises(TargetError) as refused:
            target.read()
        assert "s3cret" not in str(refused.value)
        file.write_text("")
        with pytest.raises(TargetError, match="does not hold one line") as empty:
            target.read()
        assert empty.value.retriable, "a mounted token may be renewed"


def test_a_certificate_that_nobody_signed_is_refused_unless_that_is_allowed(tmp_path):
    with pytest.raises(TargetError, match="ca_file") as refused:
        FlinkTarget(FlinkSettings(url="https://127.0.0.1:1", ca_file=tmp_path / "none.pem"), "orders")
    assert not refused.value.retriable


def test_a_strangers_answer_is_a_target_error(cluster, target):
    cluster._answer = lambda *_: (200, b"<html>login</html>")
    with pytest.raises(TargetError, match="not the answer of Flink") as failed:
        target.read()
    assert failed.value.retriable


def test_a_vertex_that_has_done_its_work_does_not_unsettle_the_job(cluster, target):
    cluster.jobs[0].vertices.append(Vertex("f" * 32, "lookup", 1, 1))
    assert target.read().settled

"""Which TaskManager has which subtask: what tells whose key groups are whose."""

import json
from urllib.request import urlopen

import pytest

from perdix.models.capacity.key_groups import Subtasks
from perdix.settings.targets import FlinkSettings
from perdix.targets.flink.target import FlinkTarget
from tests.targets.flink_api import FlinkCluster, a_job


@pytest.fixture
def cluster():
    cluster = FlinkCluster([a_job(3)])
    yield cluster
    cluster.close()


@pytest.fixture
def target(cluster):
    with FlinkTarget(FlinkSettings(url=cluster.url), "orders") as target:
        yield target


def looked(cluster):
    return [path.rsplit("/", 1)[1] for _, path, _ in cluster.asked if "/vertices/" in path]


def test_they_are_told_in_the_order_of_their_numbers_and_with_their_key_groups(cluster, target):
    cluster.jobs[0].vertices[1].most = 256
    assert target.read().subtasks == Subtasks(("tm-0", "tm-1", "tm-2"), 256)
    assert looked(cluster) == ["c" * 32], "the one that the source feeds: its records go by key"


def test_they_are_asked_for_once_a_deployment(cluster, target):
    for _ in range(3):
        target.read()
    assert len(looked(cluster)) == 1
    target.scale(2, "a")
    cluster.complete_checkpoint()
    cluster.jobs[0].made_ms += 60_000
    assert [len(target.read().subtasks.workers) for _ in range(2)] == [2, 2]
    assert len(looked(cluster)) == 2


@pytest.mark.parametrize("taskmanager", ["tm-0", ""])
def test_several_in_one_worker_or_in_none_that_is_named_tell_nothing(cluster, target, taskmanager):
    cluster.jobs[0].vertices[1].taskmanager = taskmanager
    assert target.read().subtasks is None


@pytest.mark.parametrize("refusal", [(500, "no"), (404, "gone")])
def test_a_job_is_read_without_them_where_they_cannot_be_had(cluster, target, refusal):
    cluster.refusals["/vertices/" + "c" * 32] = refusal
    found = target.read()
    assert (found.scale_out, found.subtasks) == (3, None)
    cluster.refusals.clear()
    assert target.read().subtasks is not None


def test_a_server_that_only_fails_at_this_is_not_asked_at_every_tick(cluster, target):
    cluster.refusals["/vertices/" + "c" * 32] = (503, "busy")
    assert [target.read().subtasks for _ in range(6)] == [None] * 6
    assert len(looked(cluster)) == 3
    cluster.refusals.clear()
    cluster.jobs[0].made_ms += 60_000
    assert target.read().subtasks is not None, "the next deployment is asked for again"


def test_while_a_rescale_is_under_way_nothing_is_told(cluster, target):
    target.scale(2, "a")
    assert target.read().subtasks is None
    assert looked(cluster) == []


def test_the_api_answers_as_flink_does(cluster):
    """Flink 2.2: ``SubtaskExecutionAttemptDetailsInfo`` has ``subtask`` and ``taskmanager-id``."""
    with urlopen(f"{cluster.url}/jobs/{'a' * 32}/vertices/{'c' * 32}") as answer:
        assert {"subtask", "taskmanager-id"} <= set(json.load(answer)["subtasks"][0])

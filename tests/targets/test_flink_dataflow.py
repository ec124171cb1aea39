"""A running Flink job read as a dataflow."""

import time

import numpy as np
import pytest

from perdix.settings.targets import FlinkSettings
from perdix.targets.contract import TargetError
from perdix.targets.flink.answers import Requirements
from perdix.targets.flink.target import FlinkTarget
from tests.targets.flink_api import FlinkCluster, Vertex, a_job

SOURCE, COUNT = "Source: words -> split", "count -> sink"


@pytest.fixture
def cluster():
    cluster = FlinkCluster([a_job()])
    source, count = cluster.jobs[0].vertices
    source.per_s, source.pending = (100.0, 300.0, 50.0, 10.0), 42.0
    count.per_s = (300.0, 0.0, 600.0, 0.0)
    yield cluster
    cluster.close()


def read(cluster):
    with FlinkTarget(FlinkSettings(url=cluster.url), "orders") as target:
        return target.read_dataflow()


def test_it_tells_what_feeds_what_and_what_every_subtask_has_done(cluster):
    for vertex in cluster.jobs[0].vertices:
        vertex.since_s = time.time() - 100.0
    reading = read(cluster)
    assert reading.at_s == pytest.approx(time.time(), abs=5.0)
    assert (reading.slots, reading.settled) == (8, True)
    assert list(reading.operators) == [SOURCE, COUNT]
    source, count = reading.operators.values()
    assert (source.inputs, count.inputs) == ((), (SOURCE,))
    assert (source.pending_records, count.pending_records) == (42.0, None)
    assert count.maximum == 128
    assert source.counters.records_in / 100.0 == pytest.approx(np.array([100.0, 100.0]), rel=0.1)
    assert source.counters.records_out / source.counters.records_in == pytest.approx(np.array([3.0, 3.0]), rel=0.01)
    assert count.counters.busy_ms / 100.0 == pytest.approx(np.array([600.0, 600.0]), rel=0.1)
    together = source.counters.busy_ms + source.counters.idle_ms + source.counters.back_pressured_ms
    assert together / 1_000.0 == pytest.approx(np.array([100.0, 100.0]), rel=0.1)


def test_only_what_is_dealt_out_by_the_hash_of_a_key_is_keyed(cluster):
    vertices = cluster.jobs[0].vertices
    vertices.append(Vertex("e" * 32, "log", 2, 2, inputs=(vertices[0].id,), ships="REBALANCE"))
    keyed = {name: operator.keyed for name, operator in read(cluster).operators.items()}
    assert keyed == {SOURCE: False, COUNT: True, "log": False}


def test_it_tells_which_operators_share_slots(cluster):
    assert {operator.group for operator in read(cluster).operators.values()} == {None}
    for vertex, group in zip(cluster.jobs[0].vertices, ("g" * 32, "h" * 32), strict=True):
        vertex.group = group
    assert [operator.group for operator in read(cluster).operators.values()] == ["g" * 32, "h" * 32]


def test_what_the_job_manager_has_not_heard_of_yet_is_not_zero(cluster):
    cluster.jobs[0].vertices[1].heard_of = False
    counters = read(cluster).operators[COUNT].counters
    assert np.isnan(counters.records_in).all()
    assert np.isnan(counters.busy_ms).all()


def test_a_source_need_not_tell_what_waits(cluster):
    cluster.jobs[0].vertices[0].pending = None
    assert read(cluster).operators[SOURCE].pending_records is None


def test_slots_that_other_jobs_hold_are_not_counted(cluster):
    cluster.jobs.append(a_job(3, name="bills", jid="d" * 32))
    assert read(cluster).slots == 5


def test_vertices_of_one_name_go_by_their_ids(cluster):
    vertices = cluster.jobs[0].vertices
    vertices.append(Vertex("e" * 32, vertices[1].name, 2, 2, inputs=(vertices[0].id,)))
    assert list(read(cluster).operators) == [SOURCE, "c" * 32, "e" * 32]
    with FlinkTarget(FlinkSettings(url=cluster.url), "orders") as target:
        target.scale_operators({"e" * 32: 4}, "a")
    assert [vertex.upper for vertex in vertices] == [2, 2, 4]


def test_a_job_that_changes_while_it_is_read_is_said_to(cluster, monkeypatch):
    monkeypatch.setattr(Requirements, "upper", lambda _: {"e" * 32: 2})
    with pytest.raises(TargetError, match="job 'orders' changed while it was read"):
        read(cluster)


def test_what_runs_and_what_was_asked_for_is_told_operator_by_operator(cluster):
    cluster.jobs[0].vertices[1].upper = 5
    running = read(cluster).running
    assert (running.mix, running.requested_mix) == ({SOURCE: 2, COUNT: 2}, {SOURCE: 2, COUNT: 5})


def test_a_job_that_is_not_there_is_named(cluster):
    with FlinkTarget(FlinkSettings(url=cluster.url), "bills") as target, pytest.raises(TargetError, match="'bills'"):
        target.read_dataflow()

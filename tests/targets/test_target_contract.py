"""What every target keeps to, whatever its kind."""

from contextlib import closing

import pytest

from perdix.settings.targets import FlinkSettings
from perdix.targets.advisory import AdvisoryTarget
from perdix.targets.contract import TargetError
from perdix.targets.flink.target import FlinkTarget
from perdix.targets.twin import LocalTwinTarget, TwinTarget
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.prometheus_face import PrometheusFace
from tests.targets.flink_api import FlinkCluster, a_job
from tests.targets.kubernetes_api import kubernetes_target

START_S = 1_700_000_000
TELLING_SIZES_APART = pytest.mark.parametrize("target", ["advisory", "local-twin", "twin"], indirect=True)
SIZELESS = pytest.mark.parametrize("target", ["flink", "kubernetes", "kubernetes-ready"], indirect=True)


@pytest.fixture(params=["advisory", "local-twin", "twin", "flink", "kubernetes", "kubernetes-ready"])
def target(request, twin, tmp_path):
    if request.param == "advisory":
        yield AdvisoryTarget(2)
    elif request.param == "local-twin":
        yield LocalTwinTarget(twin)
    elif request.param == "flink":
        with (
            closing(FlinkCluster([a_job()])) as cluster,
            FlinkTarget(FlinkSettings(url=cluster.url), "orders") as target,
        ):
            yield target
    elif request.param.startswith("kubernetes"):
        with kubernetes_target(tmp_path, ready=request.param.endswith("ready")) as (target, _):
            yield target
    else:
        living = LivingTwin({"orders": twin}, SimulatedClock(START_S + 600))
        with PrometheusFace(living) as face, TwinTarget(face.url, "orders") as target:
            yield target


def test_reading_changes_nothing(target):
    first = target.read()
    assert first.scale_out == 2
    assert first.settled
    assert target.read() == first


def test_scaling_is_remembered(target):
    assert target.scale(4, "a").requested == 4
    assert target.read().requested == 4


def test_a_repeated_key_changes_nothing_more(target):
    first = target.scale(4, "a")
    assert target.scale(4, "a") == first
    target.scale(3, "b")
    target.scale(4, "a")  # a late repeat of the old request
    assert target.read().requested == 3


def test_a_key_for_another_number_is_refused_for_good(target):
    target.scale(4, "a")
    with pytest.raises(TargetError, match="was used for 4 workers") as refused:
        target.scale(5, "a")
    assert not refused.value.retriable
    assert target.read().requested == 4


@pytest.mark.parametrize("scale_out", [0, -3])
def test_less_than_one_worker_is_refused_for_good(target, scale_out):
    with pytest.raises(TargetError) as refused:
        target.scale(scale_out, "a")
    assert not refused.value.retriable
    assert target.read().scale_out == 2


def test_an_empty_key_is_refused_for_good(target):
    with pytest.raises(TargetError) as refused:
        target.scale(4, "")
    assert not refused.value.retriable


def test_asking_for_what_runs_is_settled(target):
    running = target.scale(2, "a")
    assert (running.scale_out, running.requested, running.settled) == (2, 2, True)


@TELLING_SIZES_APART
def test_a_mix_of_sizes_is_asked_for_and_remembered(target):
    running = target.scale(2, "a", {"small": 1, "large": 1})
    assert running.is_asked_for(2, {"large": 1, "small": 1})
    assert not running.is_asked_for(2, {"large": 2})
    assert running.is_asked_for(2, {}), "whoever names no sizes means the number alone"
    assert target.read().requested_mix == {"small": 1, "large": 1}


@TELLING_SIZES_APART
def test_a_key_for_other_sizes_is_refused_for_good(target):
    target.scale(2, "a", {"small": 2})
    with pytest.raises(TargetError, match=r"was used for 2 workers \(2 small\)") as refused:
        target.scale(2, "a", {"large": 2})
    assert not refused.value.retriable
    assert target.read().requested_mix == {"small": 2}


@SIZELESS
def test_sizes_are_refused_for_good_where_workers_are_all_alike(target):
    with pytest.raises(TargetError, match="sizes") as refused:
        target.scale(2, "a", {"small": 1, "large": 1})
    assert not refused.value.retriable
    assert target.read().requested == 2

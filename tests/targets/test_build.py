import pytest

from perdix.settings.stream_job import StreamJob
from perdix.targets.advisory import AdvisoryTarget
from perdix.targets.build import build_target
from perdix.targets.contract import TargetError
from perdix.targets.twin import TwinTarget


def test_each_kind_is_built():
    assert isinstance(build_target(StreamJob(name="orders")), AdvisoryTarget)
    twin = StreamJob.model_validate({"name": "orders", "target": {"kind": "twin", "url": "http://127.0.0.1:1"}})
    target = build_target(twin, timeout_s=0.5)
    assert isinstance(target, TwinTarget)
    target.close()


def test_advice_needs_to_know_what_runs():
    target = build_target(StreamJob(name="orders"))
    with pytest.raises(TargetError, match="scale_out") as failed:
        target.read()
    assert failed.value.retriable
    target.observe(3)
    assert target.read().scale_out == 3
    assert target.scale(5, "a").scale_out == 3
    assert target.read().requested == 5
    with pytest.raises(TargetError):
        target.observe(0)

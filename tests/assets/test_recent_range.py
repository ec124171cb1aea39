"""What a training tells of the ranges that it pulled: each job its own."""

from __future__ import annotations

import warnings
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import dagster as dg

from perdix.telemetry.live_range import PulledRange

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets import recent_range


def test_each_job_gets_its_own_outcome() -> None:
    logged: list[Any] = []
    context: Any = SimpleNamespace(
        partition_keys=["bad", "good"],
        add_asset_metadata=lambda *_, **__: None,
        op_execution_context=SimpleNamespace(log_event=logged.append),
    )
    failed = SimpleNamespace(name="cpu_load_is_a_ratio", success=False, blocked=("bad",))
    refresh: Any = SimpleNamespace(problems=defaultdict(list), outcomes={"samples": [failed]}, reports=[])
    recent_range._result(context, [PulledRange("bad", 0.0, 1.0), PulledRange("good", 0.0, 1.0)], refresh)
    passed = {one.partition: one.passed for one in logged if one.check_name == recent_range.SOUND}
    assert passed == {"bad": False, "good": True}

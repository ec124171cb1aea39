"""What a training tells of the ranges that it pulled: each job its own."""

from __future__ import annotations

import logging
import warnings
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from perdix.assets.resources import Workspace
from perdix.settings.home import Home
from perdix.telemetry.lake import Lake
from perdix.telemetry.live_range import PulledRange
from tests.assets.observing import DAY, NoSpark, run_here, sampled

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
    recent_range.result_of(context, [PulledRange("bad", 0.0, 1.0), PulledRange("good", 0.0, 1.0)], refresh)
    passed = {
        evaluation.partition: evaluation.passed for evaluation in logged if evaluation.check_name == recent_range.SOUND
    }
    assert passed == {"bad": False, "good": True}


def test_what_is_wrong_with_a_job_without_a_prometheus_is_shown_as_that_of_a_live_one() -> None:
    own: dict[str, Any] = {}
    context: Any = SimpleNamespace(
        partition_keys=["by-hand"],
        add_asset_metadata=lambda metadata, partition_key: own.update({partition_key: metadata}),
    )
    wrong = "could not be ingested: OSError: [Errno 28] No space left on device"
    refresh: Any = SimpleNamespace(problems=defaultdict(list, {"by-hand": [wrong]}), outcomes={}, reports=[])
    result = recent_range.result_of(context, [], refresh)
    assert {check.check_name: check.passed for check in result.check_results or ()}[recent_range.COMPLETE] is False
    assert own["by-hand"]["problems"] == wrong
    assert result.metadata is not None
    assert result.metadata["incomplete"] == 1


def test_how_much_was_pulled_is_shown_beside_what_was_asked_for() -> None:
    """Of two weeks all but a gap at their beginning was there: they were shown as pulled."""
    pull = PulledRange("ads", 0.0, 14 * 86_400.0, days=("1970-01-01",), samples=500)
    row = recent_range.row_of(pull)
    assert (row["asked_from"], row["days"], row["samples"]) == ("1970-01-01 00:00Z", 1, 500)
    assert tuple(row) == recent_range.COLUMNS, "a column of another name would be shown empty"
    assert pull.sentence().startswith("500 samples of 1 day pulled, asked for ")


def test_a_job_without_a_prometheus_is_brought_up_to_features_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its export was ingested in a night that observes its own day alone, or by a command that was cut.

    The log says which of its samples count once with others.
    """
    monkeypatch.setattr("perdix.assets.refresh.run_tasks", run_here)
    home = Home(tmp_path / "home").make()
    for source in ("a.json", "b.csv"):
        sampled(home, "by-hand", 0.5, source=source)
    workspace = Workspace(home=str(home.root), conf=str(tmp_path))
    with dg.DagsterInstance.ephemeral() as instance, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        instance.add_dynamic_partitions("stream_jobs", ["by-hand"])
        result = dg.materialize(
            [recent_range.recent_range],
            partition_key="by-hand",
            resources={"workspace": workspace, "spark": NoSpark(workspace=workspace)},
            instance=instance,
        )
        said = [entry.user_message for entry in instance.all_logs(result.run_id) if entry.level == logging.WARNING]
    assert result.success
    metrics = "cpu_load, throughput_per_s, workload_per_s"
    assert [line.partition(" count once")[0] for line in said] == [f"by-hand, {DAY}: samples of {metrics}"]
    assert Lake(home.lake).days("workload_features", "by-hand") == [DAY]

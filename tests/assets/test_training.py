"""What Dagster is told of a training, and under which name a run keeps its answers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.assets.training.factory import name_of_run
from perdix.assets.training.metadata import candidate_metadata, each_job, some_jobs, tell_of_failures
from perdix.assets.training.record import Trained
from perdix.assets.training.tasks import train_capacity
from perdix.telemetry.lake import Lake


def sound(job: str, wape: float = 0.1) -> Trained:
    candidates = [{"family": "linear", "error": "", "metrics": {"wape": wape}}]
    stages = {"read": 0.5, "fit and walk": 2.0}
    result = {
        "winner": "linear",
        "verdict": "linear is the first champion",
        "promote": True,
        "state": "{}",
        "candidates": candidates,
        "stages_s": stages,
    }
    return Trained(job, result, None, seconds=3.0, cpu_s=2.0)


def broken(job: str) -> Trained:
    return Trained(job, {}, f"ValueError: no workload of {job} is in the lake", seconds=0.1)


class Told:
    """A context that remembers what it was told."""

    asset_key = dg.AssetKey("forecast_candidates")

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.own: dict[str, Any] = {}
        self.events: list[Any] = []
        self.log = self

    def info(self, line: str) -> None:
        self.lines.append(("info", line))

    def warning(self, line: str) -> None:
        self.lines.append(("warning", line))

    def add_asset_metadata(self, metadata: dict[str, Any], partition_key: str) -> None:
        self.own[partition_key] = metadata

    def log_event(self, event: Any) -> None:
        self.events.append(event)


class TestWhatIsTold:
    def test_a_small_run_tells_of_each_job_in_words_and_in_a_table(self) -> None:
        told, trained = Told(), [sound("a"), broken("b")]
        tell_of_failures(told, trained)  # type: ignore[arg-type]
        assert told.lines == [
            ("warning", "b: ValueError: no workload of b is in the lake"),
            ("info", "a: linear is the first champion"),
        ]
        rows = some_jobs(trained, "wape")["jobs"].records
        assert [row.data["job"] for row in rows] == ["b", "a"], "those that failed come first"

    def test_a_large_run_tells_of_those_that_failed_and_once_of_the_whole(self) -> None:
        trained = [sound(f"job-{n}") for n in range(200)] + [broken(f"broken-{n}") for n in range(60)]
        told = Told()
        tell_of_failures(told, trained)  # type: ignore[arg-type]
        assert len(told.lines) == 51
        assert told.lines[-1] == ("warning", "10 more jobs failed; see their partitions, key 'error'")
        (event,) = told.events
        assert event.metadata["jobs_failed"].value == 60
        tell_of_failures(told, trained[:-9])  # type: ignore[arg-type]
        assert told.lines[-1] == ("warning", "1 more job failed; see their partitions, key 'error'")

    def test_every_job_finds_its_own_figures_on_its_partition(self) -> None:
        told = Told()
        each_job(told, [sound("a", 0.25), broken("b")], "wape")  # type: ignore[arg-type]
        assert told.own["a"]["winner"] == "linear"
        assert told.own["a"]["wape"] == 0.25
        assert "error" not in told.own["a"]
        assert told.own["b"]["error"].startswith("ValueError")
        assert "wape" not in told.own["b"]

    def test_what_all_partitions_carry_stays_short_however_many_there_are(self) -> None:
        """Each event is stored for ever: a table on every one of a thousand would be a thousand tables."""
        trained = [sound(f"job-{n}", wape=n / 1000) for n in range(1000)]
        metadata = candidate_metadata(trained, "wape", {"training": 1000.0})
        assert "jobs" not in metadata
        assert metadata["jobs_trained"] == 1000
        assert metadata["wape_median"] == pytest.approx(0.4995)
        assert metadata["stages_s"].value == {"read": 500.0, "fit and walk": 2000.0}
        assert (metadata["seconds"], metadata["cpu_seconds"]) == (3000.0, 2000.0)


@pytest.mark.parametrize(("maximum", "most"), [(None, 16), (20, 20)])
def test_a_job_without_a_file_has_capacities_up_to_the_most_workers_that_it_had(
    tmp_path: Path, maximum: int | None, most: int
) -> None:
    lake, times = Lake(tmp_path), pd.date_range("2026-03-04", periods=60, freq="60s", tz="UTC")
    cpu = np.tile(np.linspace(0.2, 0.8, 60), 16)
    rows = {"ts": np.tile(times, 16), "worker": np.repeat([f"w{n}" for n in range(16)], 60), "scale_out": 16.0}
    shares = {"cpu_share": 1.0, "throughput_share": 1 / 16}
    frame = pd.DataFrame({**rows, "cpu_load": cpu, "throughput_per_s": 1_000.0 * cpu, **shares})
    lake.replace("capacity_features", "orders", "2026-03-04", frame)
    key = {"lake": str(tmp_path), "job": "orders", "history_days": 3, "seed": 0, "champions": None, "pictures": False}
    trained = train_capacity({**key, "maximum": maximum})
    assert max(row["scale_out"] for row in json.loads(trained["state"])["table"]) == most


class TestNameOfARun:
    @pytest.mark.parametrize(
        ("tags", "parent", "name"),
        [
            ({}, None, "run-4"),
            ({"dagster/is_resume_retry": "true"}, "run-1", "run-1"),
            ({"dagster/is_asset_resume_retry": "true"}, "run-1", "run-1"),
            ({"dagster/is_resume_retry": "true"}, "run-2", "run-1"),  # which went on from run-1 itself
            ({"dagster/is_resume_retry": "true"}, "run-3", "run-3"),  # which executed run-1 again as a whole
            ({"dagster/is_resume_retry": "true"}, "deleted", "deleted"),
            ({}, "run-1", "run-4"),  # executed again as a whole
        ],
    )
    def test_only_one_that_goes_on_from_a_failure_has_anothers_answers(
        self, tags: dict[str, str], parent: str | None, name: str
    ) -> None:
        def run(run_id: str, parent_id: str | None, own: dict[str, str]) -> dg.DagsterRun:
            return dg.DagsterRun(
                job_name="train",
                run_id=run_id,
                tags=own,
                root_run_id="run-1" if parent_id else None,
                parent_run_id=parent_id,
            )

        known = {
            "run-1": run("run-1", None, {}),
            "run-2": run("run-2", "run-1", {"dagster/is_resume_retry": "true"}),
            "run-3": run("run-3", "run-1", {}),
        }
        assert name_of_run(run("run-4", parent, tags), known.get) == name

"""Results of runs on disk: kept as each run ends, so that a comparison which is cut goes on where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perdix.replay.outcome import Course, Latency, Outcome, Played, Recovery
from testbed.run import Run


@dataclass(frozen=True)
class Kept:
    """A run that was kept, and under which conditions it ran."""

    played: Played
    latency_ms: tuple[float, float, float]  # p50, p95 and p99 over all records of the run, in ms
    conditions: dict[str, Any]  # what must be the same for two runs to be compared


def keep(folder: Path, name: str, run: Run, conditions: dict[str, Any]) -> None:
    """Write ``<name>.parquet`` with the course of a run, then ``<name>.json`` with all else."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(run.played.course.columns()), folder / f"{name}.parquet")
    decisions = [
        {
            "made_s": entry.intent.made_s,
            "from": entry.intent.from_scale_out,
            "to": entry.intent.scale_out,
            "reason": str(entry.intent.reason),
            "sentence": entry.intent.sentence,
            "state": entry.state.value,
            "predicted_recovery_s": entry.intent.predicted_recovery_s,
            "outcome": None if entry.outcome is None else dict(entry.outcome),
        }
        for entry in run.decisions
        if entry.applied_s is not None
    ]
    document = {
        "schema": "perdix.live/1",
        "conditions": conditions,
        "figures": run.played.outcome.figures(),
        "latency_ms": list(run.latency_ms),
        "decisions": decisions,
        "exports": [str(path) for path in run.exports],
    }
    (folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def kept(folder: Path, name: str) -> Kept | None:
    """Return a run that was kept; ``None`` where there is none."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    columns = pq.read_table(folder / f"{name}.parquet").to_pydict()
    course = Course(
        **{key: pa.array(values, pa.float64()).to_numpy(zero_copy_only=False) for key, values in columns.items()}
    )
    figures = document["figures"]
    recoveries = tuple(Recovery(**figure) for figure in figures.pop("recoveries"))
    latency = Latency(**figures.pop("latency_ms"))
    outcome = replace(Outcome(latency_ms=latency, **figures), recoveries=recoveries, notes=tuple(figures["notes"]))
    p50, p95, p99 = document["latency_ms"]
    return Kept(Played(outcome, course), (p50, p95, p99), document["conditions"])

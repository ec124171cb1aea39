"""What takes long, worked out once and kept: a job's past as answers, and its best fixed size on the true twin."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from benchmarks.scan.past import answers, job_of
from benchmarks.zoo.jobs import twin_seed
from perdix.replay.best_static import best_static
from perdix.replay.case import BEST_STATIC, Case, Contender
from perdix.replay.side_by_side import Tell
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings

Row = dict[str, Any]


def prepare(task: tuple[int, int, float, Path], tell: Tell) -> None:
    seed, k, days, path = task
    part = path.with_suffix(".part")
    part.write_bytes(pickle.dumps(answers(seed, k, days, tell)))
    part.replace(path)


def truth(task: tuple[int, int, float, Row, Path], _tell: Tell) -> Row:
    seed, k, days, objective, folder = task
    kept = folder / f"truth-{seed}-{k}-{days:g}-{objective['latency_p95_ms']:g}.json"
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    job = job_of(seed, k, days)
    case = Case(
        Contender(BEST_STATIC, PolicySettings(name="static")),
        job.kind,
        job.parameters,
        twin_seed(seed, k),
        job.hours,
        objectives=Objectives(latency_p95_ms=objective["latency_p95_ms"], error_budget=objective["error_budget"]),
        bounds=Bounds(minimum=1, maximum=job.maximum),
        arrivals=job.arrivals,
    )
    best = best_static(case)
    row = {
        "kind": job.kind,
        "maximum": job.maximum,
        "workers": best.scale_out,
        "held": best.held,
        "late_share": best.played.outcome.share_above_objective,
    }
    kept.write_text(json.dumps(row))
    return row

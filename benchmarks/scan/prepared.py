"""What takes long, worked out once and kept: a job's past as answers, and its best fixed size on the true twin."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

from benchmarks.harness import Row
from benchmarks.scan import past
from benchmarks.scan.past import BEGIN_S, DAY_S, answers, asked_of, job_of
from benchmarks.zoo import traces
from benchmarks.zoo.jobs import twin_seed
from benchmarks.zoo.results import code_version
from perdix.replay.best_static import best_static
from perdix.replay.case import BEST_STATIC, Case, Contender
from perdix.replay.side_by_side import Tell
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings


def kept_in(folder: Path, days: float) -> Path:
    """Return the folder of what this code makes of these traces, for the questions that a scan asks today."""
    questions = asked_of("job", days, BEGIN_S + days * DAY_S)
    made_by = (code_version(), traces.digest(), questions, Path(past.__file__).read_text())
    return folder / hashlib.sha256(repr(made_by).encode()).hexdigest()[:12]


def prepare(task: tuple[int, int, float, Path], tell: Tell) -> None:
    seed, k, days, path = task
    part = path.with_suffix(".part")
    part.write_bytes(pickle.dumps(answers(seed, k, days, tell)))
    part.replace(path)


def truth(task: tuple[int, int, float, Row, Path], _tell: Tell) -> Row:
    seed, k, days, objective, folder = task
    asked = f"{objective['latency_p95_ms']:g}-{objective['error_budget']:g}"
    kept = folder / f"truth-{seed}-{k}-{days:g}-{asked}.json"
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

"""What came of training a job: kept as JSON, and turned into a publication for the registry. Knows no Dagster."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from assets.training_tasks import to_state_text
from models.registry import Candidate, JobDetail, Publication, TrainingData, merge_rows
from telemetry.lake import Lake
from telemetry.tables import TABLES


@dataclass(frozen=True)
class Trained:
    """One job's training: the answer of its Spark task, or why there is none."""

    job: str
    result: Mapping[str, Any]
    error: str | None
    seconds: float

    @property
    def usable(self) -> bool:
        """Whether there is a model that could be registered."""
        return not self.error and self.result["state"] is not None

    @property
    def why(self) -> str:
        """The verdict, or the error, in one sentence."""
        return self.error or str(self.result["verdict"])

    def candidate(self, family: str) -> Mapping[str, Any]:
        """Return one candidate's answer; empty when the family was not tried."""
        return next((item for item in self.result.get("candidates", []) if item["family"] == family), {})

    def score(self, metric: str) -> float | None:
        """Return a metric of the winner; ``None`` where it could not be judged."""
        value = self.candidate(str(self.result.get("winner"))).get("metrics", {}).get(metric)
        return None if value is None else float(value)


def write_trained(trained: Trained, folder: Path) -> None:
    """Keep a training, replacing the job's last one."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{trained.job}.{os.getpid()}"
    document = {"result": trained.result, "error": trained.error, "seconds": trained.seconds}
    part.write_text(json.dumps(document), encoding="utf-8")
    part.replace(folder / f"{trained.job}.json")


def read_trained(folder: Path, jobs: Iterable[str]) -> list[Trained]:
    """Return the kept trainings of ``jobs``; one that was never trained says so as its error."""
    found = []
    for job in jobs:
        path = folder / f"{job}.json"
        if path.exists():
            found.append(Trained(job, **json.loads(path.read_text(encoding="utf-8"))))
        else:
            found.append(Trained(job, {}, "has not been trained yet", 0.0))
    return found


def publication_of(
    trained: Sequence[Trained],
    champion: pd.DataFrame | None,
    registered: str,
    lake: Lake,
    table: str,
    *,
    score: str,
    started_at_s: float,
    tags: Mapping[str, str],
) -> Publication:
    """Return what is to be recorded and registered.

    The fleet holds the promoted rows beside the champion's others. Where nobody was promoted it holds the challengers
    themselves, so that a person can look at them, or promote them by hand.

    Raises
    ------
    ValueError
        When no job has a model.
    """
    usable = [one for one in trained if one.usable]
    if not usable:
        reasons = "; ".join(f"{one.job}: {one.why}" for one in trained[:5])
        raise ValueError(f"no job has a model that could be registered: {reasons}")
    anyone = any(one.result["promote"] for one in usable)
    rows = pd.DataFrame([_fleet_row(one, take=one.result["promote"] or not anyone) for one in usable])
    families = dict.fromkeys(item["family"] for one in usable for item in one.result["candidates"])
    tables = {family: _per_job(family, trained, score) for family in families}
    return Publication(
        name=registered,
        fleet=merge_rows(champion, rows),
        candidates=[Candidate(family, tables[family]) for family in families],
        pictures=_error_picture(tables, score, [str(one.result["winner"]) for one in usable]),
        data=_data(lake, table, [one.job for one in usable], sum(one.result["rows"] for one in usable)),
        started_at_s=started_at_s,
        details=[_detail(one) for one in usable],
        parameters={"jobs": len(trained), "families": ",".join(families)},
        tags=dict(tags),
    )


def _fleet_row(one: Trained, *, take: bool) -> dict[str, Any]:
    winner = str(one.result["winner"])
    metrics = one.candidate(winner).get("metrics", {})
    numbers = {name: float(value) for name, value in metrics.items() if value is not None}
    verdict = "promote" if take else "keep"
    return {
        "job": one.job,
        "family": winner,
        "state": to_state_text(one.result["state"]),
        "verdict": verdict,
        **numbers,
    }


def _per_job(family: str, trained: Sequence[Trained], score: str) -> pd.DataFrame:
    """Return one row per job; the score comes first, because MLflow's compare page plots the first metric."""
    rows = []
    for one in trained:
        item = one.candidate(family)
        error = one.error or item.get("error", "not tried")
        rows.append({"job": one.job, score: None, **_columns(one, trained), **item.get("metrics", {}), "error": error})
    frame = pd.DataFrame(rows)
    for name in frame.columns.difference(["job", "error", "beats_naive", "in_sample"]):
        frame[name] = frame[name].astype(float)
    for name in frame.columns.intersection(["beats_naive", "in_sample"]):
        frame[name] = frame[name].astype("boolean")
    return frame


def _error_picture(tables: Mapping[str, pd.DataFrame], score: str, chosen: Sequence[str]) -> dict[str, bytes]:
    """Draw every family's error, a dot per job: what one looks at first in the parent run."""
    errors = pd.concat([table.assign(family=family) for family, table in tables.items()], ignore_index=True)
    if score not in errors or errors[score].notna().sum() == 0:
        return {}
    from assets.pictures import candidates_error

    title = "WAPE over 900 s" if score.startswith("wape") else "error of the capacity, held out"
    return {"candidates.png": candidates_error(errors, metric=score, title=title, chosen=chosen)}


def _columns(one: Trained, trained: Sequence[Trained]) -> dict[str, None]:
    """Return every metric that any candidate has, empty: all candidates must carry the same ones."""
    names = [
        name for other in (one, *trained) for item in other.result.get("candidates", []) for name in item["metrics"]
    ]
    return dict.fromkeys(names)


def _detail(one: Trained) -> JobDetail:
    winner = str(one.result["winner"])
    metrics = {
        name: float(value) for name, value in one.candidate(winner).get("metrics", {}).items() if value is not None
    }
    pictures = {name: base64.b64decode(text) for name, text in one.result.get("pictures", {}).items() if ".png" in name}
    return JobDetail(one.job, winner, metrics, {"verdict": one.why[:250]}, pictures)


def _data(lake: Lake, table: str, jobs: Sequence[str], rows: int) -> TrainingData:
    digests = [manifest.digest for job in jobs for manifest in lake.manifests(table, job)]
    digest = sha256("".join(digests).encode()).hexdigest()
    columns = {field.name: str(field.type) for field in TABLES[table].schema}
    return TrainingData(table, str(lake.root / table), digest, rows, columns)

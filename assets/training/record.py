"""What came of training a job, read back from its kept answer, and turned into a publication. Knows no Dagster."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from perdix.assets.kept_answers import read_answer, why_not_promoted
from perdix.models.registry import Candidate, Fleet, JobDetail, Publication, TrainingData, merge_rows
from perdix.models.registry.fleet_table import PROMOTE, name_of, references
from perdix.telemetry.lake import Lake
from perdix.telemetry.tables import TABLES

NEVER_TRAINED = "has not been trained yet"
PROMOTED_BEFORE = "it was promoted before, and is not again without a training: perdix train"
ANOTHER_CHAMPION = "it was judged against another champion than there is now; judge it anew: perdix train"
SHARED_GONE = "its model refers to one that jobs share, which was fitted anew since: perdix train"
_FLAGS = ("beats_naive", "in_sample")
_TITLES = {
    "wape": "WAPE over the whole horizon",
    "capacity_mape": "error of the capacity, held out",
    "balanced_error": "balanced error: overloads missed and false alarms, left out",
    "relative_rmse": "RMSE on samples left out, share of their mean",
}


@dataclass(frozen=True)
class Trained:
    """One job's training: the answer of its Spark task, or why there is none."""

    job: str
    result: Mapping[str, Any]
    error: str | None
    # seconds, cpu_s: what it took by the clock, and of a processor's time
    seconds: float
    cpu_s: float = 0.0
    trace: str | None = None
    digest: str = ""  # of the answer

    @property
    def usable(self) -> bool:
        """Whether there is a model that could be registered."""
        return not self.error and self.result["state"] is not None

    @property
    def promoted(self) -> bool:
        """Whether the gate lets the model take the champion's place."""
        return self.usable and bool(self.result["promote"])

    @property
    def why(self) -> str:
        """The verdict, or the error, in one sentence."""
        return self.error or str(self.result["verdict"])

    @property
    def winner(self) -> str | None:
        """The family that won, ``None`` when none did."""
        return self.result.get("winner")

    def candidate(self, family: str) -> Mapping[str, Any]:
        """Return one candidate's answer; empty when the family was not tried."""
        return next((item for item in self.result.get("candidates", []) if item["family"] == family), {})

    def score(self, metric: str) -> float | None:
        """Return a metric of the winner; ``None`` where it could not be judged."""
        value = self.candidate(str(self.winner)).get("metrics", {}).get(metric)
        return None if value is None else float(value)

    def held_back(self, why: str) -> Trained:
        """Return it as one that the gate keeps from the champion's place."""
        return replace(self, result={**self.result, "promote": False, "verdict": why})

    def without_model(self) -> Trained:
        """Return the figures alone: states and pictures of a thousand jobs need not be held to tell of them."""
        return replace(self, result={**self.result, "state": self.result.get("state") and "", "pictures": {}})


def iterate_trained(folder: Path, jobs: Iterable[str]) -> Iterator[Trained]:
    """Yield the kept trainings of ``jobs``; one that was never trained says so as its error."""
    for job in jobs:
        found = read_answer(folder, job)
        if found is None:
            yield Trained(job, {}, NEVER_TRAINED, 0.0)
        else:
            seconds, cpu_s = float(found.get("seconds", 0.0)), float(found.get("cpu_s", 0.0))
            result, digest = found.get("result", {}), sha256(orjson.dumps(found)).hexdigest()
            yield Trained(job, result, found.get("error"), seconds, cpu_s, found.get("trace"), digest)


def read_gated(folder: Path, jobs: Iterable[str]) -> list[Trained]:
    """Return the kept trainings of ``jobs`` as the gate left them, those that it held back with its reason."""
    return [
        outcome.held_back(why)
        if outcome.promoted and (why := why_not_promoted(folder, outcome.job, outcome.digest))
        else outcome
        for outcome in iterate_trained(folder, jobs)
    ]


def not_again(folder: Path, trained: Iterable[Trained]) -> list[Trained]:
    """Return trainings without the promotions that were made: who is champion since may be a person's choice."""
    return [
        outcome.held_back(PROMOTED_BEFORE)
        if outcome.promoted and why_not_promoted(folder, outcome.job, outcome.digest) == ""
        else outcome
        for outcome in trained
    ]


def not_over_others(trained: Iterable[Trained], champion: Fleet | None) -> list[Trained]:
    """Return trainings without the promotions over a champion that they were not judged against."""
    states = {} if champion is None else dict(zip(champion.jobs["job"], champion.jobs["state"], strict=True))
    names = {job: name_of(state) for job, state in states.items()}
    return [
        outcome.held_back(ANOTHER_CHAMPION)
        if outcome.promoted and outcome.result.get("challenged", names.get(outcome.job)) != names.get(outcome.job)
        else outcome
        for outcome in trained
    ]


def whole(trained: Iterable[Trained], shared: Collection[str]) -> list[Trained]:
    """Return trainings as failed whose model refers to a shared one that is not among those that are left, by name."""
    return [
        replace(outcome, error=SHARED_GONE)
        if outcome.usable and references([outcome.result["state"]]) - set(shared)
        else outcome
        for outcome in trained
    ]


@dataclass(frozen=True)
class Gate:
    """How the trainings of a model become a publication."""

    registered: str  # name of the model in the registry
    score: str  # metric that people look at first
    data: Callable[[Sequence[Trained]], TrainingData]  # says of the trainings that have a model what they read
    # Settings of the training, shown beside each candidate
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    # Name -> JSON text of the shared models that new states may refer to
    shared: Mapping[str, str] = field(default_factory=dict)


def publication_of(
    gate: Gate, trained: Sequence[Trained], champion: Fleet | None, *, started_at_s: float, tags: Mapping[str, str]
) -> Publication:
    """Return what is to be recorded and registered.

    The fleet holds the promoted rows beside the champion's others. Where nobody was promoted it holds the challengers
    themselves, so that a person can look at them, or promote them by hand.

    Raises ``ValueError`` when no job has a model.
    """
    usable = [outcome for outcome in trained if outcome.usable]
    if not usable:
        reasons = "; ".join(f"{outcome.job}: {outcome.why}" for outcome in trained[:5])
        raise ValueError(f"no job has a model that could be registered: {reasons}")
    anyone = any(outcome.promoted for outcome in usable)
    rows = pd.DataFrame([_fleet_row(outcome, take=outcome.promoted or not anyone) for outcome in usable])
    tables = _tables(trained, gate.score)
    settings = {"jobs": len(trained), **gate.parameters}
    return Publication(
        name=gate.registered,
        fleet=merge_rows(champion, rows, gate.shared),
        candidates=[Candidate(family, per_job, settings) for family, per_job in tables.items()],
        pictures=_error_picture(tables, gate.score, [str(outcome.winner) for outcome in usable]),
        data=gate.data(usable),
        started_at_s=started_at_s,
        details=[_detail(outcome) for outcome in usable],
        parameters={**settings, "families": ",".join(tables)},
        tags=dict(tags),
    )


def with_pictures_of_families(publication: Publication, trained: Sequence[Trained], prefix: str) -> Publication:
    """Return the publication with the picture ``<prefix><family>.png`` of each job in the run of that family."""
    candidates = [
        replace(
            candidate,
            pictures={
                f"{outcome.job}.png": base64.b64decode(text)
                for outcome in trained
                if (text := outcome.result.get("pictures", {}).get(f"{prefix}{candidate.family}.png"))
            },
        )
        for candidate in publication.candidates
    ]
    return replace(publication, candidates=candidates)


def data_of_files(usable: Sequence[Trained], name: str, folder: Path, columns: Mapping[str, str]) -> TrainingData:
    """Return what was read where each job has a file of its own, which its answer names under ``name``."""
    digest = _digest_of(usable)
    where = usable[0].result[name] if len(usable) == 1 else str(folder)
    return TrainingData(name, where, digest, sum(outcome.result["rows"] for outcome in usable), columns)


def data_of_table(usable: Sequence[Trained], lake: Lake, table: str) -> TrainingData:
    """Return what was read where all jobs have one table of the lake."""
    columns = {column.name: str(column.type) for column in TABLES[table].schema}
    rows = sum(outcome.result["rows"] for outcome in usable)
    return TrainingData(table, str(lake.root / table), _digest_of(usable), rows, columns)


def _digest_of(usable: Sequence[Trained]) -> str:
    return sha256("".join(str(outcome.result["data_digest"]) for outcome in usable).encode()).hexdigest()


def _fleet_row(outcome: Trained, *, take: bool) -> dict[str, Any]:
    return {
        "job": outcome.job,
        "family": str(outcome.winner),
        "state": outcome.result["state"],
        "verdict": PROMOTE if take else "keep",
        **_numbers(outcome),
    }


def _numbers(outcome: Trained) -> dict[str, float]:
    metrics = outcome.candidate(str(outcome.winner)).get("metrics", {})
    return {name: float(value) for name, value in metrics.items() if value is not None}


def _tables(trained: Sequence[Trained], score: str) -> dict[str, pd.DataFrame]:
    """Return one table per family with a row per job.

    All carry the same metrics, because the compare page puts one name into one row, and the score comes first, because
    that page plots the first metric.
    """
    tried = [item for outcome in trained for item in outcome.result.get("candidates", [])]
    families = dict.fromkeys(item["family"] for item in tried)
    empty = dict.fromkeys([score, *(name for item in tried for name in item["metrics"])])
    return {family: _per_job(family, trained, empty) for family in families}


def _per_job(family: str, trained: Sequence[Trained], empty: Mapping[str, None]) -> pd.DataFrame:
    rows = []
    for outcome in trained:
        item = outcome.candidate(family)
        error = outcome.error or item.get("error", "not tried")
        figures = item.get("metrics", {})
        if error:  # figures of the job, the naive error for one, are no figures of a family that could not be judged:
            # as the only metric that all runs have, they would be what the compare page plots, the same for each
            figures = {name: value for name, value in figures.items() if name in _FLAGS}
        rows.append({"job": outcome.job, **empty, **figures, "error": error})
    frame = pd.DataFrame(rows)
    flags = frame.columns.intersection(list(_FLAGS))
    kinds = dict.fromkeys(frame.columns.difference(["job", "error", *flags]), float)
    return frame.astype({**kinds, **dict.fromkeys(flags, "boolean")})


def _error_picture(tables: Mapping[str, pd.DataFrame], score: str, chosen: Sequence[str]) -> dict[str, bytes]:
    """Draw every family's error, a dot per job: what one looks at first in the parent run."""
    errors = pd.concat(
        [table[["job", score]].assign(family=family) for family, table in tables.items()], ignore_index=True
    )
    if errors[score].notna().sum() == 0:
        return {}
    from perdix.assets.pictures import candidates_error

    return {"candidates.png": candidates_error(errors, metric=score, title=_TITLES.get(score, score), chosen=chosen)}


def _detail(outcome: Trained) -> JobDetail:
    pictures = {
        name: base64.b64decode(text) for name, text in outcome.result.get("pictures", {}).items() if ".png" in name
    }
    gate = {name: float(error) for name, error in outcome.result.get("gate", {}).items() if error is not None}
    return JobDetail(
        outcome.job, str(outcome.winner), {**_numbers(outcome), **gate}, {"verdict": outcome.why[:250]}, pictures
    )

"""Models that many jobs share, a booster over the fleet for instance: fitted once per run, on a sample of the jobs.

Two are fitted: one on what came before the first origin from which forecasts are judged, for the backtests, and one on
everything until the histories end, for the champions (docs/decisions/0012). Knows no Dagster and no MLflow, because
Spark's workers import it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import orjson

from perdix.assets.history import newest_days, workload_history
from perdix.assets.spark.tasks import run_tasks
from perdix.control.clock import WallClock
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import FAMILIES, families_named
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.origins import stops_of
from perdix.models.registry.fleet_table import name_of, to_text
from perdix.settings.durations import DAY_S
from perdix.telemetry.lake import Lake, LakeError

SAMPLE = 64  # jobs
TABLE = "workload_features"


@dataclass(frozen=True)
class SharedModel:
    """A fitted model that several jobs refer to."""

    name: str  # what states call it (:func:`perdix.models.registry.fleet_table.name_of`)
    until_s: float  # epoch seconds before which everything lies that it was fitted to
    state: Mapping[str, Any]  # JSON-serialisable


@runtime_checkable
class Sharing(Protocol):
    """What a family of forecasters offers whose model is fitted to many jobs at once."""

    @classmethod
    def fit_shared(cls, histories: Sequence[Workload], *, horizon_s: float, seed: int) -> Mapping[str, Any]:
        """Fit to histories of several jobs; return a JSON-serialisable state. Raises ``ValueError`` if it cannot."""

    @classmethod
    def sharing(cls, models: Sequence[SharedModel]) -> type[Member]:
        """Return the family as fitted to a job by taking the newest model that ends no later than its history."""


def known_families(names: Iterable[str]) -> dict[str, type[Member]]:
    """Return the families that settings name, ``ensemble`` standing for its members.

    Raises ``ValueError`` with the nearest name for one that is not known.
    """
    return {family: member for name in names for family, member in families_named(name).items()}


def shared_families(names: Iterable[str]) -> list[str]:
    """Return the families among those that settings name whose models are shared. Raises as :func:`known_families`."""
    return [name for name, family in known_families(names).items() if isinstance(family, Sharing)]


def sample_of(jobs: Iterable[str], seed: int) -> list[str]:
    """Return up to 64 jobs, the same ones for a seed whatever their order; others that come change few."""

    def drawn(job: str) -> str:
        return hashlib.sha256(f"{seed}/{job}".encode()).hexdigest()

    return sorted(sorted(jobs, key=drawn)[:SAMPLE])


def fit_shared(key: Mapping[str, Any]) -> dict[str, Any]:
    """Fit one shared model of one family: what a Spark task does.

    Raises ``ValueError`` when no job of the sample has a usable history, or the family cannot be fitted.

    ``key``: ``lake`` (folder), ``family``, ``jobs``, ``history_days``, ``horizon_s``, ``seed``, and ``early``: whether
    it is the one that backtests may use.
    Returns ``state`` (JSON text), ``until_s``, ``jobs`` that it was fitted to, ``skipped`` (job -> why).
    """
    now_s = WallClock().now_s()
    histories: dict[str, Workload] = {}
    skipped: dict[str, str] = {}
    for job in key["jobs"]:
        try:
            histories[job] = workload_history(Lake(key["lake"]), job, key["history_days"], now_s)
        except (ValueError, OSError, LakeError) as error:  # a damaged file is an OSError or a ValueError of Arrow
            skipped[job] = str(error)
    starts_s = [
        float(stops[0]) for history in histories.values() if len(stops := stops_of(history, key["horizon_s"]).origins_s)
    ]
    if not starts_s:
        raise ValueError(f"none of {len(key['jobs'])} sampled jobs has a history long enough to judge a forecast on")
    until_s = min(starts_s) if key["early"] else _common_end_s([history.end_s for history in histories.values()])
    before = {job: until(history, until_s) for job, history in histories.items() if history.start_s < until_s}
    state = FAMILIES[key["family"]].fit_shared(list(before.values()), horizon_s=key["horizon_s"], seed=key["seed"])  # type: ignore[attr-defined]
    return {"state": to_text(state), "until_s": until_s, "jobs": list(before), "skipped": skipped}


def _common_end_s(ends_s: Sequence[float]) -> float:
    """Return when the first of the histories ends that reach into the newest one's last day.

    A history takes no model that knows more than it does, and those of live jobs end seconds apart.
    """
    return min(end_s for end_s in ends_s if end_s >= max(ends_s) - DAY_S)


def until(history: Workload, end_s: float) -> Workload:
    """Return the part of a history whose steps had ended by ``end_s``."""
    return history.part(0, min(len(history), int((end_s - history.start_s) / history.step_s + 1e-9)))


@dataclass(frozen=True)
class SharedStore:
    """The shared models that a training uses, kept as one file per family beside the trainings."""

    folder: Path

    def path(self, family: str) -> Path:
        """Return where a family's models lie."""
        return self.folder / f"{family}.json"

    def write(self, family: str, fingerprint: str, models: Sequence[Mapping[str, Any]]) -> None:
        """Keep a family's models: mappings with ``state`` (JSON text) and ``until_s``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = [
            {"name": name_of(model["state"]), "until_s": model["until_s"], "state": model["state"]} for model in models
        ]
        part = self.path(family).with_suffix(".part")
        part.write_bytes(orjson.dumps({"fingerprint": fingerprint, "models": kept}))
        part.replace(self.path(family))

    def fingerprint(self, family: str) -> str | None:
        """Return what a family's models were fitted to; ``None`` when there are none."""
        try:
            return str(orjson.loads(self.path(family).read_bytes())["fingerprint"])
        except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
            return None

    def texts(self, families: Iterable[str]) -> dict[str, str]:
        """Return name -> JSON text of every model kept of some families."""
        documents = [orjson.loads(self.path(family).read_bytes()) for family in families if self.path(family).exists()]
        return {model["name"]: model["state"] for document in documents for model in document["models"]}


def fingerprint_of(lake: Lake, jobs: Sequence[str], settings: Mapping[str, Any], now_s: float) -> str:
    """Return what shared models are fitted to: settings, jobs of the sample and their days, the newest left out.

    The newest day grows all the time: so models are fitted anew about once a day, not for each job that has drifted.
    """
    days = {job: newest_days(lake, TABLE, job, settings["history_days"], now_s)[:-1] for job in jobs}
    return hashlib.sha256(orjson.dumps([dict(settings), days], option=orjson.OPT_SORT_KEYS)).hexdigest()


def bound_families(names: Iterable[str], folder: str | None) -> tuple[dict[str, type[Member]], dict[str, str]]:
    """Return the families to fit to a job, shared ones with their models, and why others are left out."""
    families: dict[str, type[Member]] = {}
    missing: dict[str, str] = {}
    for name, family in known_families(names).items():
        if not isinstance(family, Sharing):
            families[name] = family
            continue
        path = SharedStore(Path(folder)).path(name) if folder else None
        if path is None or not path.exists():
            missing[name] = "its model, which jobs share, could not be fitted in this run"
        else:
            families[name] = family.sharing(_models(path, path.stat().st_mtime_ns))
    return families, missing


@lru_cache(maxsize=8)
def _models(path: Path, _written_ns: int) -> tuple[SharedModel, ...]:
    """Read shared models once per process of Spark's, not once per job."""
    document = orjson.loads(path.read_bytes())
    return tuple(
        SharedModel(model["name"], float(model["until_s"]), orjson.loads(model["state"]))
        for model in document["models"]
    )


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Fitted:
    """What to report: what was fitted, and what could not be."""

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def fit_all_shared(
    session: Callable[[], SparkSession],
    lake: Lake,
    families: Sequence[str],
    store: SharedStore,
    settings: Mapping[str, Any],
) -> Fitted:
    """Bring the shared models of families up to date; one that cannot be fitted leaves its last ones in use.

    ``settings``: ``history_days``, ``horizon_s``, ``seed``.
    """
    jobs, fitted = sample_of(lake.jobs(TABLE), settings["seed"]), Fitted()
    fingerprint = fingerprint_of(lake, jobs, settings, WallClock().now_s())
    due = [family for family in families if store.fingerprint(family) != fingerprint]
    keys = [
        {"lake": str(lake.root), "family": family, "jobs": jobs, "early": early, **settings}
        for family in due
        for early in (True, False)
    ]
    answers = run_tasks(session(), keys, fit_shared) if keys else []
    for family in due:
        own = [answer for answer in answers if answer.key["family"] == family]
        if wrong := next((answer for answer in own if answer.error), None):
            fitted.problems.append(f"{family}: the model that jobs share could not be fitted: {wrong.error}")
            continue
        store.write(family, fingerprint, [answer.result for answer in own])
        used, seconds = len(own[-1].result["jobs"]), max(answer.seconds for answer in own)
        fitted.notes.append(f"{family}: one model for all jobs, fitted to {used} of them in {seconds:.0f} s")
    return fitted

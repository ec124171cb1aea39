"""What the loop remembers of a job from tick to tick: rebuilt from the state store's documents, and written back.

A document that cannot be used is reported and started afresh; it never stops the tick.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from perdix.control.champions import ChampionRow
from perdix.control.decide import Avoided
from perdix.control.followed import Followed
from perdix.control.rejections import Rejections
from perdix.control.state.learned import Kind, Learned
from perdix.control.state.store import StateStore
from perdix.control.unsettled import Unsettled
from perdix.control.watching import Watching
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.drift import DriftState
from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.failures import positive
from perdix.models.forecasting.forecaster import Forecaster, forecaster_from_state
from perdix.models.forecasting.foresight import KEPT_S
from perdix.models.forecasting.known_events import KnownEvents
from perdix.models.forecasting.tail import EPSILON_S, Tail
from perdix.models.forecasting.trust import HOUR, Trust
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.profiling.profiled import Profiled
from perdix.models.recovery.downtime import Downtimes
from perdix.models.recovery.normal import Normal
from perdix.settings.durations import MINUTE_S
from perdix.settings.stored import restored
from perdix.settings.stream_job import MOST_WORKERS
from perdix.telemetry.plausible import ANY_WORKER_PER_S

JUMP = 1.5  # times the load at the beginning of a minute: more is no noise within it
# Minutes ago: where the newest minute and each third of it begin and end
_BEGIN, _END = np.array([1.0, 1.0, 2 / 3, 1 / 3]), np.array([0.0, 2 / 3, 1 / 3, 0.0])

WORKLOAD = Kind("workload")
CHAMPION = Kind("forecaster", 2)
CAPACITY = Kind("capacity")
DOWNTIMES = Kind("downtimes", schema=2)
DRIFT = Kind("drift", 2)
NORMAL = Kind("normal")
WATCHING = Kind("watching")
POLICY = Kind("policy")
AVOIDED = Kind("avoided")
PROFILE = Kind("profile")
MIX = Kind("mix")
PERFORMANCE = Kind("performance")
FOLLOWED = Kind("followed")
MINUTES = Kind("minutes")
FALLBACK = Kind("fallback")
NEWEST = Kind("newest")
TRUST = Kind("trust")
FURTHER_TRUST = Kind("further_trust")
REJECTED = Kind("rejected")
KNOWN_EVENTS = Kind("known_events")
UNSETTLED = Kind("unsettled")
KINDS = (
    WORKLOAD, CHAMPION, CAPACITY, DOWNTIMES, DRIFT, NORMAL, WATCHING, POLICY, AVOIDED, PROFILE, MIX, PERFORMANCE,
    FOLLOWED, MINUTES, FALLBACK, NEWEST, TRUST, FURTHER_TRUST, REJECTED, KNOWN_EVENTS, UNSETTLED,
)  # fmt: skip

LARGE = (CHAMPION, FALLBACK, MINUTES)
PARTS_MADE_UP = 4  # origins that a forecaster's record gets for the time that it was not stored
STORED_EVERY_S = 1_200.0  # what is large: its newest part is rebuilt from what ticks saw since

ANY_JOB_PER_S = ANY_WORKER_PER_S * MOST_WORKERS  # records/s

Part = TypeVar("Part")
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Taken:
    """The champion's row that something was taken from."""

    version: int = 0  # of the fleet in which it was trained; 0 where none was taken
    digest: str = ""  # of the row; empty where none was taken, or an earlier perdix stored it

    @classmethod
    def stored(cls, document: Document) -> Taken:
        """Return the row that :meth:`document` noted."""
        return cls(int(document["version"]), str(document.get("digest", "")))

    def document(self, state: Document) -> Document:
        """Return the document of what was taken from the row, whose digest is left out if unknown."""
        document = {"version": self.version, "state": state}
        return {**document, "digest": self.digest} if self.digest else document

    def is_of(self, row: ChampionRow | Taken) -> bool:
        """Return whether it is that row: by its digest, too, for another registry counts alike.

        What was stored before digests were kept has none, and goes by its version.
        """
        return self.version == row.version and self.digest in ("", row.digest)


@dataclass(frozen=True, kw_only=True)
class Adopted(Taken):
    """A champion forecaster as it stands after its updates."""

    forecaster: Forecaster


def walked(forecaster: Forecaster, history: Workload, parts: int) -> Forecaster:
    """Return a forecaster after what it has not seen yet of a history, in this many ``parts``: as many origins enter.

    One update alone would settle what was forecast before, and add a single origin.
    """
    first = max(0, int(np.floor((forecaster.end_s - history.start_s) / history.step_s + 1e-6)))
    if first >= len(history):
        return forecaster
    for begin, end in pairwise(np.unique(np.linspace(first, len(history), parts + 1).astype(int))):
        forecaster = forecaster.update(history.part(int(begin), int(end)))
    return forecaster


def history_of(tail: Tail, seconds: float = math.inf) -> Workload:
    """Return the newest ``seconds`` of a tail as a history, in whole cells."""
    recent = tail.cut(seconds)
    whole = int(np.floor((recent.end_s - recent.start_s) / recent.cell_s + 1e-6))
    return Workload(recent.start_s, recent.cell_s, recent.per_s[:whole])


@dataclass(frozen=True)
class JobMemory:
    """Immutable; each step of the tick returns another one.

    ``workload``: the truth that forecasts are judged by, and the history that a new forecaster starts from.
    ``fallback``: the fallback, while it is in use; made anew from the workload when it is needed again.
    ``newest``: the workload of the last 20 minutes, in the parts in which ticks saw it: what is stored as it was before
    them becomes what it is by seeing them again.
    ``pending``: the champion's forecasts whose truth has not come, oldest first.
    ``capacity_from``, ``profile_from``, ``performance_from``: the champions that were taken in.
    ``drift``, ``wape``, ``horizon_wape``, ``scored_until_s``: whether the champion is trusted; the WAPE (1.0 = 100 %)
    of the newest forecast whose first minute has passed, and of the newest whose horizon has; and the origin (epoch
    seconds) of the former.
    ``policy``: name of the policy that asked for :attr:`policy_memory`.
    ``profiled``, ``profile_learned_s``: what the job's profile taught, and the running job since; and when it last
    learnt (epoch seconds).
    ``mix_share``: what workers of different sizes reach together, as a share of the sum of what they reached alone.
    ``followed``: rescales that others carried out, of a job that perdix only advises.
    ``minutes``: the workload of the last hours in minutes: how far ahead it can be foreseen, and how it would have been
    carried.
    ``trust``, ``further_trust``: how much of the changes that were forecast came true, for 15 minutes and for an hour.
    ``rejected``: what was read of the job's metrics and cannot be.
    ``known_events``: how far the events of its calendar came true.
    ``unsettled``: since when its target is not at what it was asked for, although perdix waits for nothing.
    """

    workload: Tail | None = None
    champion: Adopted | None = None
    fallback: Forecaster | None = None
    newest: tuple[Workload, ...] = ()
    pending: tuple[Forecast, ...] = ()
    capacity: ScaleOuts = field(default_factory=ScaleOuts)
    capacity_from: Taken = Taken()
    downtimes: Downtimes = field(default_factory=Downtimes)
    drift: DriftState = field(default_factory=DriftState.untried)
    wape: float | None = None
    horizon_wape: float | None = None
    scored_until_s: float = 0.0
    normal: Normal = field(default_factory=Normal)
    watching: Watching | None = None
    policy: str = ""
    policy_memory: Mapping[str, Any] = field(default_factory=dict)
    avoided: tuple[Avoided, ...] = ()
    profiled: Profiled | None = None
    profile_from: Taken = Taken()
    profile_learned_s: float = 0.0
    performance: FittedPerformance | None = None
    performance_from: Taken = Taken()
    mix_share: float = 1.0
    followed: Followed = field(default_factory=Followed)
    minutes: Tail | None = None
    trust: Trust = field(default_factory=Trust)
    further_trust: Trust = field(default_factory=partial(Trust, of=HOUR))
    rejected: Rejections = field(default_factory=Rejections)
    known_events: KnownEvents = field(default_factory=KnownEvents)
    unsettled: Unsettled = field(default_factory=Unsettled)

    @property
    def newest_s(self) -> float | None:
        """End of what earlier ticks have seen, epoch seconds."""
        return None if self.workload is None else self.workload.end_s

    @property
    def highest_per_s(self) -> float | None:
        """The highest workload of the last hours, records/s; ``None`` where none was seen."""
        return max((tail.highest_per_s for tail in (self.workload, self.minutes) if tail is not None), default=None)

    @cached_property
    def level_per_s(self) -> float | None:
        """The present load, records/s: the mean of the newest minute; ``None`` where it was not measured.

        Where the load jumped within that minute, the mean of its last third: what came before the jump is over.
        """
        if self.workload is None:
            return None
        begins_s, ends_s = (self.workload.end_s - MINUTE_S * ago for ago in (_BEGIN, _END))
        level, first, middle, last = self.workload.means_between(begins_s, ends_s).tolist()
        if last > JUMP * first and last >= middle:
            return float(last)
        return level if math.isfinite(level) else None


@dataclass(frozen=True)
class Recalled:
    """What is remembered of a job."""

    memory: JobMemory
    notes: tuple[str, ...] = ()  # what was stored and cannot be used, in words
    # Kind -> document as it is stored; of a large one, its version and time only
    documents: Mapping[str, Document] = field(default_factory=dict)
    stamps: Mapping[str, float] = field(default_factory=dict)  # kind -> when that was stored, epoch seconds

    def stored(self, memory: JobMemory, documents: Mapping[Kind, Document], now_s: float) -> Recalled:
        """Return what is remembered after documents were stored; nothing is wrong with them."""
        new = {kind.name: _slim(kind.name, document) for kind, document in documents.items()}
        stamps = {**self.stamps, **dict.fromkeys(new, now_s)}
        return Recalled(memory, (), {**self.documents, **new}, stamps)


def recall(store: StateStore, job: str) -> Recalled:
    """Return what the state store remembers, exactly as the process that stored it does."""
    found = store.learned.recall(job, *KINDS)
    notes: list[str] = [item.note for item in found.values() if item.note]
    read = _Reader(found, notes)
    capacity = read.part(CAPACITY, _capacity) or (ScaleOuts(), Taken())
    drift = read.part(DRIFT, _drift) or (DriftState.untried(), None, None, 0.0)
    policy = found[POLICY.name].document or {}
    profile = read.part(PROFILE, _profile) or (None, Taken(), 0.0)
    performance = read.part(PERFORMANCE, _performance) or (None, Taken())
    workload = read.part(WORKLOAD, _rates)
    newest = read.part(NEWEST, _parts) or ()
    followed_by = _Since(newest, workload)
    memory = JobMemory(
        workload=workload,
        champion=read.part(CHAMPION, followed_by.adopted),
        fallback=read.part(FALLBACK, followed_by.forecaster),
        newest=newest,
        pending=tuple(store.learned.pending_forecasts(job)),
        capacity=capacity[0],
        capacity_from=capacity[1],
        downtimes=read.part(DOWNTIMES, Downtimes.from_state) or Downtimes(),
        drift=drift[0],
        wape=drift[1],
        horizon_wape=drift[2],
        scored_until_s=drift[3],
        normal=read.part(NORMAL, Normal.from_state) or Normal(),
        watching=read.part(WATCHING, Watching.from_state),
        policy=str(policy.get("name", "")),
        policy_memory=policy.get("memory", {}),
        avoided=read.part(AVOIDED, read_avoided) or (),
        profiled=profile[0],
        profile_from=profile[1],
        profile_learned_s=profile[2],
        performance=performance[0],
        performance_from=performance[1],
        mix_share=read.part(MIX, lambda document: float(document["share"])) or 1.0,
        followed=read.part(FOLLOWED, partial(restored, Followed)) or Followed(),
        trust=read.part(TRUST, Trust.from_state) or Trust(),
        further_trust=read.part(FURTHER_TRUST, lambda document: Trust.from_state(document, HOUR)) or Trust(of=HOUR),
        rejected=read.part(REJECTED, Rejections.from_state) or Rejections(),
        known_events=read.part(KNOWN_EVENTS, KnownEvents.from_state) or KnownEvents(),
        unsettled=read.part(UNSETTLED, partial(restored, Unsettled)) or Unsettled(),
        minutes=read.part(MINUTES, followed_by.minutes),
    )
    usable = {name: item.document for name, item in found.items() if name not in read.unusable}
    documents = {name: _slim(name, document) for name, document in usable.items() if document is not None}
    stamps = {name: item.learned_s for name, item in found.items() if item.learned_s is not None}
    return Recalled(memory, tuple(notes), documents, stamps)


def changed(job: str, memory: JobMemory, before: Mapping[str, Document]) -> dict[Kind, Document]:
    """Return the documents of ``memory`` that differ from those stored.

    A forecaster is large, and its newest part is what ticks saw: it is stored anew every 20 minutes only, at a minute
    that differs from job to job, and what was seen since is stored beside it.
    """
    documents: dict[Kind, Document] = {
        CAPACITY: memory.capacity_from.document(memory.capacity.to_state()),
        DOWNTIMES: memory.downtimes.to_state(),
        DRIFT: {
            "state": memory.drift.to_state(),
            "wape": memory.wape,
            "horizon_wape": memory.horizon_wape,
            "scored_until_s": memory.scored_until_s,
        },
        NORMAL: memory.normal.to_state(),
        WATCHING: {} if memory.watching is None else memory.watching.to_state(),
        POLICY: {"name": memory.policy, "memory": dict(memory.policy_memory)},
        AVOIDED: {"sizes": [item.to_state() for item in memory.avoided]},
        TRUST: memory.trust.to_state(),
        UNSETTLED: memory.unsettled.to_state(),
    }
    if memory.workload is not None:
        documents[WORKLOAD] = memory.workload.to_state()
    if memory.profiled is not None:
        profile = memory.profile_from.document(memory.profiled.to_state())
        documents[PROFILE] = {**profile, "learned_s": memory.profile_learned_s}
    if memory.performance is not None:
        documents[PERFORMANCE] = memory.performance_from.document(memory.performance.to_state())
    if memory.mix_share != 1.0:
        documents[MIX] = {"share": memory.mix_share}
    if memory.further_trust.made or memory.further_trust.judged:
        documents[FURTHER_TRUST] = memory.further_trust.to_state()
    known = memory.known_events
    if known.shares or known.awaited or KNOWN_EVENTS.name in before:
        documents[KNOWN_EVENTS] = known.to_state()
    if memory.rejected.of:
        documents[REJECTED] = memory.rejected.to_state()
    if memory.followed.scale_out is not None:
        documents[FOLLOWED] = memory.followed.to_state()
    documents |= _large(job, memory, before)
    documents[NEWEST] = _newest(memory, {**before, **{kind.name: found for kind, found in documents.items()}})
    return {kind: document for kind, document in documents.items() if before.get(kind.name, {}) != document}


def _large(job: str, memory: JobMemory, before: Mapping[str, Document]) -> dict[Kind, Document]:
    """Return the large documents that are due, and empty ones for what is no longer in use."""
    champion, now_s = memory.champion, memory.newest_s or 0.0
    large: dict[Kind, tuple[Taken, Forecaster | Tail | None]] = {
        CHAMPION: (Taken(), None) if champion is None else (champion, champion.forecaster),
        FALLBACK: (Taken(1), memory.fallback),
        MINUTES: (Taken(1), memory.minutes),
    }
    documents: dict[Kind, Document] = {}
    for kind, (taken, model) in large.items():
        if model is None:
            documents[kind] = {}
        elif _due(job, before.get(kind.name), taken, now_s):
            documents[kind] = {**taken.document(model.to_state()), "stored_s": now_s}
    return documents


def _newest(memory: JobMemory, stored: Mapping[str, Document]) -> Document:
    """Return what was seen since the oldest of the large documents was stored; nothing where there is none."""
    large = [stored[kind.name] for kind in LARGE if stored.get(kind.name)]
    oldest_s = min((float(document.get("stored_s", 0.0)) for document in large), default=math.inf)
    parts = [part for part in memory.newest if part.end_s > oldest_s + EPSILON_S]
    return {"parts": [part.state for part in parts]} if parts else {}


def _due(job: str, stored: Document | None, taken: Taken, now_s: float) -> bool:
    if not stored or stored.get("version") != taken.version or stored.get("digest", taken.digest) != taken.digest:
        return True
    phase_s = zlib.crc32(job.encode()) % STORED_EVERY_S  # not all jobs of a fleet in the same tick
    stored_s = stored.get("stored_s", 0.0)
    return stored_s > now_s or int((now_s + phase_s) // STORED_EVERY_S) > int((stored_s + phase_s) // STORED_EVERY_S)


def _slim(name: str, document: Document) -> Document:
    if all(name != kind.name for kind in LARGE):
        return document
    return {key: value for key, value in document.items() if key != "state"}


@dataclass(frozen=True)
class _Reader:
    found: Mapping[str, Learned]
    notes: list[str]
    unusable: set[str] = field(default_factory=set)

    def part(self, kind: Kind, build: Callable[[Document], Part]) -> Part | None:
        document = self.found[kind.name].document
        if not document:
            return None
        try:
            return build(document)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            self.notes.append(f"'{kind.name}' is stored but cannot be used ({error}); starting afresh")
            self.unusable.add(kind.name)
            return None


def _rates(document: Document) -> Tail:
    return _possible(Tail.from_state(document))


def _possible(tail: Tail) -> Tail:
    """Return a tail of rates that a job can have; those of an absurd metric would be believed for hours."""
    known = tail.per_s[np.isfinite(tail.per_s)]
    if known.size and not 0.0 <= known.min() <= known.max() <= ANY_JOB_PER_S:
        raise ValueError(f"it was learned at {known.min():.3g} to {known.max():.3g} records/s")
    return tail


@dataclass(frozen=True)
class _Since:
    """What was seen since something was stored: in the parts in which it was seen, else the workload as it is kept."""

    parts: Sequence[Workload]
    workload: Tail | None

    def forecaster(self, document: Document) -> Forecaster:
        forecaster = forecaster_from_state(document["state"])
        _possible(forecaster.finest)
        for part in self._after(document):
            forecaster = forecaster.update(part)
        return forecaster if self.workload is None else walked(forecaster, history_of(self.workload), PARTS_MADE_UP)

    def adopted(self, document: Document) -> Adopted:
        taken = Taken.stored(document)
        return Adopted(taken.version, taken.digest, forecaster=self.forecaster(document))

    def minutes(self, document: Document) -> Tail:
        minutes = _rates(document["state"]).in_cells(MINUTE_S, KEPT_S)  # some are as long as a scrape interval
        for part in self._after(document):
            minutes = minutes.append(part, KEPT_S)
        if self.workload is None or minutes.end_s >= self.workload.end_s - EPSILON_S:
            return minutes
        return minutes.append(history_of(self.workload), KEPT_S)

    def _after(self, document: Document) -> list[Workload]:
        return [part for part in self.parts if part.end_s > float(document.get("stored_s", 0.0)) + EPSILON_S]


def _parts(document: Document) -> tuple[Workload, ...]:
    return tuple(
        Workload(
            float(part["start_s"]),
            positive("step_s", part["step_s"]),
            np.array([np.nan if rate is None else rate for rate in part["per_s"]], dtype=np.float64),
        )
        for part in document["parts"]
    )


def _drift(document: Document) -> tuple[DriftState, float | None, float | None, float]:
    state = restored(DriftState, document["state"])
    return state, document["wape"], document["horizon_wape"], float(document["scored_until_s"])


def _capacity(document: Document) -> tuple[ScaleOuts, Taken]:
    return ScaleOuts.from_state(document["state"]), Taken.stored(document)


def _profile(document: Document) -> tuple[Profiled, Taken, float]:
    return Profiled.from_state(document["state"]), Taken.stored(document), float(document["learned_s"])


def _performance(document: Document) -> tuple[FittedPerformance, Taken]:
    return FittedPerformance.from_state(document["state"]), Taken.stored(document)


def read_avoided(document: Document) -> tuple[Avoided, ...]:
    """Return the sizes to avoid that are kept in a document."""
    return tuple(restored(Avoided, size) for size in document["sizes"])

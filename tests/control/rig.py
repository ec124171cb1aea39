"""A whole loop for tests: the real tick, a real twin, a real state store; failures happen where they do in life."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson

from perdix.control.champions import ChampionRow, ChampionSource, FleetChampions, GivenChampions
from perdix.control.memories import Memories
from perdix.control.sources import Reading, SourceError
from perdix.control.state.ledger import Intent
from perdix.control.state.store import StateStore
from perdix.control.tick import tick
from perdix.control.tick_io import TickIO, TickReport
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import FAMILIES
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.registry import FORECAST
from perdix.replay.run import TwinSource
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings, StreamJob
from perdix.settings.targets import TwinSettings
from perdix.targets.contract import Guard, Running, TargetError, unguarded
from perdix.targets.twin import LocalTwinTarget
from perdix.telemetry.window import Window
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.parameters import Heap, Keys, RandomTime, Restart, TwinParameters, TwinSize, Workers
from perdix.twin.workloads import WorkloadSpec, arrivals_from

START_S = 1_760_000_000
MINUTE = 60
LONG = 10  # minutes
HIGH, LOW = 60_000.0, 8_000.0  # records/s: about six workers, and one


def parameters(
    maximum: int = 8,
    capacity_per_s: float = 10_000.0,
    sizes: Mapping[str, TwinSize] | None = None,
    heap: Heap | None = None,
    restart: Restart | None = None,
) -> TwinParameters:
    given = dict(sizes or {})
    return TwinParameters(
        name="orders",
        workers=Workers(capacity_per_s=capacity_per_s, maximum=maximum, speed_spread=0.03, sizes=given),
        keys=Keys(skew_spread=0.03),
        heap=heap,
        restart=restart or Restart(),
        workload=WorkloadSpec(shape="sine", peak_utilisation=0.8),
        start_scale_out=4,
    )


def constant(per_s: float, hours: float = 12.0) -> np.ndarray:
    return np.full(int(3600 * hours), per_s)


@dataclass
class FaultySource:
    """A twin's metrics through a filter that a test may change at any time."""

    inner: TwinSource
    change: Callable[[Window], Window] | None = None
    error: str | None = None
    reads: int = 0

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        self.reads += 1
        if self.error is not None:
            raise SourceError(self.error)
        reading = self.inner.read(job, now_s, since_s)
        return reading if self.change is None else Reading(self.change(reading.window))


@dataclass
class FaultyTarget:
    """A twin that may refuse, time out, or come up with fewer workers than it was asked for."""

    twin: JobTwin
    unreadable: str | None = None
    refusing: TargetError | None = None
    reaching: int | None = None
    never_settling: bool = False
    meanwhile: Callable[[], None] | None = None  # while a request is on its way
    asked: list[tuple[int, str]] = field(default_factory=list)

    def read(self) -> Running:
        if self.unreadable is not None:
            raise TargetError(self.unreadable)
        running = LocalTwinTarget(self.twin).read()
        if self.never_settling:
            return replace(running, settled=False)
        if self.reaching is not None and running.settled and running.scale_out > self.reaching:
            return Running(self.reaching, running.requested, settled=True)
        return running

    def scale(
        self,
        scale_out: int,
        idempotency_key: str,
        mix: Mapping[str, int] | None = None,
        guard: Guard = unguarded,
    ) -> Running:
        guard()
        if self.meanwhile is not None:
            self.meanwhile()
        self.asked.append((scale_out, idempotency_key))
        if self.refusing is not None:
            raise self.refusing
        LocalTwinTarget(self.twin).scale(scale_out, idempotency_key, mix)
        return self.read()


def a_job(**changes: Any) -> StreamJob:
    settings: dict[str, Any] = {
        "name": "orders",
        "bounds": Bounds(minimum=1, maximum=8),
        "objectives": Objectives(),
        "policy": PolicySettings(name="daedalus"),
        "target": TwinSettings(url="http://in.process"),
        "mode": "act",
    }
    return StreamJob(**{**settings, **changes})


@dataclass
class Rig:
    """One job and its loop; time passes only in :meth:`minutes`.

    Every tick is that of a fresh process, and remembers what is stored, unless ``memories`` are kept or a stretch of
    minutes is a long one: then a process lasts for the stretch, if it is not ``restarting``.
    """

    twin: JobTwin
    store: StateStore
    job: StreamJob
    source: FaultySource
    target: FaultyTarget
    champions: ChampionSource
    reports: list[TickReport] = field(default_factory=list)
    memories: Memories | None = None
    restarting: bool = False

    @classmethod
    def of(
        cls,
        store: StateStore,
        per_s: float | np.ndarray = 15_000.0,
        *,
        scale_out: int = 4,
        warm_s: int = 1800,
        interval_s: float = 5.0,
        champions: ChampionSource | None = None,
        sizes: Mapping[str, TwinSize] | None = None,
        mix: Mapping[str, int] | None = None,
        heap: Heap | None = None,
        restart: Restart | None = None,
        **job: Any,
    ) -> "Rig":
        arrivals = arrivals_from(constant(per_s) if isinstance(per_s, float) else per_s, START_S)
        made = parameters(sizes=sizes, heap=heap, restart=restart)
        twin = JobTwin(made, 3, start_s=START_S, scale_out=scale_out, arrivals=arrivals, mix=mix)
        twin.step(warm_s)
        source = FaultySource(TwinSource(twin, Scraping(interval_s=interval_s)))
        return cls(twin, store, a_job(**job), source, FaultyTarget(twin), champions or GivenChampions())

    @property
    def io(self) -> TickIO:
        memories = Memories() if self.memories is None else self.memories
        return TickIO(self.source, self.store, self.champions, lambda _: self.target, memories=memories)

    @property
    def now_s(self) -> float:
        return float(self.twin.now_s)

    def tick(self) -> TickReport:
        report = tick(self.job, self.io, self.now_s)
        self.reports.append(report)
        return report

    def minutes(self, count: int) -> list[TickReport]:
        """Let minutes pass, with a tick at the end of each."""
        kept = self.memories
        if kept is None and count >= LONG and not self.restarting:
            self.memories = Memories()
        reports = []
        for _ in range(count):
            self.twin.step(MINUTE)
            reports.append(self.tick())
        self.memories = kept
        return reports


def champion(
    history: np.ndarray, end_s: float, version: int = 1, family: str | Sequence[str] = "damped-trend"
) -> GivenChampions:
    """A forecaster of one family or several, really fitted to a history of one-second rates that ends at ``end_s``."""
    chosen = {name: FAMILIES[name] for name in ([family] if isinstance(family, str) else family)}
    made = Forecaster.fit(Workload(end_s - len(history), 1.0, np.asarray(history, dtype=float)), chosen)
    return champion_of(orjson.dumps(made.to_state()).decode(), version, made.family)


def champion_of(state: str, version: int, family: str = "damped-trend") -> GivenChampions:
    """A champion with a given state, as a version of the fleet has it."""
    row = ChampionRow(family, state, version)
    return GivenChampions({FORECAST: FleetChampions(FORECAST, version, {"orders": row})})


def masked(window: Window, share: float, seed: int, metrics: Iterable[str] | None = None) -> Window:
    """The window with a random ``share`` of its values missing (of some metrics, or of all)."""
    rng = np.random.default_rng(seed)
    chosen = set(metrics) if metrics is not None else {*window.job_metrics, *window.worker_metrics}

    def lost(name: str, values: np.ndarray) -> np.ndarray:
        return np.where(rng.random(values.shape) < share, np.nan, values) if name in chosen else values

    return replace(
        window,
        job_metrics={name: lost(name, values) for name, values in window.job_metrics.items()},
        worker_metrics={name: lost(name, values) for name, values in window.worker_metrics.items()},
    )


def restarts_of(seconds: float) -> Restart:
    takes = RandomTime(median_s=seconds, spread=0.05)
    return Restart.model_validate({"out": takes, "in": takes, "failure": takes})


def took(store: StateStore, at_s: float, seconds: float, looked_s: float | None = None) -> None:
    """Let a rescale of the job have been carried out, from being accepted to being seen running.

    ``looked_s``: how long after it was accepted it was last seen not to run yet; a minute before the end by default.
    """
    intent = Intent("orders", at_s, at_s, 3, 4, "static", "scale_out", "so it is", at_s + 900.0, {}, {})
    store.ledger.record(intent)
    store.ledger.applied(intent.decision_id, at_s)
    waiting_s = at_s + max(seconds - MINUTE if looked_s is None else looked_s, 1.0)
    store.ledger.record(replace(intent, window_end_s=waiting_s, made_s=waiting_s, scale_out=3, reason="hold_unsettled"))
    store.ledger.confirmed(intent.decision_id, at_s + seconds)


def applied(rig: Rig) -> list[tuple[int, int]]:
    """Every change of scale-out that the twin really went through."""
    return [(outage.from_scale_out, outage.to_scale_out) for outage in rig.twin.outages if outage.cause != "failure"]

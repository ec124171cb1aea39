"""One episode: jobs, controllers, faults and time, all in one thread, so that the same faults give the same run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from benchmarks.storm.boundaries import Boundaries
from benchmarks.storm.climate import END_MIN, EPISODE_MIN, IDLE_MIN, MINUTE_S, START_S, Place
from benchmarks.storm.controller import Controller
from benchmarks.storm.deployment import Deployment
from benchmarks.storm.disk import files
from benchmarks.storm.faults import Fault
from benchmarks.storm.flow import FLOW, Flow, FlowPlace
from benchmarks.storm.hosts import Hosts
from benchmarks.storm.job_files import JobFiles
from benchmarks.storm.network import simulated
from benchmarks.storm.oracles.judge import Violation
from benchmarks.storm.oracles.watch import Watch
from benchmarks.storm.patience import HUNG_S, HungError, patience
from benchmarks.storm.process import INTERVAL_S, LOOK_S, Killed, Loop, Machine
from benchmarks.storm.prometheus import PrometheusServer, Scraped, Sources, connected_in
from benchmarks.storm.registry import tables
from benchmarks.storm.scrapes import Scrapes
from benchmarks.storm.servers import Servers
from benchmarks.storm.weather import Weather, concerned
from perdix.control.sources import LiveSource
from perdix.control.state.schema import StateError
from perdix.control.state.store import StateStore
from perdix.models.registry import FORECAST
from perdix.targets.contract import TargetError

UP_S = 40_000.0  # for which a machine that others share is up when an episode begins


@dataclass(frozen=True)
class Run:
    """What an episode came to."""

    steps: int
    violations: tuple[Violation, ...]
    ends: Mapping[str, int]
    decisions: Mapping[str, Sequence[tuple[int, int, str]]]
    boundaries: int
    rows: int
    idle: Mapping[str, int]  # workers when idleness ends
    struck: frozenset[Fault]  # faults that somebody met
    kept: Mapping[str, float]  # workers on average in a day's quiet hours


class World:
    """An episode.

    ``controllers``: how many; each ticks once a minute, at its own second.
    ``apart``: whether each process is on a machine of its own, of whose boot no other knows.
    ``calm``: the run of the same climate without faults, to compare with.
    ``flow``: a job whose operators as many loops size as there are controllers.
    ``crash_at``: number of the boundary, counted from the episode's begin, at which the first controller dies.
    ``url``: of an empty store; ``None``: a file of its own in ``folder``.
    """

    def __init__(
        self,
        places: Sequence[Place],
        faults: Sequence[Fault],
        folder: Path,
        *,
        controllers: int = 1,
        apart: bool = False,
        minutes: int = EPISODE_MIN,
        calm: Run | None = None,
        crash_at: int | None = None,
        flow: FlowPlace | None = None,
        url: str | None = None,
    ) -> None:
        self.weather = weather = Weather(tuple(faults))
        self.minutes = minutes
        self._end_s = START_S + minutes * MINUTE_S
        self._url = url or f"sqlite:///{folder / 'state.db'}"
        self._calm = calm
        self.deployments = {place.job.name: self._deployed(place) for place in places}
        self.flow = None if flow is None else Flow(flow, lambda kind: weather.active(kind, FLOW))
        self.controllers = _staggered("c", controllers, INTERVAL_S)
        if flow is not None:
            self.controllers += _staggered("o", controllers, LOOK_S, operates=True)
        self._fleets = controllers
        self.boundaries = Boundaries(weather, self.pass_time, crash_at)
        scrapes = Scrapes(self.deployments, weather.of_metrics, lambda: weather.now_s, self.boundaries.reads)
        scraped = Scraped(self.deployments, weather.of_metrics, lambda: weather.now_s)
        self.prometheus = PrometheusServer(scraped, self.pass_time)
        self.hosts = Hosts(
            weather,
            self.boundaries,
            JobFiles(weather, [place.job for place in places], None if flow is None else flow.job),
            folder,
            self._url,
            lambda: Sources(scrapes, LiveSource(connected_in(self.pass_time))),
            partial(tables, tuple((place.job.name, place.load) for place in places)),
            None if apart else Machine("kernel:1", START_S - UP_S),
        )
        self.idle: dict[str, int] = {}
        self.watch = Watch(self)
        self._steps = 0

    def _deployed(self, place: Place) -> Deployment:
        return Deployment(place, lambda kind: self.weather.active(kind, place.job.name))

    @property
    def idle_until_min(self) -> int:
        """The minute at which the quiet end ends, and the load rises for the last time."""
        return max(self.minutes, EPISODE_MIN) - END_MIN + IDLE_MIN

    # ---- running ---------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Run to the end, or to the first violation."""
        with self._begun() as auditor:
            while not self.watch.found and self._next(self._end_s):
                pass
            self.weather.now_s = max(self.weather.now_s, float(self._end_s))
            for deployment in self.deployments.values():
                deployment.catch_up(self.weather.now_s)
            if self.flow is not None:
                self.flow.catch_up(self.weather.now_s)
            if not self.watch.found:
                self._judge(auditor)
            rows = len(auditor.ledger.decisions(limit=1_000_000))
        ends = self._sizes()
        found = tuple(self.watch.found)
        made, struck = self.watch.decisions, frozenset(self.weather.struck)
        kept, passed = self.watch.kept, self.boundaries.passed
        return Run(self._steps, found, ends, made, passed, rows, dict(self.idle), struck, kept)

    def _sizes(self) -> dict[str, int]:
        """Return the workers of each job; of one whose operators are sized, their instances."""
        found = {name: deployment.twin.scale_out for name, deployment in self.deployments.items()}
        return found if self.flow is None else {**found, FLOW: self.flow.total}

    def marching(self, every: int) -> Iterator[int]:
        """Run to the end whatever is violated, and yield every few steps."""
        with self._begun():
            while self._next(self._end_s):
                if self._steps % every == 0:
                    yield self._steps

    @contextmanager
    def _begun(self) -> Iterator[StateStore]:
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        self._auditor = StateStore(self._url)
        servers = Servers(
            self.weather, self.boundaries, self.deployments, self.flow, self.prometheus, self.watch, self._auditor
        )
        try:
            with simulated(servers.exchange), files(self.boundaries.file):
                yield self._auditor
        finally:
            logging.disable(level)
            for controller in self.controllers:
                controller.end()
            self._auditor.close()

    def _judge(self, auditor: StateStore) -> None:
        calm = self._calm
        alone: Mapping[str, Sequence[object]] = {}
        if calm is not None and self._fleets == 1 and self.boundaries.crash_at is None:
            touched = concerned(self.weather.faults, list(self.deployments))
            alone = {name: made for name, made in calm.decisions.items() if name not in touched}
        self.watch.ended(auditor, calm, alone)

    # ---- whose turn it is ------------------------------------------------------------------------------------------

    def _next(self, until_s: float) -> bool:
        """Let the controller tick whose turn comes first, if that is before ``until_s``."""
        idle = [controller for controller in self.controllers if not controller.busy and controller.next_s <= until_s]
        if not idle:
            return False
        first = min(idle, key=lambda controller: (controller.next_s, controller.name))
        weather = self.weather
        weather.now_s = max(weather.now_s, first.next_s)
        self.hosts.boot(self.controllers)
        if not self.idle and weather.minute >= self.idle_until_min:
            self.idle = self._sizes()
        self._step(first)
        late = max(weather.now_s - first.next_s, 0.0)
        every_s = LOOK_S if first.operates else INTERVAL_S
        first.next_s += every_s * (1 + late // every_s)
        return True

    def pass_time(self, seconds: float) -> None:
        """Let time pass inside of a tick: the other controllers go on."""
        until_s = self.weather.now_s + seconds
        if seconds >= 1.0:
            while self._next(until_s):
                pass
        self.weather.now_s = max(self.weather.now_s, until_s)
        self.hosts.boot(self.controllers)
        running = self.boundaries.running
        if running and running[-1].doomed:
            raise Killed

    def _step(self, controller: Controller) -> None:
        self._steps += 1
        active = self.weather.active
        if active("down", controller.name) is not None:
            controller.end()
            return
        restart = active("restart", controller.name)
        if restart is not None and restart not in controller.done:
            controller.done.add(restart)
            controller.end()
        began_s, controller.busy = self.weather.now_s, True
        self.boundaries.running.append(controller)
        try:
            with patience():
                self._ticks(controller, began_s)
        except Killed:
            controller.end()
        except HungError:
            controller.end()
            self.watch.hung(controller.name, HUNG_S)
        except StateError as error:
            # A supervisor would start it again; what it could not open must be a fault of the store.
            controller.end()
            if not self.boundaries.store_failed(controller, began_s):
                self.watch.raised(controller.name, error)
        except Exception as error:
            controller.end()
            self.watch.raised(controller.name, error)
        finally:
            self.boundaries.running.pop()
            controller.busy = controller.doomed = False

    def _ticks(self, controller: Controller, began_s: float) -> None:
        """Let a controller tick or look once, and judge it."""
        if controller.process is None:
            controller.process = self.hosts.start(controller)
        if isinstance(controller.process, Loop):
            self._looks(controller, controller.process, began_s)
            return
        controller.jobs = self.hosts.files.now()
        report = controller.process.tick(controller.jobs, self.hosts.heartbeat(controller))
        self.watch.ticked(report, self._auditor, self.weather.now_s - began_s)
        self.watch.believes(controller.process.io.champions.fleet(FORECAST), report, began_s)
        if not self.boundaries.store_failed(controller, began_s):
            self.watch.swallowed(report)

    def _looks(self, controller: Controller, loop: Loop, began_s: float) -> None:
        """Let a loop look once; one that cannot even begin ends, to be started again by whoever watches it."""
        controller.jobs, begins = [self.hosts.files.of_flow()], not loop.begun
        try:
            look = loop.look()
        except (TargetError, SQLAlchemyError):
            if not begins:
                raise
            controller.end()
            return
        if look is not None and self.flow is not None:
            self.watch.looked(self.flow, look, self._auditor, self.weather.now_s - began_s)


def _staggered(letter: str, count: int, every_s: float, *, operates: bool = False) -> list[Controller]:
    """Return controllers each of which ticks, or looks, at its own second."""
    gap_s = every_s / count
    return [Controller(f"{letter}{k}", START_S + every_s + k * gap_s, operates=operates) for k in range(count)]

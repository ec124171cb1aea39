"""One episode: jobs, controllers, faults and time, all in one thread, so that the same faults give the same run."""

from __future__ import annotations

import errno
import json
import logging
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from benchmarks.storm.answers import BAD_ANSWERS, absurd, garbage, refusal
from benchmarks.storm.climate import EPISODE_MIN, IDLE_MIN, MINUTE_S, START_S, STORM_MIN, Place, edited
from benchmarks.storm.deployment import Deployment
from benchmarks.storm.disk import FULL, GONE, LOCKED, READ_ONLY, files, writes
from benchmarks.storm.faces import Answer, answer
from benchmarks.storm.faults import ALL, ASLEEP_S, KINDS, Fault
from benchmarks.storm.flink_face import is_of_checkpoints
from benchmarks.storm.flow import FLOW, Flow, FlowPlace, Mix, of_flow
from benchmarks.storm.network import RefusedError, Request, Response, SilenceError, simulated
from benchmarks.storm.oracles import Violation, Watch, concerned, quiet_since
from benchmarks.storm.process import CHAMPIONS, INTERVAL_S, LOOK_S, Killed, Loop, Machine, Process, Surroundings
from benchmarks.storm.prometheus import PrometheusServer, Scraped, Sources, connected_in
from benchmarks.storm.registry import Registry, tables
from benchmarks.storm.scrapes import Scrapes
from perdix.control.clock import PROCESS
from perdix.control.sources import LiveSource
from perdix.control.state.schema import StateError
from perdix.control.state.store import StateStore
from perdix.models.registry import FORECAST
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Guard, Running, Target, TargetError, unguarded

LYING = frozenset(
    {"stale read", "absurd read", "forgotten write", "garbage", "lost answer", "never settles", "forgets", "by hand"}
)
FROZEN_S = 10.0
UP_S = 40_000.0  # for which a machine that others share is up when an episode begins
AWAKE_S = 360.0
LEAST_LEASE_S = 10.0  # that a lease lasts beyond what a request may take: who is later than that may be overtaken
HUNG_S = 10.0  # of processor time: a step takes a hundredth of a second


@dataclass
class Controller:
    """A place where a process runs, is ended and is started again."""

    name: str
    next_s: float
    process: Process | Loop | None = None
    busy: bool = False
    boundaries: int = 0
    counted_min: int = -1
    jobs: Sequence[StreamJob] = ()  # as its present tick was given them
    starts: int = 0  # of its process
    doomed: bool = False  # its machine was booted while its process slept
    late_s: float = 0.0  # by which its present request left late
    version: int = 0  # of the target when it was to leave
    job: str = ""  # whose target it asks
    operates: bool = False  # it is a loop that sizes operators
    done: set[Fault] = field(default_factory=set)
    awake_until_s: dict[str, float] = field(default_factory=dict)  # by job


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


class World:
    """An episode.

    ``controllers``: how many; each ticks once a minute, at its own second.
    ``apart``: whether each process is on a machine of its own, of whose boot no other knows.
    ``calm``: the run of the same climate without faults, to compare with.
    ``wrapped``: put around each target: for bugs that are planted.
    ``flow``: a job whose operators as many loops size as there are controllers.
    ``crash_at``: number of the boundary, counted from the episode's begin, at which the first controller dies.
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
        wrapped: Callable[[Target], Target] = lambda target: target,
        crash_at: int | None = None,
        flow: FlowPlace | None = None,
    ) -> None:
        self.faults = tuple(faults)
        self.now_s = float(START_S)
        self._minutes = minutes
        self._end_s = START_S + minutes * MINUTE_S
        self._folder = folder
        self._url = f"sqlite:///{folder / 'state.db'}"
        self._calm, self._wrapped, self._crash_at = calm, wrapped, crash_at
        self._ordered = [place.job for place in places]
        self.deployments = {place.job.name: self._deployed(place) for place in places}
        gap_s = INTERVAL_S / controllers
        self.controllers = [Controller(f"c{k}", START_S + INTERVAL_S + k * gap_s) for k in range(controllers)]
        self.flow = None if flow is None else Flow(flow, lambda kind: self.active(kind, FLOW))
        if self.flow is not None:
            gap_s = LOOK_S / controllers
            self.controllers += [
                Controller(f"o{k}", START_S + LOOK_S + k * gap_s, operates=True) for k in range(controllers)
            ]
        self._fleets = controllers
        self._running: list[Controller] = []
        self._scrapes = Scrapes(self.deployments, self._of_metrics, lambda: self.now_s, self._reads)
        self._prometheus = PrometheusServer(
            Scraped(self.deployments, self._of_metrics, lambda: self.now_s), self.pass_time
        )
        self._machine = None if apart else Machine("kernel:1", START_S - UP_S)
        self._tables = cache(lambda: tables(places))
        self.idle: dict[str, int] = {}
        self.struck: set[Fault] = set()
        self.watch = Watch(self)
        self._boundaries = self._steps = 0
        self._stepped: dict[float, float] = {}  # what a clock that was wrong said -> when that was

    # ---- time and faults -------------------------------------------------------------------------------------------

    @property
    def minute(self) -> float:
        """Minutes since the episode began."""
        return self.minute_of(self.now_s)

    def true_s(self, clock_s: float) -> float:
        """Return when a controller's clock last said this."""
        return self._stepped.get(clock_s, clock_s)

    def minute_of(self, at_s: float) -> float:
        """Return epoch seconds as minutes since the episode began."""
        return (at_s - START_S) / MINUTE_S

    def quiet_since_min(self, job: str) -> float:
        """Return since which minute nothing goes wrong for a job."""
        return quiet_since(self.faults, job, self.minute)

    def lying(self, job: str, *, ever: bool = False) -> bool:
        """Whether a job's target says or does what it should not, now or ever in this episode."""
        return any(
            fault.kind in LYING and fault.where == job and (ever or fault.during(self.minute)) for fault in self.faults
        )

    def active(self, kind: str, *where: str) -> Fault | None:
        """Return a fault of a kind that goes on now."""
        minute = self.minute
        for fault in self.faults:
            if fault.kind == kind and fault.where in where and fault.during(minute):
                self.struck.add(fault)
                return fault
        return None

    def _deployed(self, place: Place) -> Deployment:
        return Deployment(place, lambda kind: self.active(kind, place.job.name))

    def _of_metrics(self, job: str) -> list[tuple[Fault, float]]:
        minute = self.minute
        found = [
            fault
            for fault in self.faults
            if fault.where == job and KINDS[fault.kind].scope == "metrics" and fault.during(minute)
        ]
        self.struck.update(found)
        return [(fault, START_S + fault.from_min * float(MINUTE_S)) for fault in found]

    # ---- running ---------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Run to the end, or to the first violation."""
        with self._begun() as auditor:
            while not self.watch.found and self._next(self._end_s):
                pass
            self.now_s = max(self.now_s, float(self._end_s))
            for deployment in self.deployments.values():
                deployment.catch_up(self.now_s)
            if self.flow is not None:
                self.flow.catch_up(self.now_s)
            if not self.watch.found:
                self._judge(auditor)
            rows = len(auditor.ledger.decisions(limit=1_000_000))
        ends = self._sizes()
        found = tuple(self.watch.found)
        made, struck = self.watch.decisions, frozenset(self.struck)
        return Run(self._steps, found, ends, made, self._boundaries, rows, dict(self.idle), struck)

    def _sizes(self) -> dict[str, int]:
        """Return the workers of each job; of one whose operators are sized, their instances."""
        found = {name: deployment.twin.scale_out for name, deployment in self.deployments.items()}
        return found if self.flow is None else {**found, FLOW: self.flow.total}

    def marching(self, every: int) -> Iterator[int]:
        """Run to the end whatever is violated, and yield after every so many steps."""
        with self._begun():
            while self._next(self._end_s):
                if self._steps % every == 0:
                    yield self._steps

    @contextmanager
    def _begun(self) -> Iterator[StateStore]:
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        self._auditor = StateStore(self._url)
        try:
            with simulated(self._exchange), files(self._file):
                yield self._auditor
        finally:
            logging.disable(level)
            for controller in self.controllers:
                self._end(controller)
            self._auditor.close()

    def _judge(self, auditor: StateStore) -> None:
        calm = self._calm
        alone: Mapping[str, Sequence[object]] = {}
        if calm is not None and self._fleets == 1 and self._crash_at is None:
            touched = concerned(self.faults, list(self.deployments))
            alone = {name: made for name, made in calm.decisions.items() if name not in touched}
        self.watch.ended(auditor, calm, alone)

    def _next(self, until_s: float) -> bool:
        """Let the controller tick whose turn comes first, if that is before ``until_s``."""
        idle = [controller for controller in self.controllers if not controller.busy and controller.next_s <= until_s]
        if not idle:
            return False
        first = min(idle, key=lambda one: (one.next_s, one.name))
        self.now_s = max(self.now_s, first.next_s)
        self._boot()
        if not self.idle and self.minute >= STORM_MIN + IDLE_MIN:
            self.idle = self._sizes()
        self._step(first)
        late = max(self.now_s - first.next_s, 0.0)
        every_s = LOOK_S if first.operates else INTERVAL_S
        first.next_s += every_s * (1 + late // every_s)
        return True

    def pass_time(self, seconds: float) -> None:
        """Let time pass inside of a tick: the other controllers go on."""
        until_s = self.now_s + seconds
        if seconds >= 1.0:
            while self._next(until_s):
                pass
        self.now_s = max(self.now_s, until_s)
        self._boot()
        if self._running and self._running[-1].doomed:
            raise Killed

    def _boot(self) -> None:
        """Boot machines anew whose time has come: what runs on them dies, where it sleeps, too."""
        minute = self.minute
        for fault in self.faults:
            if fault.kind != "reboot" or fault.from_min > minute or fault in self.struck:
                continue
            self.struck.add(fault)
            if self._machine is not None:
                self._machine = Machine(f"kernel:{self.now_s}", self.now_s)
            for controller in self.controllers:
                if self._machine is None and fault.where not in {controller.name, ALL}:
                    continue
                controller.doomed = controller.busy
                if not controller.busy:
                    self._end(controller)

    def _step(self, controller: Controller) -> None:
        self._steps += 1
        if self.active("down", controller.name) is not None:
            self._end(controller)
            return
        restart = self.active("restart", controller.name)
        if restart is not None and restart not in controller.done:
            controller.done.add(restart)
            self._end(controller)
        began_s, controller.busy = self.now_s, True
        self._running.append(controller)
        try:
            with _patience():
                if controller.process is None:
                    controller.process = self._started(controller)
                if isinstance(controller.process, Loop):
                    self._looked(controller, controller.process, began_s)
                    return
                controller.jobs = self._jobs()
                report = controller.process.tick(controller.jobs, self._heartbeat(controller))
            self.watch.ticked(report, self._auditor, self.now_s - began_s)
            self.watch.believes(controller.process.io.champions.fleet(FORECAST), began_s)
        except Killed:
            self._end(controller)
        except HungError:
            self._end(controller)
            self.watch.hung(controller.name, HUNG_S)
        except StateError as error:
            # A supervisor would start it again; what it could not open must be a fault of the store.
            self._end(controller)
            if not self._store_fault(controller, began_s):
                self.watch.raised(controller.name, error)
        except Exception as error:
            self._end(controller)
            self.watch.raised(controller.name, error)
        finally:
            self._running.pop()
            controller.busy = controller.doomed = False

    def _looked(self, controller: Controller, loop: Loop, began_s: float) -> None:
        """Let a loop look once; one that cannot even begin ends, to be started again by whoever watches it."""
        controller.jobs, begins = [self._flow_job()], not loop.begun
        try:
            look = loop.look()
        except (TargetError, SQLAlchemyError):
            if not begins:
                raise
            self._end(controller)
            return
        if look is not None and self.flow is not None:
            self.watch.looked(self.flow, look, self._auditor, self.now_s - began_s)

    def _flow_job(self) -> StreamJob:
        """Return the job whose operators are sized, as its file is now, or was last if it is gone."""
        assert self.flow is not None
        edit = self.active("job file", FLOW)
        at = [self.flow.place.job] if edit is None or not edit.what.startswith("at ") else []
        return at[0] if at or edit is None else edited(self.flow.place.job, edit.what)[0]

    def _jobs(self) -> list[StreamJob]:
        """Return the jobs as their files are now."""
        edits = ((job, self.active("job file", job.name)) for job in self._ordered)
        return [job_left for job, edit in edits for job_left in ([job] if edit is None else edited(job, edit.what))]

    def _started(self, controller: Controller) -> Process | Loop:
        folder = self._folder / controller.name
        folder.mkdir(exist_ok=True)
        controller.starts += 1
        alone = Machine(f"{PROCESS}{controller.name}-{controller.starts}", self.now_s)
        around = Surroundings(
            self._url,
            lambda: self._clock_s(controller),
            lambda: self.now_s,
            self._machine or alone,
            lambda statement: self._statement(controller, statement),
            lambda seconds: self._waits(controller, seconds),
        )
        if controller.operates:
            drowsy = partial(self._slept, controller, "asleep before asking")
            return Loop(controller.name, around, self._flow_job, drowsy)
        return Process(
            controller.name,
            folder,
            around,
            source=Sources(self._scrapes, LiveSource(connected_in(self.pass_time))),
            registry=Registry(
                self._tables,
                lambda kind: self.active(kind, ALL),
                lambda: self.minute,
                self.pass_time,
                lambda: self._boundary(controller, may_pause=True),
            ),
            wrapped=lambda target: Drowsy(
                self._wrapped(target), lambda: self._slept(controller, "asleep before asking")
            ),
        )

    def _end(self, controller: Controller) -> None:
        process, controller.process = controller.process, None
        if process is not None:
            process.end()

    def _clock_s(self, controller: Controller) -> float:
        step = self.active("clock step", controller.name)
        if step is None:
            self._stepped.pop(self.now_s, None)
            return self.now_s
        clock_s = self.now_s + step.amount
        self._stepped[clock_s] = self.now_s
        return clock_s

    def _heartbeat(self, controller: Controller) -> Path:
        path = self._folder / controller.name / "heartbeat.json"
        if self.active("heartbeat unwritable", controller.name, ALL) is not None:
            path.unlink(missing_ok=True) if path.is_file() else None
            path.mkdir(exist_ok=True)
        elif path.is_dir():
            shutil.rmtree(path)
        return path

    # ---- boundaries ------------------------------------------------------------------------------------------------

    def _boundary(self, controller: Controller, *, may_pause: bool) -> None:
        """Die or sleep here, if a fault says so."""
        self._boundaries += 1
        if self._crash_at is not None and self._boundaries == self._crash_at:
            raise Killed
        minute = int(self.minute)
        if controller.counted_min != minute:
            controller.counted_min, controller.boundaries = minute, 0
        controller.boundaries += 1
        crash = self.active("crash", controller.name)
        if crash is not None and crash not in controller.done and controller.boundaries >= crash.amount:
            controller.done.add(crash)
            raise Killed
        pause = self.active("pause", controller.name)
        if may_pause and pause is not None and pause not in controller.done and controller.boundaries >= pause.amount:
            controller.done.add(pause)
            self.pass_time(60.0 * pause.minutes)

    def _reads(self, job: str) -> None:
        """Die or sleep, or let time pass, before metrics are read."""
        if self._running:
            self._boundary(self._running[-1], may_pause=True)
        slow = self.active("slow metrics", job)
        if slow is not None:
            self.pass_time(slow.amount)

    def _file(self, target: Path) -> None:
        """Die before a file appears, or find the disk full."""
        if self._running:
            self._boundary(self._running[-1], may_pause=False)
        if CHAMPIONS in target.parts and self.active("champions unwritable", ALL) is not None:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))

    def _slept(self, controller: Controller, kind: str) -> None:
        """Sleep here for longer than a lease lasts, but not soon again before the same job's requests."""
        job = controller.job
        if self.active(kind, controller.name) is not None and self.now_s >= controller.awake_until_s.get(job, 0.0):
            self.pass_time(ASLEEP_S)
            controller.awake_until_s[job] = self.now_s + AWAKE_S

    def _store_fault(self, controller: Controller, since_s: float) -> bool:
        """Whether the store had a fault: what was asked while it lasted may be answered long after it."""
        since_min = self.minute_of(since_s)
        return any(
            KINDS[fault.kind].scope == "store"
            and fault.where in {controller.name, ALL}
            and fault.between(since_min, self.minute)
            for fault in self.faults
        )

    def _statement(self, controller: Controller, statement: str) -> str | None:
        begins = statement.startswith("BEGIN")
        self._boundary(controller, may_pause=begins)
        here = (controller.name, ALL)
        fails = self.active("statement fails", *here)
        if fails is not None and fails not in controller.done and controller.boundaries >= fails.amount:
            controller.done.add(fails)
            return "disk I/O error"
        if self.active("store gone", *here) is not None:
            return GONE
        if statement == "BEGIN IMMEDIATE":
            if self.active("store frozen", *here) is not None:
                self.pass_time(FROZEN_S)
                return LOCKED
            if self.active("store locked", *here) is not None:
                return LOCKED
        if writes(statement):
            if self.active("store full", *here) is not None:
                return FULL
            if self.active("store read-only", *here) is not None:
                return READ_ONLY
        return None

    def _exchange(self, request: Request) -> Response:
        controller = self._running[-1]
        kind, _, job = request.host.partition(".")
        if kind == "prometheus":
            self._boundary(controller, may_pause=True)
            found = self._prometheus.answer(request)
            self._boundary(controller, may_pause=True)
            return found
        asked = self.flow if job == FLOW and self.flow is not None else self.deployments[job]
        before_s, controller.job, controller.version = self.now_s, job, asked.version
        self._boundary(controller, may_pause=True)
        if request.method == "PUT":
            self._slept(controller, "asleep while sending")
        controller.late_s = self.now_s - before_s
        response = self._served(controller, kind, asked, request)
        self._boundary(controller, may_pause=True)
        return response

    def _waits(self, controller: Controller, seconds: float) -> bool:
        """Let time pass while a target waits for a slow checkpoint; else it waits beside the loop, and False."""
        slow = self.active("slow checkpoint", controller.job) is not None
        if slow:
            self.pass_time(seconds)
        return slow

    def _served(self, controller: Controller, kind: str, deployment: Deployment | Flow, request: Request) -> Response:
        job = deployment.place.job.name
        if self.active("refused", job) is not None:
            raise RefusedError
        if self.active("lost request", job) is not None:
            self.pass_time(request.timeout_s)
            raise SilenceError
        slow = self.active("slow", job)
        if slow is not None:
            self.pass_time(slow.amount)
        status = self.active("status", job)
        if status is not None:
            return refusal(kind, int(status.amount))
        if isinstance(deployment, Flow):
            code, document = self._of_operators(controller, deployment, request)
        else:
            code, document = self._of_workers(controller, kind, deployment, request)
        if self.active("lost answer", job) is not None:
            self.pass_time(request.timeout_s)
            raise SilenceError
        return self._worded(job, request, Response.of(code, document), document)

    def _of_operators(self, controller: Controller, flow: Flow, request: Request) -> Answer:
        asked: list[Mix] = []
        body = json.loads(request.body) if request.body else None
        sent = request.method, request.path, request.query, body
        found = of_flow(flow, flow.reported(self.now_s), sent, asked.append)
        for wanted in asked:
            if controller.late_s > LEAST_LEASE_S:
                flow.ask(self.now_s, wanted, "", "")
                continue
            decision_id = self.watch.asked_operators(flow, controller.jobs[0], wanted, controller.name, self._auditor)
            flow.ask(self.now_s, wanted, controller.name, decision_id)
        return found

    def _of_workers(self, controller: Controller, kind: str, deployment: Deployment, request: Request) -> Answer:
        job = deployment.place.job.name
        asked: list[tuple[int, str]] = []
        state = deployment.reported(self.now_s)
        code, document = answer(
            kind,
            deployment,
            state,
            (request.method, request.path, request.body),
            lambda scale_out, key: asked.append((scale_out, key)),
        )
        for scale_out, key in asked:
            fenced = kind == "kubernetes" and deployment.version != controller.version
            if controller.late_s > LEAST_LEASE_S and not fenced:
                # Who falls asleep while its request leaves cannot be stopped, where nothing was written meanwhile.
                deployment.ask(self.now_s, scale_out, "", "")
                continue
            given = next(settings for settings in controller.jobs if settings.name == job)
            decision_id = self.watch.asked(deployment, given, (scale_out, key), controller.name, self._auditor)
            deployment.ask(self.now_s, scale_out, controller.name, decision_id)
        return code, document

    def _worded(self, job: str, request: Request, answered: Response, document: object) -> Response:
        """Return what reaches the client of an answer."""
        bad = self.active("garbage", job)
        if bad is None and is_of_checkpoints(request.path):
            bad = self.active("bad checkpoint", job)
        if bad is not None and bad.what in BAD_ANSWERS:
            return garbage(bad.what)
        lie = self.active("absurd read", job)
        if lie is not None and request.method == "GET":
            return Response.of(answered.status, absurd(document, lie.amount))
        return answered


class Drowsy:
    """A target whose controller may fall asleep at the last moment: before it looks whether it may still ask."""

    def __init__(self, inner: Target, sleep: Callable[[], object]) -> None:
        self._inner, self._sleep = inner, sleep

    def read(self) -> Running:
        """Return what runs."""
        return self._inner.read()

    def scale(
        self, scale_out: int, key: str, mix: Mapping[str, int] | None = None, guard: Guard = unguarded
    ) -> Running:
        """Ask, a little later perhaps."""

        def late() -> None:
            self._sleep()
            guard()

        return self._inner.scale(scale_out, key, mix, late)

    def close(self) -> None:
        """Close the target."""
        self._inner.close()


class HungError(BaseException):
    """A step used up far more processor time than any step needs."""


@contextmanager
def _patience() -> Iterator[None]:
    """Raise in this thread when the block needs too much processor time; within another such block, nothing new."""

    def end(*_: object) -> None:
        raise HungError

    if signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0.0 or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, HUNG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)

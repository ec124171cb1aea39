"""What a tick costs: milliseconds per stage, and jobs per second for fleets of 1, 100 and 1,000 jobs.

Two ways: from memory (a twin's series, aligned beforehand, targets in process), so that what is measured is models,
policy and state store; and live: metrics and targets over real HTTP from another process
(:mod:`benchmarks.fleet_server`), read as the live loop reads them. Listed apart: the tick in which every job takes in a
champion, those that follow, and the first one after a restart. Beside the time that passes stands the processor's,
which other programs on the machine change less. Run ``python -m benchmarks.tick [--jobs 1 100 1000] [--source memory
live] [--family ensemble] [--only FAMILY ...] [--processes N] [--store URL] [--json]``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import orjson

from benchmarks.decision import decision_ms
from benchmarks.fleet_server import fleet, move_to
from benchmarks.harness import options, resident_mib, write_json
from benchmarks.own_process import serving
from benchmarks.twin_jobs import job_of
from perdix.control.champions import ChampionRow, FleetChampions, GivenChampions
from perdix.control.crew import Crew
from perdix.control.fleet import tick_fleet
from perdix.control.live import Targets
from perdix.control.memories import Memories
from perdix.control.read_ahead import Hanging, ReadAhead
from perdix.control.serving import FleetCrew, serve_elsewhere
from perdix.control.sources import LiveSource, MetricsSource, Reading
from perdix.control.state.journal import Status
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import ENSEMBLE, FAMILIES, families_named
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.forecasting.member import Member
from perdix.models.registry import FORECAST
from perdix.replay.run import TwinSource
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.targets.contract import Guard, Running, Target, unguarded
from perdix.twin.job import JobTwin
from perdix.twin.living import SimulatedClock
from perdix.twin.parameters import load_twin

START_S = 1_760_000_000
WARM_S = 14_400
TWIN, SEED = "wordcount", 7
TICKS = 6  # of which the first takes champions in, and the last follows a restart
DECIDED_AMONG = (12, 200)  # scale-outs


@dataclass
class Memory:
    """One twin's windows, read by every job of the fleet."""

    source: TwinSource
    kept: dict[tuple[float, float], Reading] = field(default_factory=dict)

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        key = (now_s, since_s)
        if key not in self.kept:
            self.kept[key] = self.source.read(job, now_s, since_s)
        found = self.kept[key]
        return replace(found, window=replace(found.window, job=job.name))


@dataclass
class Instant:
    """A target that is where it is wanted at once; asking twice changes nothing, so it needs no keys."""

    scale_out: int
    mix: Mapping[str, int] = field(default_factory=dict)

    def read(self) -> Running:
        return Running(self.scale_out, self.scale_out, settled=True, mix=self.mix, requested_mix=self.mix)

    def scale(
        self,
        scale_out: int,
        idempotency_key: str,  # noqa: ARG002
        mix: Mapping[str, int] | None = None,
        guard: Guard = unguarded,  # noqa: ARG002
    ) -> Running:
        self.scale_out, self.mix = scale_out, mix or {}
        return self.read()

    def close(self) -> None:
        """Hold nothing open."""


def champions(names: list[str], twin: JobTwin, families: Mapping[str, type[Member]]) -> GivenChampions:
    history = Workload(float(twin.history.start_s), 1.0, np.asarray(twin.history.column("arrived")))
    made = Forecaster.fit(history, families)
    row = ChampionRow(made.family, orjson.dumps(made.to_state()).decode(), 1)
    return GivenChampions({FORECAST: FleetChampions(FORECAST, 1, dict.fromkeys(names, row))})


@dataclass(frozen=True)
class Served:
    """Where a fleet's metrics and targets are."""

    jobs: list[StreamJob]
    source: MetricsSource
    target_of: Callable[[StreamJob], Target]
    move: Callable[[float], None]
    ahead: ReadAhead | None = None
    server: int | None = None  # process that serves them


@contextmanager
def in_memory(names: list[str], twin: JobTwin) -> Iterator[Served]:
    held, memory = Instant(twin.scale_out), Memory(TwinSource(twin))
    jobs = [job_of(twin, name) for name in names]

    def move(now_s: float) -> None:
        twin.step(max(int(now_s) - twin.now_s, 0))
        memory.kept.clear()
        memory.read(jobs[0], now_s, now_s - 180.0)

    yield Served(jobs, memory, lambda _: held, move)


@contextmanager
def over_http(names: list[str], twin: JobTwin) -> Iterator[Served]:
    with serving(fleet, TWIN, SEED, START_S, WARM_S) as (url, server), ExitStack() as stack:
        asked = {name: PrometheusSource(url=url, selector={"job": name}, scrape_interval_s=5.0) for name in names}
        jobs = [
            job_of(twin, name, url).model_copy(update={"engine": "canonical", "prometheus": asked[name]})
            for name in names
        ]
        source, targets = LiveSource(), Targets()
        stack.callback(source.close)
        stack.callback(targets.close)
        yield Served(jobs, source, targets, partial(move_to, url), ReadAhead(source, Hanging()), server)


SOURCES = {"memory": in_memory, "live": over_http}


@contextmanager
def opened(store: str, of: GivenChampions) -> Iterator[TickIO]:
    """Open what a process of the crew touches, as the live loop does, with champions that need no MLflow."""
    with closing(StateStore(store)) as state, closing(LiveSource()) as source, closing(Targets()) as targets:
        yield TickIO(source, state, of, targets, ahead=ReadAhead(source, Hanging()))


def measure(
    count: int, url: str, families: Mapping[str, type[Member]], source: str = "memory", processes: int | None = 1
) -> dict[str, float]:
    """Return what a tick of ``count`` jobs costs: per job in milliseconds, all of it in seconds, memory in MiB."""
    parameters = load_twin(TWIN)
    # With all its workers no job rescales within the first hour: the twin would not follow, and all were blind.
    twin = JobTwin(parameters, SEED, start_s=START_S, scale_out=parameters.workers.maximum)
    twin.step(WARM_S)
    names = [f"job-{number:04d}" for number in range(count)]
    clock = SimulatedClock(float(twin.now_s))
    with SOURCES[source](names, twin) as served, closing(StateStore(url)) as store, ExitStack() as stack:
        of = champions(names, twin, families)
        io = TickIO(served.source, store, of, served.target_of, ahead=served.ahead)
        before_mib = resident_mib()
        crew: FleetCrew = Crew(partial(opened, url, of), serve_elsewhere, processes)
        stack.callback(crew.close)
        if served.ahead is not None:
            io = replace(io, crew=crew)
        stages: dict[str, list[float]] = {}
        wall_s, cpu_s = [], []
        for number in range(TICKS):
            restarts = number == TICKS - 1
            if restarts:
                others_mib = sum(map(resident_mib, _serving(served.server)))
                grown_mib = resident_mib() - before_mib + others_mib
                io = replace(io, memories=Memories())
                crew.close()
            clock.advance(60.0)
            served.move(clock.now_s())
            began = time.perf_counter(), _processor_s(served.server)
            report = tick_fleet(served.jobs, io, clock, holder="benchmark", soft_deadline_s=3_600.0)
            wall_s.append(time.perf_counter() - began[0])
            cpu_s.append(_processor_s(served.server) - began[1])
            if report.others:
                raise RuntimeError(next(iter(report.others.values())).sentence)
            blind = [served for served in report.reports.values() if served.status is not Status.ACTING]
            if blind:
                raise RuntimeError(blind[0].sentence)
            if number < 2 or restarts:
                continue
            for outcome in report.reports.values():
                for stage, milliseconds in outcome.stages_ms.items():
                    stages.setdefault(stage, []).append(milliseconds)
    going_s = float(np.median(wall_s[2:-1]))
    result = {f"{stage}_ms": float(np.median(values)) for stage, values in stages.items()}
    result |= {"tick_ms": 1_000.0 * going_s / count, "jobs_per_s": count / going_s}
    result |= {"tick_s": going_s, "adopting_s": wall_s[0], "restarted_s": wall_s[-1], "memory_mib": grown_mib}
    result |= {"tick_cpu_s": float(np.median(cpu_s[2:-1])), "adopting_cpu_s": cpu_s[0], "restarted_cpu_s": cpu_s[-1]}
    return result | {"whole_mib": before_mib + grown_mib}


def _serving(server: int | None) -> list[str]:
    """Return the processes that serve jobs, beside this one and the server's."""
    return [str(child.pid) for child in active_children() if child.pid != server]


def _processor_s(server: int | None) -> float:
    """Return the seconds that processors have spent on this process and on those that serve jobs for it."""
    stats = [Path(f"/proc/{process}/stat").read_text(encoding="ascii") for process in _serving(server)]
    ticks = [stat.rpartition(")")[2].split()[11:13] for stat in stats]
    return time.process_time() + sum(int(ticks_of) for both in ticks for ticks_of in both) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 100, 1_000])
    parser.add_argument("--store", help="SQLAlchemy URL; a SQLite file when left out")
    parser.add_argument("--family", default=ENSEMBLE)
    parser.add_argument("--only", nargs="+", choices=list(FAMILIES), help="the ensemble of these members")
    parser.add_argument("--source", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--processes", type=int, help="that serve live jobs at most; as shipped when left out")
    asked = parser.parse_args()
    families = {name: FAMILIES[name] for name in asked.only} if asked.only else families_named(asked.family)
    results: dict[str, dict[int, dict[str, float]]] = {}
    for source in asked.source:
        for count in asked.jobs:
            with tempfile.TemporaryDirectory() as folder:
                url = asked.store or f"sqlite:///{Path(folder) / 'state.db'}"
                results.setdefault(source, {})[count] = measure(count, url, families, source, asked.processes)
    decided_ms = {count: decision_ms(count) for count in DECIDED_AMONG}
    if asked.json:
        write_json({**results, "decision_ms": decided_ms})
        return
    for source, counted in results.items():
        for count, result in counted.items():
            print(f"{source}, {count} jobs: {result['tick_ms']:.1f} ms per job, {result['jobs_per_s']:.0f} jobs/s")
            print("   " + ", ".join(f"{name[:-3]} {value:.2f}" for name, value in result.items() if name[-3:] == "_ms"))
            print(
                f"   all jobs: {result['tick_s']:.1f} s (processor {result['tick_cpu_s']:.1f} s); taking in champions "
                f"{result['adopting_s']:.1f} s ({result['adopting_cpu_s']:.1f} s), after a restart "
                f"{result['restarted_s']:.1f} s ({result['restarted_cpu_s']:.1f} s); "
                f"{result['memory_mib']:.0f} MiB for them, {result['whole_mib']:.0f} MiB in all"
            )
    print("one decision: " + ", ".join(f"{took:.1f} ms among {count} scale-outs" for count, took in decided_ms.items()))


if __name__ == "__main__":
    main()

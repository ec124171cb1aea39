"""What a tick costs: milliseconds per stage, and jobs per second for fleets of 1, 100 and 1,000 jobs.

Metrics come from memory (a twin's series, aligned beforehand) and targets are in process, so that what is measured is
perdix: models, policy, state store. Told apart: the tick in which every job takes in a champion, those that follow, and
the first one after a restart. Run ``python -m benchmarks.tick [--jobs 1 100 1000] [--family ensemble] [--only FAMILY
...] [--store URL] [--cpu] [--json]``; ``--cpu`` counts processor time, which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import orjson

from control.champions import ChampionRow, FleetChampions, GivenChampions
from control.fleet import tick_fleet
from control.memories import Memories
from control.sources import Reading
from control.state import StateStore
from control.tick_io import TickIO
from models.forecasting.contract import Workload
from models.forecasting.families import ENSEMBLE, FAMILIES, families_named
from models.forecasting.forecaster import Forecaster
from models.forecasting.member import Member
from models.registry import FORECAST
from replay.twin_source import TwinSource
from settings.stream_job import Bounds, PolicySettings, StreamJob
from settings.targets import TwinSettings
from targets.contract import Guard, Running, Target, unguarded
from twin.job import JobTwin
from twin.living import SimulatedClock
from twin.parameters import load_twin

START_S = 1_760_000_000
WARM_S = 14_400
TICKS = 6  # of which the first takes champions in, and the last follows a restart


@dataclass
class Memory:
    """One twin's windows, read by every job of the fleet."""

    source: TwinSource
    kept: dict[tuple[float, float], Reading] = field(default_factory=dict)

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        """Return the twin's window under the job's name."""
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
        """Return what was last asked for."""
        return Running(self.scale_out, self.scale_out, settled=True, mix=self.mix, requested_mix=self.mix)

    def scale(
        self,
        scale_out: int,
        idempotency_key: str,  # noqa: ARG002
        mix: Mapping[str, int] | None = None,
        guard: Guard = unguarded,  # noqa: ARG002
    ) -> Running:
        """Be there at once."""
        self.scale_out, self.mix = scale_out, mix or {}
        return self.read()

    def close(self) -> None:
        """Hold nothing open."""


def champions(names: list[str], twin: JobTwin, families: Mapping[str, type[Member]]) -> GivenChampions:
    history = Workload(float(twin.history.start_s), 1.0, np.asarray(twin.history.column("arrived")))
    made = Forecaster.fit(history, families)
    row = ChampionRow(made.family, orjson.dumps(made.to_state()).decode(), 1)
    return GivenChampions({FORECAST: FleetChampions(FORECAST, 1, dict.fromkeys(names, row))})


def measure(
    count: int, url: str, families: Mapping[str, type[Member]], stopwatch_s: Callable[[], float]
) -> dict[str, float]:
    """Return what a tick of ``count`` jobs costs: per job in milliseconds, all of it in seconds, memory in MiB."""
    twin = JobTwin(load_twin("wordcount"), 7, start_s=START_S)
    twin.step(WARM_S)
    names = [f"job-{number:04d}" for number in range(count)]
    bounds = Bounds(minimum=1, maximum=twin.parameters.workers.maximum)
    target = TwinSettings(url="http://in.process")
    jobs = [StreamJob(name=name, bounds=bounds, policy=PolicySettings(), target=target, mode="act") for name in names]
    held = Instant(twin.scale_out)
    memory = Memory(TwinSource(twin))
    clock = SimulatedClock(float(twin.now_s))
    store = StateStore(url)

    def target_of(_: StreamJob) -> Target:
        return held

    io = TickIO(memory, store, champions(names, twin, families), target_of, stopwatch_s=stopwatch_s)
    before_mib = _resident_mib()
    stages: dict[str, list[float]] = {}
    seconds = []
    for number in range(TICKS):
        restarts = number == TICKS - 1
        if restarts:
            grown_mib = _resident_mib() - before_mib
            io = replace(io, memories=Memories())
        twin.step(60)
        clock.advance(60.0)
        memory.kept.clear()
        memory.read(jobs[0], clock.now_s(), clock.now_s() - 180.0)
        began_s = stopwatch_s()
        report = tick_fleet(jobs, io, clock, holder="benchmark", soft_deadline_s=3_600.0)
        seconds.append(stopwatch_s() - began_s)
        if report.others:
            raise RuntimeError(next(iter(report.others.values())).sentence)
        if number < 2 or restarts:
            continue
        for one in report.reports.values():
            for stage, milliseconds in one.stages_ms.items():
                stages.setdefault(stage, []).append(milliseconds)
    store.close()
    going_s = float(np.median(seconds[2:-1]))
    result = {f"{stage}_ms": float(np.median(values)) for stage, values in stages.items()}
    result |= {"tick_ms": 1_000.0 * going_s / count, "jobs_per_s": count / going_s}
    result |= {"tick_s": going_s, "adopting_s": seconds[0], "restarted_s": seconds[-1], "memory_mib": grown_mib}
    return result


def _resident_mib() -> float:
    """Return the memory of this process as Linux tells it; NaN elsewhere."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return float("nan")
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 100, 1_000])
    parser.add_argument("--store", help="SQLAlchemy URL; a SQLite file when left out")
    parser.add_argument("--family", default=ENSEMBLE)
    parser.add_argument("--only", nargs="+", choices=list(FAMILIES), help="the ensemble of these members")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    families = {name: FAMILIES[name] for name in options.only} if options.only else families_named(options.family)
    stopwatch_s = time.process_time if options.cpu else time.perf_counter
    results = {}
    for count in options.jobs:
        with tempfile.TemporaryDirectory() as folder:
            url = options.store or f"sqlite:///{Path(folder) / 'state.db'}"
            results[count] = measure(count, url, families, stopwatch_s)
    if options.json:
        json.dump(results, sys.stdout, indent=2)
        return
    for count, result in results.items():
        print(f"{count} jobs: {result['tick_ms']:.1f} ms per job, {result['jobs_per_s']:.0f} jobs/s")
        print("   " + ", ".join(f"{name[:-3]} {value:.2f}" for name, value in result.items() if name[-3:] == "_ms"))
        print(
            f"   all jobs: {result['tick_s']:.1f} s; taking in champions {result['adopting_s']:.1f} s, after a restart "
            f"{result['restarted_s']:.1f} s; {result['memory_mib']:.0f} MiB of memory"
        )


if __name__ == "__main__":
    main()

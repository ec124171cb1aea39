"""Two walks through perdix, each counted as calls of perdix on the stack, outermost first.

Run ``python -m benchmarks.walk [request | decision]``. ``request``: from a tick to the first request that changes
something; the tick is the real one, on a simulated network (:mod:`benchmarks.storm`). ``decision``: from an export to a
decision. A sample rests in places on its way (a lake table, the registry, what a job remembers), so that walk has a
station for each: who put it there, down to the function that reads its numbers. Dagster, MLflow and the lake are the
real ones; what Spark would run in other processes runs in this one.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg
import pyarrow as pa

import perdix
from benchmarks.export_forms import write_exports
from benchmarks.storm.episodes import Episode, Player
from benchmarks.storm.network import Request, Response
from benchmarks.storm.servers import Servers
from benchmarks.tick import Instant
from benchmarks.twin_jobs import job_of
from perdix.assets.resources import Spark, Workspace
from perdix.control.champions import Champions
from perdix.control.fleet import tick_fleet
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO
from perdix.models.registry import prepare
from perdix.replay.run import TwinSource
from perdix.settings.home import PROJECT, Home
from perdix.telemetry.landing import land
from perdix.twin.emission import Scraping, emit
from perdix.twin.job import JobTwin
from perdix.twin.living import SimulatedClock
from perdix.twin.parameters import load_twin

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.pipelines.training_location import build_training_defs

PACKAGE = Path(perdix.__file__).parent
REAL = {(PACKAGE / name).resolve(): name for name in ("models", "assets", "pipelines")}  # links inside of the package
ON_FLINK = 3  # a climate whose first job runs on a Flink
START_S = int(datetime(2026, 3, 4, 8, tzinfo=UTC).timestamp())
LASTS_S, TICKS, JOB = 7_200, 8, "wordcount"
DAYS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
STATIONS = {
    "samples in the lake": ("perdix.telemetry.exports.matrix", "_parse"),
    "observations": ("perdix.telemetry.alignment", "_on_grid"),
    "features": ("perdix.telemetry.features", "step_means"),
    "a trained forecaster": ("perdix.models.forecasting.damped_trend", "DampedTrend.fit"),
    "the registered champion": ("perdix.models.registry.publishing", "_Recorder.log_parent"),
    "what the job remembers": ("perdix.control.adoption", "forecaster_from_state"),
    "a plan": ("perdix.policies.planning.policy", "solve"),
    "a decision on record": ("perdix.control.state.ledger", "Ledger._record"),
}

Call = tuple[str, str]
"""File, from the package on, and function."""


def calls_here() -> tuple[Call, ...]:
    """Return the calls of perdix on the stack, also those of the main thread where this is another."""
    frames = traceback.extract_stack()
    if threading.current_thread() is not threading.main_thread():
        main = sys._current_frames()[threading.main_thread().ident or 0]
        frames = traceback.StackSummary.from_list([*traceback.extract_stack(main), *frames])
    named = (
        (_in_package(frame.filename), frame.name) for frame in frames if frame.name != "<listcomp>"
    )  # inlined from 3.12 on
    return tuple((file, name) for file, name in named if file is not None)


def _in_package(filename: str) -> str | None:
    path = Path(filename).resolve()
    for folder, name in {**REAL, PACKAGE.resolve(): ""}.items():
        if path.is_relative_to(folder):
            return str(Path(name) / path.relative_to(folder))
    return None


def to_request() -> tuple[Call, ...]:
    """Return the calls on the stack when the first request leaves that is no GET."""
    found: list[tuple[Call, ...]] = []
    exchange = Servers.exchange

    def seen(servers: Servers, request: Request) -> Response:
        if request.method != "GET" and not found:
            found.append(calls_here())
        return exchange(servers, request)

    with patch.object(Servers, "exchange", seen):
        Player().play(Episode(ON_FLINK, 1, (), 12), compared=False)
    return found[0]


def to_decision() -> dict[str, tuple[Call, ...]]:
    """Return the calls on the stack at each station, where its last function was called first."""
    found: dict[str, tuple[Call, ...]] = {}
    twin = JobTwin(load_twin(JOB), 7, start_s=START_S)
    twin.step(LASTS_S)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home = Home(Path(folder) / "home").make()
        for station, (module, function) in STATIONS.items():
            stack.enter_context(_noting(found, station, module, function))
        logging.disable(logging.INFO)
        stack.callback(logging.disable, logging.NOTSET)
        _train(home, twin, Path(folder))
        _tick(home, twin)
    return {station: found[station] for station in STATIONS}


def _noting(found: dict[str, tuple[Call, ...]], station: str, module: str, function: str) -> Any:
    *owner, name = function.split(".")
    holder = import_module(module)
    for part in owner:
        holder = getattr(holder, part)
    original = holder.__dict__[name]
    called = getattr(original, "__func__", original)

    def noting(*args: Any, **more: Any) -> Any:
        found.setdefault(station, (*calls_here(), (_in_package(called.__code__.co_filename) or "", name)))
        return called(*args, **more)

    return patch.object(holder, name, classmethod(noting) if isinstance(original, classmethod) else noting)


def _train(home: Home, twin: JobTwin, folder: Path) -> None:
    """Land an export of the twin, and let Dagster's jobs ingest it and train its champion."""
    conf = folder / "conf"
    shutil.copytree(PROJECT / "conf", conf, ignore=shutil.ignore_patterns("perdix.yaml", "jobs"))
    (conf / "perdix.yaml").write_text("training: {forecast_families: [last-value, damped-trend]}\n", encoding="utf-8")
    series = emit(twin, Scraping(interval_s=10.0), names="flink", from_s=START_S, to_s=START_S + LASTS_S)
    land(home, write_exports(series, folder, "query-range", JOB), JOB)
    prepare(home)
    day = datetime.fromtimestamp(START_S, UTC).strftime("%Y-%m-%d")
    with warnings.catch_warnings(), patch.object(Spark, "session", lambda _: InThisProcess()):
        warnings.simplefilter("ignore")
        definitions = build_training_defs(Workspace(home=str(home.root), conf=str(conf)))
        with dg.instance_for_test(temp_dir=str(folder)) as instance:
            for job, (first, last) in {"ingest_day": (day, day), "train": (JOB, JOB)}.items():
                run = definitions.resolve_job_def(job).execute_in_process(
                    instance=instance, tags=dict(zip(DAYS, (first, last), strict=True))
                )
                assert run.success


def _tick(home: Home, twin: JobTwin) -> None:
    """Let the control loop look at the job until it has planned."""
    clock = SimulatedClock(float(twin.now_s))
    known = Champions(home.root / "models", prepare(home))
    with closing(StateStore(f"sqlite:///{home.root / 'state.db'}")) as store:
        io = TickIO(TwinSource(twin), store, known, lambda _: Instant(twin.scale_out))
        for _ in range(TICKS):
            clock.advance(60.0)
            twin.step(60)
            known.refresh(clock.now_s())
            tick_fleet([job_of(twin, JOB)], io, clock, holder="walk")


@dataclass
class InThisProcess:
    """Runs what perdix asks of a Spark session where it was asked: ranges of numbers, mapped batch by batch."""

    numbers: range = range(0)
    rows: Callable[[], Iterable[Mapping[str, Any]]] = field(default=lambda: ())

    @property
    def sparkContext(self) -> InThisProcess:  # noqa: N802 - Spark's name
        return self

    def addJobTag(self, _: str) -> None:  # noqa: N802 - Spark's name
        """Nothing is cancelled here."""

    def range(self, start: int, end: int, step: int, _: int) -> InThisProcess:
        return InThisProcess(range(start, end, step))

    def mapInPandas(self, work: Callable[[Iterator[Any]], Iterator[Any]], _: str) -> InThisProcess:  # noqa: N802
        batch = self._batch().to_pandas()
        return InThisProcess(rows=lambda: [row for frame in work(iter([batch])) for row in frame.to_dict("records")])

    def mapInArrow(self, work: Callable[[Iterator[Any]], Iterator[Any]], _: str) -> InThisProcess:  # noqa: N802
        batch = self._batch()
        return InThisProcess(rows=lambda: [row for arrow in work(iter([batch])) for row in arrow.to_pylist()])

    def collect(self) -> list[Mapping[str, Any]]:
        return list(self.rows())

    def _batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"id": list(self.numbers)})


def new_calls(stations: Mapping[str, tuple[Call, ...]]) -> dict[str, tuple[Call, ...]]:
    """Return of each station the calls that none before it had: two that begin in one tick share its beginning."""
    known: set[Call] = set()
    found = {}
    for station, calls in stations.items():
        found[station] = tuple(call for call in calls if call not in known)
        known |= set(calls)
    return found


def _print(calls: Iterable[Call]) -> None:
    for file, name in calls:
        print(f"{file:<40} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walk", nargs="?", choices=["request", "decision"], default="request")
    if parser.parse_args().walk == "request":
        calls = to_request()
        _print(calls)
    else:
        stations = new_calls(to_decision())
        for station, each in stations.items():
            print(f"\n{station}: {len(each)}")
            _print(each)
        calls = tuple(call for each in stations.values() for call in each)
    print(f"\n{len(calls)} calls in {len({file for file, _ in calls})} files")


if __name__ == "__main__":
    main()

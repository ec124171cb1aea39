"""How large the state of a job grows: a simulated day of the real tick, with champions, into a real SQLite file.

    python -m benchmarks.state --hours 24 --jobs 1

Prints kB of learned state per job, MB of ``state.db`` per job and day, and what a list of many jobs costs to load.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.tick import champions
from control.fleet import tick_fleet
from control.state import StateStore
from control.tick_io import TickIO
from models.forecasting.families import ENSEMBLE, families_named
from replay.twin_source import TwinSource
from settings.stream_job import Bounds, Objectives, PolicySettings, StreamJob
from settings.targets import TwinSettings
from targets.contract import Target
from targets.twin import LocalTwinTarget
from twin.emission import Scraping
from twin.job import JobTwin
from twin.living import SimulatedClock
from twin.parameters import load_twin

START_S = 1_760_000_000
WARM_S = 12 * 3_600
TICK_S = 60
LISTED = 5_000


def grow(path: Path, hours: float, family: str = ENSEMBLE) -> dict[str, Any]:
    """Let one job of a twin be scaled for ``hours``; return what of it is stored, in bytes."""
    twin = JobTwin(load_twin("wordcount"), 7, start_s=START_S)
    twin.step(WARM_S)
    bounds = Bounds(minimum=1, maximum=twin.parameters.workers.maximum)
    target = TwinSettings(url="http://in.process")
    job = StreamJob(
        name="wordcount", bounds=bounds, objectives=Objectives(), policy=PolicySettings(), target=target, mode="act"
    )
    clock = SimulatedClock(float(twin.now_s))
    store = StateStore(f"sqlite:///{path}")

    def target_of(_: StreamJob) -> Target:
        return LocalTwinTarget(twin)

    source = TwinSource(twin, Scraping(interval_s=5.0))
    io = TickIO(source, store, champions([job.name], twin, families_named(family)), target_of)
    rescales = 0
    for _ in range(round(hours * 3_600 / TICK_S)):
        twin.step(TICK_S)
        clock.advance(TICK_S)
        report = tick_fleet([job], io, clock, holder="benchmark")
        if report.others:
            raise RuntimeError(next(iter(report.others.values())).sentence)
        rescales += report.reports[job.name].event.value == "applied"
    store.close()
    return {"hours": hours, "rescales": rescales, **sizes(path)}


def sizes(path: Path) -> dict[str, Any]:
    """Return bytes of the file, of each table's content, and of each kind of learned document."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    content = {}
    for table in tables:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        lengths = " + ".join(f"COALESCE(LENGTH(CAST({name} AS BLOB)), 0)" for name in columns)
        content[table] = connection.execute(f"SELECT COUNT(*), COALESCE(SUM({lengths}), 0) FROM {table}").fetchone()
    learned = connection.execute("SELECT kind, LENGTH(CAST(document AS BLOB)) FROM learned ORDER BY 2 DESC").fetchall()
    connection.close()
    return {
        "file_bytes": path.stat().st_size,
        "tables": {name: {"rows": rows, "bytes": found} for name, (rows, found) in content.items() if rows},
        "learned_bytes": dict(learned),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--family", default=ENSEMBLE)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grown = grow(Path(folder) / "state.db", options.hours, options.family)
    if options.json:
        json.dump(grown, sys.stdout, indent=2)
        return
    days = grown["hours"] / 24.0
    learned = grown["learned_bytes"]
    print(f"learned state: {sum(learned.values()) / 1e3:.1f} kB per job")
    print("   " + ", ".join(f"{kind} {size / 1e3:.1f}" for kind, size in learned.items()))
    print(f"state.db: {grown['file_bytes'] / 1e6:.2f} MB after {grown['hours']:g} h of one job, {grown['rescales']} rescales")
    print("   " + ", ".join(f"{name} {one['bytes'] / 1e3:.1f} kB in {one['rows']}" for name, one in grown["tables"].items()))


if __name__ == "__main__":
    main()

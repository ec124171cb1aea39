"""How large the state of the loop grows, and how fast it loads.

The shipped twins are the jobs: each ticks for a simulated day with an ensemble as its champion, into one SQLite file.
Run ``python -m benchmarks.state [--hours 24] [--twins wordcount ads ...] [--family ensemble] [--json]``. Printed are kB
of learned state per job (goal: 50), MB of ``state.db`` per job and day (goal: 0.5), and milliseconds in which a store
of 5,000 jobs opens and reports how its jobs stand (goal: 100).
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import options, write_json
from benchmarks.tick import champions
from benchmarks.twin_jobs import job_of
from perdix.control.champions import FleetChampions, GivenChampions
from perdix.control.fleet import tick_fleet
from perdix.control.sources import Reading
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO
from perdix.models.forecasting.families import ENSEMBLE, families_named
from perdix.models.registry import FORECAST
from perdix.replay.run import TwinSource
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Target
from perdix.targets.twin import LocalTwinTarget
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import SimulatedClock
from perdix.twin.parameters import load_twin, load_twins

START_S = 1_760_000_000
WARM_S = 12 * 3_600
TICK_S = 60
DAY_H = 24.0
LISTED = 5_000
OPENED = 7  # times, of which the median counts


class Twins:
    """Jobs of twins, in process."""

    def __init__(self, names: Sequence[str]) -> None:
        self.twins = {name: JobTwin(load_twin(name), 7, start_s=START_S) for name in names}
        self.sources = {name: TwinSource(twin, Scraping(interval_s=5.0)) for name, twin in self.twins.items()}
        self.step(WARM_S)

    def step(self, seconds: int) -> None:
        for twin in self.twins.values():
            twin.step(seconds)

    def read(self, job: StreamJob, now_s: float, since_s: float) -> Reading:
        return self.sources[job.name].read(job, now_s, since_s)

    def target_of(self, job: StreamJob) -> Target:
        return LocalTwinTarget(self.twins[job.name])


def grow(path: Path, names: Sequence[str], hours: float, family: str = ENSEMBLE) -> dict[str, Any]:
    """Tick the twins' jobs for ``hours``; return what of them is stored, in bytes."""
    twins = Twins(names)
    jobs = [job_of(twin, name) for name, twin in twins.twins.items()]
    store = StateStore(f"sqlite:///{path}")
    clock = SimulatedClock(float(START_S + WARM_S))
    families = families_named(family)
    fitted = [champions([name], twin, families).fleet(FORECAST) for name, twin in twins.twins.items()]
    rows = {name: row for fleet in fitted for name, row in fleet.rows.items()}
    io = TickIO(twins, store, GivenChampions({FORECAST: FleetChampions(FORECAST, 1, rows)}), twins.target_of)
    rescales = 0
    for _ in range(round(hours * 3_600 / TICK_S)):
        twins.step(TICK_S)
        clock.advance(TICK_S)
        report = tick_fleet(jobs, io, clock, holder="benchmark", soft_deadline_s=3_600.0)
        if report.others:
            raise RuntimeError(next(iter(report.others.values())).sentence)
        rescales += sum(served.event.value == "applied" for served in report.reports.values())
    store.close()
    return {"jobs": len(names), "hours": hours, "rescales": rescales, **sizes(path)}


def sizes(path: Path) -> dict[str, Any]:
    """Return bytes of the file, of each table's content, and of each kind of learned document."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    content = {table: _bytes_of(connection, table) for table in tables}
    kept = "LENGTH(CAST(document AS BLOB)) + LENGTH(COALESCE(packed, x''))"
    learned = connection.execute(f"SELECT kind, SUM({kept}) FROM learned GROUP BY kind ORDER BY 2 DESC").fetchall()
    connection.close()
    return {
        "file_bytes": path.stat().st_size,
        "tables": {name: {"rows": rows, "bytes": found} for name, (rows, found) in content.items() if rows},
        "learned_bytes": dict(learned),
    }


def opened_ms(path: Path) -> float:
    """Return milliseconds in which a store of many jobs opens and reads what a fleet's tick begins with."""
    store = StateStore(f"sqlite:///{path}")
    details = {"event": "nothing", "scale_out": 4, "notes": [], "reason": "hold_good", "capacity": {"per_s": 40_000.0}}
    jobs = [JobStatus(f"job-{n:04d}", Status.ACTING, START_S + n, "4 workers hold.", details) for n in range(LISTED)]
    store.journal.record_tick(Tick(START_S, START_S, "benchmark"), jobs)
    store.close()
    took_ms = []
    for _ in range(OPENED):
        began_s = time.perf_counter()
        store = StateStore(f"sqlite:///{path}")
        served = store.journal.served_s()
        store.journal.pauses(START_S)
        store.journal.open_retrains()
        took_ms.append(1_000.0 * (time.perf_counter() - began_s))
        store.close()
        assert len(served) == LISTED
    return statistics.median(took_ms)


def _bytes_of(connection: sqlite3.Connection, table: str) -> tuple[int, int]:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    lengths = " + ".join(f"COALESCE(LENGTH(CAST({name} AS BLOB)), 0)" for name in columns)
    rows, found = connection.execute(f"SELECT COUNT(*), COALESCE(SUM({lengths}), 0) FROM {table}").fetchone()
    return int(rows), int(found)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--hours", type=float, default=DAY_H)
    parser.add_argument("--twins", nargs="+", default=list(load_twins()), choices=list(load_twins()))
    parser.add_argument("--family", default=ENSEMBLE)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = grow(Path(folder) / "state.db", asked.twins, asked.hours, asked.family)
        found["opened_ms"] = opened_ms(Path(folder) / "many.db")
    found["learned_kb_per_job"] = sum(found["learned_bytes"].values()) / 1e3 / found["jobs"]
    found["mb_per_job_day"] = found["file_bytes"] / 1e6 / found["jobs"] / (found["hours"] / DAY_H)
    if asked.json:
        write_json(found)
        return
    print(f"{found['jobs']} jobs, {found['hours']:g} h, {found['rescales']} rescales")
    print(f"learned state: {found['learned_kb_per_job']:.1f} kB per job")
    print("   " + ", ".join(f"{kind} {size / 1e3:.1f}" for kind, size in found["learned_bytes"].items()))
    print(f"state.db: {found['file_bytes'] / 1e6:.2f} MB, {found['mb_per_job_day']:.2f} MB per job and day")
    tables = (f"{name} {row['bytes'] / 1e3:.1f} kB in {row['rows']}" for name, row in found["tables"].items())
    print("   " + ", ".join(tables))
    print(f"{LISTED:,} jobs: opened and listed in {found['opened_ms']:.0f} ms")


if __name__ == "__main__":
    main()

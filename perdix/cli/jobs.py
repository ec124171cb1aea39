"""The command ``perdix jobs``: how every stream job stands. It needs neither Spark nor Dagster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdix.cli.output import JsonOption, console, emit, number, percent, table
from perdix.cli.stores import lake, state, usable_files
from perdix.settings.home import job_file_to_write
from perdix.settings.product import load_product_settings

if TYPE_CHECKING:
    from perdix.control.freshness import Freshness
    from perdix.control.state.journal import JobStatus

Row = Mapping[str, Any]


def jobs(as_json: JsonOption = False) -> None:
    """List every stream job: how it stands, what runs, and what is known of it.

    Example: perdix jobs --json
    """
    from perdix.control.clock import WallClock
    from perdix.control.freshness import freshness_of
    from perdix.control.pausing import why_paused

    files, ingested, now_s = usable_files(), set(lake().jobs("samples")), WallClock().now_s()
    with state() as opened:
        statuses = {
            name: status
            for name, status in opened.journal.statuses().items()
            if files.names is None or name.partition("/")[0] in files.names  # JOB/operators goes with its job's file
        }
        pauses = opened.journal.pauses(now_s)
        freshness = freshness_of(opened.journal, load_product_settings().control.tick_interval_s)
    rows = [
        {
            "job": name,
            "configured": name in files.jobs,
            "ingested": name in ingested,
            "mode": files.jobs[name].mode if name in files.jobs else None,
            "paused": why_paused(files.jobs[name], pauses.get(name), now_s) if name in files.jobs else None,
            **_standing(statuses.get(name)),
            "sentence": statuses[name].sentence if name in statuses else files.faults.get(name, ""),
        }
        for name in sorted({*files.jobs, *files.faults, *ingested, *statuses})
    ]
    emit("perdix.jobs/1", {"jobs": rows}, as_json=as_json, show=lambda: _show(rows, now_s, freshness))


def _standing(status: JobStatus | None) -> Row:
    """Return what the newest tick found of a job."""
    from perdix.control.state.journal import Status

    found = {} if status is None or status.status is Status.BROKEN else status.details  # else of long ago
    return {
        "status": None if status is None else status.status.value,
        "updated_s": None if status is None else status.updated_s,
        **{name: found.get(name) for name in ("scale_out", "advised", "wape", "horizon_wape")},
    }


def _show(rows: Sequence[Row], now_s: float, freshness: Freshness) -> None:
    from perdix.control.freshness import silence

    cells = [[row["mode"] or "-", _workers(row), percent(row["wape"]), percent(row["horizon_wape"])] for row in rows]
    table(
        "stream jobs",
        ["job", "status", "mode", "workers", "WAPE 1 min", "15 min", "why"],
        [[row["job"], _status(row), *of_it, _why(row)] for row, of_it in zip(rows, cells, strict=True)],
    )
    # JOB/operators has no file, and its loop may look once and end
    looked_s = {row["job"]: row["updated_s"] for row in rows if row["updated_s"] is not None and row["configured"]}
    silent = [name for name, at_s in looked_s.items() if freshness.is_silent(at_s, now_s)]
    if silent:
        console.print(silence(silent, now_s - max(looked_s[name] for name in silent)))
    if not rows:
        console.print(f"none yet: perdix ingest FILES --job NAME, or {job_file_to_write()}")


def _workers(row: Row) -> str:
    others = "of other sizes" if row["advised"] == row["scale_out"] else row["advised"]
    return number(row["scale_out"]) + ("" if row["advised"] is None else f", {others} advised")


def _paused_since(row: Row) -> bool:
    """Whether a job that the newest tick served as usual is paused now."""
    from perdix.control.state.journal import USUAL

    return row["paused"] is not None and row["status"] in (None, *USUAL)


def _status(row: Row) -> str:
    return "paused" if _paused_since(row) else row["status"] or "-"


def _why(row: Row) -> str:
    if _paused_since(row):
        return f"Paused: {row['paused']}."
    return row["sentence"] or ("no tick yet" if row["configured"] else "ingested; no job file")

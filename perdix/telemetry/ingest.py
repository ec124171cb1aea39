"""Ingest exports into the lake: plan the tasks, let Spark read and stage, publish file by file.

A file's partitions are replaced as a whole, so ingesting twice gives the same truth, and a changed file of the same
name supersedes what its earlier version left, also on days that it no longer covers. What cannot be
read is in the report and in the ``quarantine`` table; the other files go on.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perdix.settings.outside_text import printable
from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.detect import SNIFF_BYTES, SPLITTABLE, detect
from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.ingest_report import FileReport, IngestReport, unread_file
from perdix.telemetry.lake import Lake
from perdix.telemetry.landing import ExportFile, export_files
from perdix.telemetry.mixed_jobs import mixed_jobs
from perdix.telemetry.partitions import digest_of, safe_key
from perdix.telemetry.queries import load_series_map
from perdix.telemetry.spark.cluster import cause_of
from perdix.telemetry.spark.source import ReadOptions, staged
from perdix.telemetry.staged_export import ExportPart, Receipt
from perdix.telemetry.tables import QUARANTINE, SERIES, SOURCES, TABLES, TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICE_BYTES = 128 << 20
DIGEST_UP_TO_BYTES = 128 << 20  # larger files are read in slices, whose digests are another number
_SMALL_BYTES = 2 << 20  # files are put together into tasks of about this size: a task costs some 10 ms


def ingest(
    spark: SparkSession,
    lake: Lake,
    files: Iterable[Path | str | ExportFile],
    job: str,
    *,
    hint: Hint | None = None,
    limits: Limits | None = None,
    slice_bytes: int = SLICE_BYTES,
) -> IngestReport:
    """Read ``files`` (folders to their depths) into the tables samples, series, quarantine and sources of ``job``.

    Raises ``LakeError`` when ``job`` cannot name a partition; ``SettingsError`` when ``conf/queries`` cannot be read.

    ``hint``: what the user knows and the files do not say (metric of nameless series, time zone); what is known of each
    file (:attr:`ExportFile.hint`) when left out.
    ``slice_bytes``: plain files of line-based formats above this size are read by several tasks.
    """
    began = time.perf_counter()
    safe_key("job", job)
    chosen = [file for file in files if isinstance(file, ExportFile)]
    chosen += export_files(file for file in files if not isinstance(file, ExportFile))
    options = ReadOptions(load_series_map(), hint or Hint(), limits or Limits())
    parts: defaultdict[Hint, list[ExportPart]] = defaultdict(list)
    for file in chosen:
        if not file.problem:
            parts[hint or file.hint] += _slices(file, slice_bytes)
    known_days = _days_by_source(lake, job)
    receipts: dict[str, list[Receipt] | str] = {}
    with lake.staging() as staging:
        for own, some in parts.items():
            receipts |= _stage(spark, some, staging, replace(options, hint=own))
        reports = [_publish(lake, job, file, receipts, known_days[file.source]) for file in chosen]
    left = days_left(lake, job, {day for report in reports for day in report.removed})
    read = [receipt for some in receipts.values() if not isinstance(some, str) for receipt in some]
    mixed = mixed_jobs(span for receipt in read for span in receipt.job_spans)
    return IngestReport(job, tuple(reports), time.perf_counter() - began, left, mixed)


def new_files(lake: Lake, job: str, files: Iterable[ExportFile]) -> list[ExportFile]:
    """Return the files of which the lake has no row yet, or rows of another content, and those with a problem."""
    known = lake.read("sources", job, columns=["source", "digest", "bytes"]).to_pylist()
    by_source = {row["source"]: row for row in known}
    return [file for file in files if file.problem or _differs(file, by_source.get(file.source))]


def _differs(file: ExportFile, known: dict[str, Any] | None) -> bool:
    """Say whether a file is not what the lake knows of it; large ones are compared by their size alone."""
    size = file.path.stat().st_size
    if known is None or size != known["bytes"]:
        return True
    return size <= DIGEST_UP_TO_BYTES and digest_of(file.path) != known["digest"]


def days_left(lake: Lake, job: str, removed: set[str]) -> tuple[str, ...]:
    """Return the days that lost samples and still hold some; of a day without any, nothing derived stays."""
    held = removed and set(lake.days("samples", job))
    for day in removed - held:
        for table in TABLES.values():
            if table.partition == ("job", "day"):
                lake.drop(table.name, {"job": job, "day": day})
    return tuple(sorted(removed & held))


# --------------------------------------------------------------------- planning


def _slices(file: ExportFile, slice_bytes: int) -> list[ExportPart]:
    size = file.path.stat().st_size
    whole = ExportPart(str(file.path.absolute()), file.name, file.source)
    if size <= slice_bytes:
        return [whole]
    with Content(file.path) as content:
        if content.compressed or detect(content.peek(SNIFF_BYTES)) not in SPLITTABLE:
            return [whole]
    starts = range(0, size, slice_bytes)
    return [ExportPart(whole.path, whole.file, whole.source, at, min(at + slice_bytes, size)) for at in starts]


def _tasks(parts: Sequence[ExportPart]) -> list[list[ExportPart]]:
    """Put small files together, in their order."""
    tasks: list[list[ExportPart]] = []
    room = 0
    for part in parts:
        size = (part.end or Path(part.path).stat().st_size) - part.start
        if size > room or not tasks:
            tasks.append([])
            room = _SMALL_BYTES
        tasks[-1].append(part)
        room -= size
    return tasks


def _days_by_source(lake: Lake, job: str) -> defaultdict[str, dict[str, int]]:
    """Return source -> day -> samples."""
    days: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for manifest in lake.manifests("samples", job):
        days[manifest.keys["source"]][manifest.keys["day"]] = manifest.rows
    return days


# --------------------------------------------------------------------- reading


def _stage(
    spark: SparkSession, parts: Sequence[ExportPart], staging: Path, options: ReadOptions
) -> dict[str, list[Receipt] | str]:
    """Return the receipts of each source, or why there are none."""
    if not parts:
        return {}
    try:
        receipts = staged(spark, _tasks(parts), staging, options)
    except Exception:  # a file took its Python worker down with it: find it, and read the others
        spark.range(1).count()  # raises when it is Spark itself that is gone
        return _one_by_one(spark, parts, staging, options)
    return dict(_by_source(receipts))


def _one_by_one(
    spark: SparkSession, parts: Sequence[ExportPart], staging: Path, options: ReadOptions
) -> dict[str, list[Receipt] | str]:
    found: dict[str, list[Receipt] | str] = {}
    for source in dict.fromkeys(part.source for part in parts):
        mine = [part for part in parts if part.source == source]
        try:
            found[source] = staged(spark, [mine], staging, options)
        except Exception as error:
            found[source] = f"Spark could not read it: {cause_of(error)}"
    return found


def _by_source(receipts: Iterable[Receipt]) -> dict[str, list[Receipt]]:
    groups: dict[str, list[Receipt]] = {}
    for receipt in sorted(receipts, key=lambda receipt: (receipt.source, receipt.start)):
        groups.setdefault(receipt.source, []).append(receipt)
    return groups


# --------------------------------------------------------------------- publishing


def _publish(
    lake: Lake, job: str, file: ExportFile, receipts: dict[str, list[Receipt] | str], known_days: dict[str, int]
) -> FileReport:
    """Replace the file's partitions: samples first, the ``sources`` row that vouches for them last.

    A file that could not be opened, or that Spark could not read, changes nothing: the next ingest may meet it well.
    """
    outcome = receipts.get(file.source, file.problem)
    if isinstance(outcome, str):
        return unread_file(file, outcome)
    keys = {"job": job, "source": file.source}
    days = sorted({day for receipt in outcome for day in receipt.samples})
    for day in days:
        staged = [Path(path) for receipt in outcome for path in receipt.samples.get(day, [])]
        lake.adopt("samples", {**keys, "day": day}, staged)
    removed = {day: rows for day, rows in known_days.items() if day not in days}
    for day in removed:
        lake.drop("samples", {**keys, "day": day})
    series = _merged_series(outcome)
    quarantine = pa.concat_tables([pq.read_table(written.quarantine, schema=QUARANTINE.columns) for written in outcome])
    report = replace(_report(file, outcome, days, series, quarantine), removed=removed)
    lake.put("series", keys, series)
    lake.put("quarantine", keys, quarantine)
    lake.put("sources", keys, _source_row(report, outcome), counts={"read": report.read, "kept": report.kept})
    return report


def _merged_series(receipts: Sequence[Receipt]) -> pa.Table:
    """Return each series once. Slices of a file meet the same ones, and not each meets the line that tells a type."""
    rows: dict[int, dict[str, Any]] = {}
    for receipt in receipts:
        for row in pq.read_table(receipt.series, schema=SERIES.columns).to_pylist():
            rows.setdefault(row["series_id"], row)
    counters = {(row["metric"], row["name"]) for row in rows.values() if row["kind"] == "counter"}
    for row in rows.values():
        if (row["metric"], row["name"]) in counters:
            row["kind"] = "counter"
    return pa.Table.from_pylist([rows[identity] for identity in sorted(rows)], schema=SERIES.columns)


def _report(
    file: ExportFile, receipts: Sequence[Receipt], days: list[str], series: pa.Table, quarantine: pa.Table
) -> FileReport:
    mapped = int(pc.sum(series["mapped"]).as_py() or 0)
    remarks = [remark for receipt in receipts for remark in receipt.remarks]
    reasons = quarantine.group_by("reason").aggregate([("samples", "sum")])
    digests = [receipt.digest for receipt in receipts]
    return FileReport(
        file=file.name,
        source=file.source,
        format=receipts[0].format,
        digest=digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest(),
        bytes=sum(receipt.bytes for receipt in receipts),
        kept=sum(receipt.kept for receipt in receipts),
        masked=sum(receipt.masked for receipt in receipts),
        quarantined=sum(receipt.quarantined for receipt in receipts),
        series=series.num_rows,
        unmapped=series.num_rows - mapped,
        seconds=round(sum(receipt.seconds for receipt in receipts), 4),
        days=tuple(days),
        remarks=tuple(dict.fromkeys([*remarks, *([] if mapped else _unknown(series["metric"].to_pylist()))])),
        reasons=dict(zip(reasons["reason"].to_pylist(), reasons["samples_sum"].to_pylist(), strict=True)),
    )


def _unknown(names: Sequence[str]) -> list[str]:
    """Return in words that no series of a file is used, with the first of their names; nothing where there is none."""
    distinct = sorted(set(names))
    more = f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    shown = printable(", ".join(distinct[:3])) + more
    what = f"none of its series is one that perdix knows, so none is used ({shown}); say what it holds with --metric"
    return [what] if distinct else []


def _source_row(report: FileReport, receipts: Sequence[Receipt]) -> pa.Table:
    firsts = [receipt.first_ms for receipt in receipts if receipt.first_ms is not None]
    lasts = [receipt.last_ms for receipt in receipts if receipt.last_ms is not None]
    row = {name: getattr(report, name) for name in SOURCES.columns.names if hasattr(report, name)}
    row |= {
        "remarks": "\n".join(report.remarks),
        "first_ts": _timestamp(min(firsts)) if firsts else None,
        "last_ts": _timestamp(max(lasts)) if lasts else None,
    }
    return pa.Table.from_pylist([row], schema=SOURCES.columns)


def _timestamp(epoch_ms: int) -> pa.Scalar:
    return pa.scalar(epoch_ms * 1000, pa.int64()).cast(TIMESTAMP).as_py()

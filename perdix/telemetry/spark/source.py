"""Exports read by Spark: a file, some small files, or a slice of a large one per task.

Each task of :func:`staged` reads its files once, writes samples, series and quarantined rows as Parquet beside the
lake's tables, and returns one small receipt per file, from which the driver publishes. Rows do not pass through the JVM
then. Why, and what else was measured: docs/decisions/0004-tasks-write-the-lake.md; ``benchmarks/ingest.py`` measures
the code as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.queries import SeriesMap
from perdix.telemetry.staged_export import ExportPart, Receipt, stage_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ReadOptions:
    """What the tasks need to know."""

    series_map: SeriesMap
    hint: Hint
    limits: Limits


def staged(
    spark: SparkSession, tasks: Sequence[Sequence[ExportPart]], staging: Path, options: ReadOptions
) -> list[Receipt]:
    """Stage every part, a Spark task for each of ``tasks``; every task must reach the folder ``staging``."""
    folder = staging.absolute()

    def receipts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parts = [part for index in batch.column(0).to_pylist() for part in tasks[index]]
            found = [stage_part(part, folder, options.series_map, options.hint, options.limits) for part in parts]
            texts = pa.array([receipt.to_json() for receipt in found], pa.string())
            yield pa.RecordBatch.from_arrays([texts], names=["receipt"])

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(receipts, "receipt string")
    return [Receipt.from_json(row["receipt"]) for row in frame.collect()]

"""Which form of a lake table expectations are judged on: in memory where it fits, on Spark where it does not.

Measured on 2 cores (benchmarks/validation.py): 0.1 s for half a million samples in memory, 1.6 s on Spark;
and what is found is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from perdix.assets.checked_frames import Frame
from perdix.assets.judging import Key
from perdix.telemetry.lake import Lake, LakeError
from perdix.telemetry.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as SparkFrame
    from pyspark.sql import SparkSession

MOST_ROWS_IN_MEMORY = 5_000_000  # about 0.5 GB while they are judged

Days = Sequence[str] | None  # ISO; all that there are where it is ``None``
Asked = Mapping[str | None, Days]  # job -> its days; the job ``None`` is every job


def judged_frame(
    lake: Lake,
    table: str,
    days: Days,
    session: Callable[[], SparkSession],
    *,
    keys: Collection[Key] | None = None,
    in_memory: int = MOST_ROWS_IN_MEMORY,
) -> Frame:
    """Return a lake table for ``perdix.assets.expectations.run_suite``: pandas up to ``in_memory`` rows, else Spark.

    Samples get the column ``kind`` (``gauge`` or ``counter``), because the bounds of a metric do not hold for counters:
    one of CPU seconds is far beyond what a CPU load can be, and right.

    Raises ``LakeError`` when the files of a job of ``keys`` cannot be read.

    ``days``: of every job whose files can be read; what is wrong with the others, the next step says.
    ``session``: called only when Spark is needed.
    ``keys``: in place of ``days``, each job's own.
    """
    if keys is not None:
        own: dict[str | None, list[str]] = {}
        for job, day in sorted(keys):
            own.setdefault(job, []).append(day)
        return _frame(lake, table, own, session, in_memory)
    try:
        # One read of everything is much faster than one of each of many jobs.
        return _frame(lake, table, {None: days}, session, in_memory)
    except LakeError:
        sound = [job for job in lake.jobs(table) if fault_of(lake, table, job, days) is None]
        return _frame(lake, table, dict.fromkeys(sound, days), session, in_memory)


def _frame(
    lake: Lake,
    table: str,
    asked: Asked,
    session: Callable[[], SparkSession],
    in_memory: int,
) -> Frame:
    rows = sum(part.rows for job, days in asked.items() for part in lake.manifests(table, job, days=days))
    counters = _counters(lake, asked) if table == "samples" else None
    if rows > in_memory:
        frame = _lake_frame(session(), lake, table, asked)
        return frame if counters is None else _with_kind(frame, counters)
    read = [lake.read(table, job, days=days, coded=True) for job, days in asked.items()]
    rows_read = pa.concat_tables(read) if read else lake.read(table, days=[], coded=True)
    held = rows_read.to_pandas(split_blocks=True, self_destruct=True)  # coded texts become categories
    if counters is not None:
        held["kind"] = _kinds(held["series_id"], counters)
    return held


def _kinds(series_ids: pd.Series, counters: pa.Array) -> pd.Categorical:
    codes = series_ids.isin(counters.to_pylist()).to_numpy() if len(counters) else np.zeros(len(series_ids), bool)
    return pd.Categorical.from_codes(codes.astype("int8"), categories=["gauge", "counter"])  # type: ignore[arg-type]  # stubs


def fault_of(lake: Lake, table: str, job: str, days: Days) -> str | None:
    """Return why the rows of a job cannot be judged, with the fix; ``None`` where they can."""
    try:
        lake.read(table, job, days=days, coded=True)
        _counters(lake, [job])
    except LakeError as error:
        return str(error)
    return None


def _counters(lake: Lake, jobs: Iterable[str | None]) -> pa.Array:
    """Return the identities of counters: one is of the metric, name and labels, so it means the same in every job."""
    read = [lake.read("series", job, columns=["series_id", "kind"]) for job in jobs]
    if not read:
        return pa.array([], pa.int64())
    series = pa.concat_tables(read)
    return pc.unique(series.filter(pc.field("kind") == "counter")["series_id"])


def _with_kind(samples: SparkFrame, counters: pa.Array) -> SparkFrame:
    from pyspark.sql import functions as sf

    known = samples.sparkSession.createDataFrame(
        pa.table({"series_id": counters, "kind": pa.array(["counter"] * len(counters))})
    )
    return samples.join(sf.broadcast(known), "series_id", "left")


def _lake_frame(spark: SparkSession, lake: Lake, table: str, asked: Asked) -> SparkFrame:
    """Return the live rows of a table that are asked for; empty with the right schema where there are none."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(TABLES[table].schema)
    files = [str(path) for job, days in asked.items() for path in lake.files(table, job, days=days)]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", str(lake.root / table)).parquet(*files)

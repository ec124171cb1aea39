"""Lake tables as Spark frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdix.telemetry.lake import Lake
from perdix.telemetry.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def lake_frame(
    spark: SparkSession, lake: Lake, table: str, days: Sequence[str] | None, jobs: Sequence[str | None]
) -> DataFrame:
    """Return the live rows of a table, of the days and jobs asked for; the job ``None`` is every job.

    Empty with the right schema where there are none.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(TABLES[table].schema)
    files = [str(path) for job in jobs for path in lake.files(table, job, days=days)]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", str(lake.root / table)).parquet(*files)

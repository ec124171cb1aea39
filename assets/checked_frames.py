"""What expectations look at: the rows of a table in a form that one pass can judge, and figures of the whole table.

Both take a Spark or a pandas frame. Samples are long (one row per sample of any metric); here each canonical metric
gets a column of its own, null in the rows of other metrics. Range checks of all metrics then share one aggregate, where
a row condition per metric would cost Great Expectations a pass each (measured: twice the time).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perdix.telemetry.metrics import CANONICAL
from perdix.telemetry.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import DataFrame as SparkFrame

Frame = Any  # a Spark or a pandas frame

FACTS = {
    "rows": "rows of the table",
    "duplicate_share": "share of rows whose key another row has, too",
    "wrong_day_share": "share of rows whose time is not of the day of their partition",
    "ahead_of_clock_s": "how far the newest row is in the future, seconds",
    "masked_share": "share of samples that hold no number (NaN, infinity, staleness marker)",
    "unexplained_share": "share of samples without a number and without the reason, or with both",
    "keyless_share": "share of rows that lack a part of their key",
}
_MASKS = ("nan", "inf", "stale")
_FIGURES = ("rows", "keys", "newest_s", "wrong_day", "masked", "unexplained", "keyless")


def checked_columns(table: str) -> list[str]:
    """Return the columns that a rule may name. Raises ``ValueError`` for an unknown table."""
    if table not in TABLES:
        raise ValueError(f"no table '{table}' in the lake; known: {', '.join(TABLES)}")
    names = list(TABLES[table].schema.names)
    return [*names, *(metric for metric in CANONICAL if metric not in names)] if table == "samples" else names


def checked_rows(frame: Frame, table: str, wanted: Sequence[str]) -> Frame:
    """Return the ``wanted`` columns of a table, canonical metrics of samples as columns, NaN as null.

    A column that the frame lacks is left out: the expectation that needs it fails and says so.
    """
    if isinstance(frame, pd.DataFrame):
        return _pandas_rows(frame, table, wanted)
    return _spark_rows(frame, table, wanted)


def counted_rows(frame: Frame, table: str, wanted: Sequence[str]) -> Frame:
    """Return what :func:`checked_rows` does, as far as it takes to count rules that look at one column each.

    In memory, the values of each canonical metric of samples stand at the top of their column, and not each in a row of
    its own: there are as many rows as the most frequent metric has samples, an eighth or so.
    """
    if not isinstance(frame, pd.DataFrame) or table != "samples" or not {"metric", "value"} <= set(frame.columns):
        return checked_rows(frame, table, wanted)
    of_one_type = frame["value"].dtype.kind == "f"  # what the lake holds
    if not of_one_type or any(name not in CANONICAL or name in frame.columns for name in wanted):
        return checked_rows(frame, table, wanted)
    values, counts = frame["value"].to_numpy(), _gauge(frame) & frame["value"].notna()
    columns = [values[(frame["metric"] == name) & counts] for name in wanted]
    packed = np.full((len(columns), max(map(len, columns), default=0)), np.nan, values.dtype)
    for row, column in zip(packed, columns, strict=True):
        row[: len(column)] = column
    return pd.DataFrame(packed.T, columns=list(wanted))


def facts_of(frame: Frame, key: Sequence[str], now_s: float) -> dict[str, float | None]:
    """Return the figures :data:`FACTS` of a table in one pass; ``None`` where its columns do not allow one.

    ``key``: columns that name a row; those that the frame lacks take no part.
    ``now_s``: epoch seconds of the caller's clock.
    """
    present = [name for name in key if name in frame.columns]
    raw = _pandas_facts(frame, present) if isinstance(frame, pd.DataFrame) else _spark_facts(frame, present)
    rows = float(raw["rows"])
    facts: dict[str, float | None] = dict.fromkeys(FACTS)
    facts["rows"] = rows
    if raw["newest_s"] is not None:
        facts["ahead_of_clock_s"] = max(0.0, float(raw["newest_s"]) - now_s)
    if rows:
        for name in ("wrong_day", "masked", "unexplained", "keyless"):
            facts[f"{name}_share"] = None if raw[name] is None else float(raw[name]) / rows
        facts["duplicate_share"] = 1.0 - float(raw["keys"]) / rows
    return facts


def _spark_rows(frame: SparkFrame, table: str, wanted: Sequence[str]) -> SparkFrame:
    from pyspark.sql import functions as sf

    real = {field.name for field in frame.schema.fields if field.dataType.typeName() in ("double", "float")}

    def column(name: str) -> Column | None:
        if name in frame.columns:
            return sf.when(~sf.isnan(name), sf.col(name)).alias(name) if name in real else sf.col(name)
        if table != "samples" or name not in CANONICAL or not {"metric", "value"} <= set(frame.columns):
            return None
        gauge = sf.lit(True) if "kind" not in frame.columns else sf.coalesce("kind", sf.lit("gauge")) == "gauge"
        return sf.when((sf.col("metric") == name) & gauge & ~sf.isnan("value"), sf.col("value")).alias(name)

    return frame.select(*[found for name in wanted if (found := column(name)) is not None])


def _pandas_rows(frame: pd.DataFrame, table: str, wanted: Sequence[str]) -> pd.DataFrame:
    rows = frame[[name for name in wanted if name in frame.columns]].copy()
    if table == "samples" and {"metric", "value"} <= set(frame.columns):
        gauge = _gauge(frame)
        for name in wanted:
            if name in CANONICAL and name not in frame.columns:
                rows[name] = frame["value"].where((frame["metric"] == name) & gauge)
    return rows


def _gauge(frame: pd.DataFrame) -> Any:
    return frame["kind"].fillna("gauge") == "gauge" if "kind" in frame.columns else True


def _spark_facts(frame: SparkFrame, key: Sequence[str]) -> dict[str, Any]:
    from pyspark.sql import functions as sf

    def count_of(condition: Column) -> Column:
        return sf.count(sf.when(condition, sf.lit(1)))

    has = set(frame.columns)
    figures = {"rows": sf.count(sf.lit(1)), "keys": sf.count(sf.lit(1))}
    if key:
        # One number is counted faster than several columns, and unlike them it takes part when one of them is null.
        figures["keys"] = sf.count_distinct(sf.xxhash64(*key))
        figures["keyless"] = count_of(reduce(or_, (sf.col(name).isNull() for name in key)))
    if "ts" in has:
        figures["newest_s"] = sf.max(sf.unix_micros("ts")) / 1e6
        if "day" in has:
            figures["wrong_day"] = count_of(~sf.to_date("ts").eqNullSafe(sf.col("day").try_cast("date")))
    if {"value", "mask"} <= has:
        empty = sf.col("value").isNull() | sf.isnan("value")
        explained = sf.coalesce(sf.col("mask").isin(*_MASKS), sf.lit(False))
        figures["masked"] = sf.count("mask")
        figures["unexplained"] = count_of(empty != explained)
    row = frame.agg(*[figure.alias(name) for name, figure in figures.items()]).first()
    return {name: row[name] if name in figures else None for name in _FIGURES}


def _pandas_facts(frame: pd.DataFrame, key: Sequence[str]) -> dict[str, Any]:
    has = set(frame.columns)
    samples = {"value", "mask"} <= has
    times = _times(frame["ts"]) if "ts" in has else None
    newest = pd.NaT if times is None else times.max()
    return {
        "rows": len(frame),
        "keys": _distinct(frame, key) if key else len(frame),
        "newest_s": None if pd.isna(newest) else newest.timestamp(),
        "wrong_day": None if times is None or "day" not in has else _wrong_days(times, frame["day"]),
        "masked": frame["mask"].notna().sum() if samples else None,
        "unexplained": (frame["value"].isna() != frame["mask"].isin(_MASKS)).sum() if samples else None,
        "keyless": reduce(or_, (frame[name].isna() for name in key)).sum() if key else None,
    }


def _times(column: pd.Series) -> pd.Series:
    """Return times as UTC that does not say so, which pandas compares as whole numbers."""
    # To read again what the lake holds as times would take longer than all else.
    known = isinstance(column.dtype, pd.DatetimeTZDtype)
    return (column if known else pd.to_datetime(column, utc=True)).dt.tz_convert(None)


def _distinct(frame: pd.DataFrame, key: Sequence[str]) -> int:
    """Return how many different keys the rows have."""
    if _in_order(frame, key):
        return len(frame)
    return int(pd.util.hash_pandas_object(frame[list(key)], index=False).nunique())


def _in_order(frame: pd.DataFrame, key: Sequence[str]) -> bool:
    """Say whether the last part of the key rises from row to row, and rows that share the other parts stand together.

    Ingestion files samples so, series by series. No key can then occur twice, and to see that takes a tenth of the time
    of counting the keys. False also where a column is of another type than those of the lake.
    """
    numbers = [_comparable(frame[name]) for name in key]
    if any(column is None for column in numbers):
        return False
    *others, last = (column for column in numbers if column is not None)
    begins = reduce(or_, (column[1:] != column[:-1] for column in others), np.zeros(max(len(frame) - 1, 0), bool))
    if not (begins | (last[1:] > last[:-1])).all():
        return False
    first = np.append(0, np.flatnonzero(begins) + 1)[: len(frame)]
    return not (others and pd.DataFrame([column[first] for column in others]).T.duplicated().any())


def _comparable(column: pd.Series) -> np.ndarray[Any, Any] | None:
    """Return whole numbers that are equal where the values are and rise as times do; ``None`` where there are none."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy()
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return column.astype("int64").to_numpy()
    return column.to_numpy() if column.dtype.kind == "i" else None


def _wrong_days(times: pd.Series, day: pd.Series) -> int:
    filed = day.astype("category")  # a handful of days: parse each once
    parsed = pd.to_datetime(pd.Series(filed.cat.categories, dtype=object), utc=True, errors="coerce")
    days = np.append(parsed.dt.tz_localize(None).to_numpy().astype("datetime64[D]"), np.datetime64("NaT"))
    codes, moments = filed.cat.codes.to_numpy(), times.to_numpy()
    # Rows of a partition stand together, so its earliest and latest row mostly tell all.
    begins = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)[: len(codes)]
    if len(begins) < len(codes) / 10:
        ends = [edge.reduceat(moments, begins).astype("datetime64[D]") for edge in (np.minimum, np.maximum)]
        if all((end == days[codes[begins]]).all() for end in ends):
            return 0
    return int((moments.astype("datetime64[D]") != days[codes]).sum())

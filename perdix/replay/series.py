"""Replays second by second, as Parquet: a file per replay, and many files are one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_tables(tables: Iterable[tuple[str, Mapping[str, Any]]], folder: Path) -> list[Path]:
    """Write tables one after another, each under its name with ``.parquet`` behind it, and return the files.

    ``tables``: name and columns, each a NumPy or an Arrow array of the same length.
    ``folder``: made when it is absent, also where there is no table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, columns in tables:
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table(dict(columns)), path, compression="zstd")
        paths.append(path)
    return paths


def same_in_all(rows: int, seed: int, **labels: str) -> dict[str, Any]:
    """Return the columns that say which replay it is: the labels, then the seed; ``rows`` times the same."""
    texts = {name: pa.array([label] * rows).dictionary_encode() for name, label in labels.items()}
    return {**texts, "seed": np.full(rows, seed, dtype=np.int32)}


def by_operator(seconds: int, operators: Sequence[str]) -> dict[str, Any]:
    """Return the columns that say which row it is, where there is a row per second and operator."""
    return {
        "second": np.repeat(np.arange(seconds, dtype=np.int32), len(operators)),
        "operator": pa.array(list(operators) * seconds).dictionary_encode(),
    }

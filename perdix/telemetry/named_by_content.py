"""Tables that are kept under the digest of their content: the same measurements are the same file on any machine."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write_named(rows: pd.DataFrame, folder: Path, digest: str) -> Path:
    """Write ``<folder>/<digest>.parquet`` and return it; the file appears whole or not at all."""
    path = folder / f"{digest}.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    rows.to_parquet(unfinished, index=False, compression="zstd")
    unfinished.replace(path)
    return path


def read_named(path: Path, what: str, fix: str) -> pd.DataFrame:
    """Read a table. Raises ``ValueError`` with the file, ``what`` it is not, and the ``fix``."""
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise ValueError(f"{path}: not {what}: {error}; {fix}") from error

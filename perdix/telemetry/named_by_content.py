"""Tables that are kept under the digest of their content: the same measurements are the same file on any machine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pandas as pd

Content = TypeVar("Content")


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


def require(rows: pd.DataFrame, columns: Sequence[str], kind: str, *, what: str, place: str, fix: str) -> None:
    """Raise ``ValueError`` where a column is missing, there is no row, or rows differ in column ``kind``.

    ``what``: begins the sentence about it, for example ``a profile is``.
    ``place``: where the rows are from.
    """
    missing = [name for name in columns if name not in rows.columns]
    if missing:
        raise ValueError(f"{place}: column {', '.join(missing)} is missing; {fix}")
    values = rows[kind].unique()
    if len(values) != 1:
        raise ValueError(f"{place}: {what} of one {kind}, found {len(values)}")


def newest(
    folder: Path, read: Callable[[Path], Content], span_s: Callable[[Content], tuple[float, float]]
) -> tuple[Path, Content] | None:
    """Return the file of a folder whose content began last, and that content; ``None`` where there is no file.

    A twin's time begins with the wall clock and then runs hours ahead of it, so that its end says nothing of the order.

    ``span_s``: when a content began and ended; of several that began together, the one that ended last is the newest.
    """
    found = [(path, read(path)) for path in sorted(folder.glob("*.parquet"))]
    return max(found, key=lambda item: (span_s(item[1]), item[0].name), default=None)

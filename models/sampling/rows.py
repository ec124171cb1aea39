"""What a sampling found of one operator; as a table: rows with units, a digest of the content, and Parquet files."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from perdix.models.performance.samples import Sample
from perdix.telemetry.named_by_content import newest, read_named, require, write_named


@dataclass(frozen=True)
class FailedSize:
    """A size of which there is no sample."""

    # cpu_cores, memory_mb: what the instance was given, cores and MB
    cpu_cores: float
    memory_mb: float
    why: str  # what happened, in words
    took_s: float = 0.0  # seconds that it took to find out


@dataclass(frozen=True)
class OperatorSamples:
    """All samples of one sampling."""

    operator: str  # stream job or operator whose workers were sampled
    method: str  # how sizes were chosen: ``dsa``, or ``fssa-<step>``
    # samples, failed: in the order in which they were taken
    samples: tuple[Sample, ...]
    failed: tuple[FailedSize, ...] = ()
    # core_s, worker_s: what it cost: cores of the sampling instances times seconds, and seconds of them. They worked
    # off live traffic meanwhile, so this is no extra cost but an upper bound of it
    core_s: float = 0.0
    worker_s: float = 0.0
    # began_s, ended_s: epoch seconds
    began_s: float = 0.0
    ended_s: float = 0.0
    ended_because: str = ""  # why no further size was sampled
    notes: tuple[str, ...] = ()  # what else went wrong, in words; the samples stand

    @property
    def tried(self) -> int:
        """How many sizes were tried: samples, and those that failed."""
        return len(self.samples) + len(self.failed)


COLUMNS = {
    "operator": "string",
    "method": "string",
    "cpu_cores": "float64",
    "memory_mb": "float64",
    "per_s": "float64",  # records/s; NaN where the size failed
    "took_s": "float64",
    "why_failed": "string",  # empty for a sample
    "core_s": "float64",  # of the whole sampling, on every row, as are the following
    "worker_s": "float64",
    "began_s": "float64",
    "ended_s": "float64",
    "ended_because": "string",
}
LISTS = ("notes",)  # of the whole sampling, too
_WHOLE = ("operator", "method", "core_s", "worker_s", "began_s", "ended_s", "ended_because")


def rows_of(found: OperatorSamples) -> pd.DataFrame:
    """Return a row per sample in order, then per size that failed. Raises ``ValueError`` when there is neither."""
    if not found.tried:
        raise ValueError(f"no size of {found.operator} was sampled: there is nothing to keep")
    whole = {name: getattr(found, name) for name in _WHOLE} | {name: list(getattr(found, name)) for name in LISTS}
    taken = [{**asdict(sample), "why_failed": ""} for sample in found.samples]
    failed = [
        {"cpu_cores": size.cpu_cores, "memory_mb": size.memory_mb, "per_s": math.nan, "took_s": size.took_s,
         "why_failed": size.why}
        for size in found.failed
    ]  # fmt: skip
    return pd.DataFrame([{**row, **whole} for row in (*taken, *failed)])[[*COLUMNS, *LISTS]].astype(COLUMNS)


def samples_of(rows: pd.DataFrame, place: str = "the samples") -> OperatorSamples:
    """Return the samples of rows.

    Raises ``ValueError`` when a column is missing, there is no row, rows of several operators are mixed, or a sample
    has no performance.

    ``place``: where they are from, for the messages.
    """
    fix = "sample the operator anew"
    require(rows, (*COLUMNS, *LISTS), "operator", what="samples are", place=place, fix=fix)
    failed = rows["why_failed"] != ""
    if rows.loc[~failed, "per_s"].isna().any():
        raise ValueError(f"{place}: a sample without a performance and without a reason; {fix}")
    first = rows.iloc[0]
    names = ["cpu_cores", "memory_mb", "per_s", "took_s", "why_failed"]
    taken = rows.loc[~failed, names[:4]].itertuples(index=False)
    lost = rows.loc[failed, names].itertuples(index=False)
    return OperatorSamples(
        str(first["operator"]),
        str(first["method"]),
        tuple(Sample(*map(float, values)) for values in taken),
        tuple(FailedSize(float(cpu), float(mb), str(why), float(took)) for cpu, mb, _, took, why in lost),
        core_s=float(first["core_s"]),
        worker_s=float(first["worker_s"]),
        began_s=float(first["began_s"]),
        ended_s=float(first["ended_s"]),
        ended_because=str(first["ended_because"]),
        notes=tuple(str(note) for note in first["notes"]),
    )


def samples_digest(found: OperatorSamples) -> str:
    """Return the SHA-256 of the content: the same samples have the same digest on any machine."""
    return hashlib.sha256(json.dumps(asdict(found), sort_keys=True, allow_nan=False).encode()).hexdigest()


def write_samples(found: OperatorSamples, folder: Path) -> Path:
    """Write ``<folder>/<operator>/<digest>.parquet`` and return it; the file appears whole or not at all."""
    return write_named(rows_of(found), folder / found.operator, samples_digest(found))


def read_samples(path: Path) -> OperatorSamples:
    """Read samples. Raises ``ValueError`` naming the file when it holds none."""
    return samples_of(read_named(path, "samples", "delete it and sample the operator anew"), str(path))


def newest_samples(folder: Path, operator: str) -> tuple[Path, OperatorSamples] | None:
    """Return the samples of an operator that began last, and their file; ``None`` when it was never sampled."""
    return newest(folder / operator, read_samples, lambda samples: (samples.began_s, samples.ended_s))

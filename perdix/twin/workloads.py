"""Workloads of the twin: records/s for each second, the same for the same seed wherever one starts to look.

Recorded ones are CSV files with the columns ``second,tuples_per_second``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from perdix.settings.strict import Strict
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.window import Values

Arrivals = Callable[[int, int], Values]  # (first epoch second, count) -> records/s
Shape = Literal["constant", "sine", "daily", "step", "spikes", "csv"]
BLOCK_S = 3_600  # random numbers are keyed by the hour, so that any stretch can be made without the ones before it
KNOT_S = 300  # the slow noise is a line through one random number every five minutes
_SECOND, _SLOW, _SPIKES = 1, 2, 3
COLUMNS = ("second", "tuples_per_second")


class WorkloadSpec(Strict):
    """A workload: a pattern between ``low`` and 1, scaled to a peak, with noise.

    ``peak_per_s``: records/s at the pattern's highest point. A CSV trace without a peak keeps its own rates.
    ``peak_utilisation``: instead of ``peak_per_s``: share of the job's expected capacity at its largest scale-out.
    ``low``: the pattern's lowest point as a share of its peak (not used for ``csv``).
    ``noise``, ``slow_noise``: relative standard deviations, from second to second and over minutes.
    ``file``: CSV with the columns ``second,tuples_per_second``; it starts anew after its end.
    """

    shape: Shape
    peak_per_s: Annotated[float, Field(gt=0)] | None = None
    peak_utilisation: Annotated[float, Field(gt=0, le=2)] | None = None
    low: Annotated[float, Field(ge=0, le=1)] = 0.2
    period_s: Annotated[int, Field(ge=2)] = 86_400
    phase_s: Annotated[int, Field(ge=0)] = 0
    noise: Annotated[float, Field(ge=0, le=1)] = 0.02
    slow_noise: Annotated[float, Field(ge=0, le=1)] = 0.03
    spikes_per_hour: Annotated[float, Field(ge=0, le=60)] = 2.0
    spike_share: Annotated[float, Field(ge=0, lt=1)] = 0.4
    spike_s: Annotated[int, Field(ge=1, le=BLOCK_S)] = 240
    file: Path | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.shape == "csv") != (self.file is not None):
            raise ValueError("'file' belongs to the shape 'csv', and the shape 'csv' needs it")
        if self.peak_per_s is not None and self.peak_utilisation is not None:
            raise ValueError("give 'peak_per_s' or 'peak_utilisation', not both")
        if self.shape != "csv" and self.peak_per_s is None and self.peak_utilisation is None:
            raise ValueError("give 'peak_per_s' (records/s) or 'peak_utilisation' (share of the largest capacity)")
        return self

    def scaled_to(self, capacity_per_s: float) -> WorkloadSpec:
        """Return the spec with ``peak_utilisation`` turned into records/s of ``capacity_per_s``."""
        if self.peak_utilisation is None:
            return self
        peak_per_s = self.peak_utilisation * capacity_per_s
        return self.model_copy(update={"peak_per_s": peak_per_s, "peak_utilisation": None})


def workload(spec: WorkloadSpec, seconds: int, seed: int, start_s: int = 0) -> Values:
    """Return records/s in each of the ``seconds`` seconds from epoch second ``start_s``, shape ``(seconds,)``.

    A pure function of time: two stretches that overlap agree where they do. Never negative.

    Raises ``ValueError`` when ``peak_utilisation`` was not turned into records/s, or a time is negative;
    ``SettingsError`` when a CSV trace cannot be used.
    """
    if spec.peak_utilisation is not None:
        raise ValueError("call scaled_to() first: a share of the capacity is not yet a rate")
    if seconds < 0 or start_s < 0:
        raise ValueError(f"expected seconds >= 0 and start_s >= 0, found {seconds} and {start_s}")
    times_s = np.arange(start_s, start_s + seconds, dtype=np.int64)
    rate = _rate(spec, times_s, seed)
    relative = 1.0 + spec.noise * _second_noise(times_s, seed) + spec.slow_noise * _slow_noise(times_s, seed)
    return np.maximum(rate * relative, 0.0)


def arrivals_from(values: Values, start_s: int) -> Arrivals:
    """Return arrivals read from an array of records/s whose first second is ``start_s``; it ends with an error."""

    def read(second: int, count: int) -> Values:
        first = second - start_s
        if first < 0 or first + count > len(values):
            raise ValueError(
                f"the workload covers {len(values)} s from second {start_s}; second {second + count - 1} is outside"
            )
        return values[first : first + count]

    return read


def in_blocks(read: Arrivals) -> Arrivals:
    """Return the same arrivals, made an hour at a time and kept, so that single seconds cost nothing."""
    begin_s, kept = -1, np.zeros(0)

    def read_kept(second: int, count: int) -> Values:
        nonlocal begin_s, kept
        block_s = second - second % BLOCK_S
        if second + count > block_s + BLOCK_S:
            return read(second, count)
        if block_s != begin_s:
            begin_s, kept = block_s, read(block_s, BLOCK_S)
        return kept[second - block_s : second - block_s + count]

    return read_kept


def _rate(spec: WorkloadSpec, times_s: NDArray[np.int64], seed: int) -> Values:
    if spec.shape == "csv":
        assert spec.file is not None
        trace = read_trace(spec.file)
        rate = trace[(times_s + spec.phase_s) % len(trace)]
        return rate if spec.peak_per_s is None else rate * (spec.peak_per_s / max(float(trace.max()), 1e-9))
    pattern = _pattern(spec, times_s, seed)
    return (spec.peak_per_s or 0.0) * (spec.low + (1.0 - spec.low) * pattern)


def _pattern(spec: WorkloadSpec, times_s: NDArray[np.int64], seed: int) -> Values:
    """Return a pattern between 0 and 1, shape ``(n,)``."""
    phase = ((times_s + spec.phase_s) % spec.period_s) / spec.period_s
    wave = 0.5 - 0.5 * np.cos(2.0 * np.pi * phase)
    if spec.shape == "constant":
        return np.ones(len(times_s))
    if spec.shape == "step":
        return np.where(phase < 0.5, 0.0, 1.0)
    if spec.shape == "daily":
        return np.maximum(0.8 * _bump(phase, 0.42, 0.11), _bump(phase, 0.80, 0.07))
    if spec.shape == "spikes":
        return (1.0 - spec.spike_share) * wave + spec.spike_share * _spikes(spec, times_s, seed)
    return wave


def _bump(phase: Values, centre: float, width: float) -> Values:
    distance = np.abs(phase - centre)
    distance = np.minimum(distance, 1.0 - distance)
    return np.asarray(np.exp(-0.5 * (distance / width) ** 2))


def _blocks(times_s: NDArray[np.int64]) -> range:
    return range(int(times_s[0]) // BLOCK_S, int(times_s[-1]) // BLOCK_S + 1) if len(times_s) else range(0)


def _second_noise(times_s: NDArray[np.int64], seed: int) -> Values:
    blocks = _blocks(times_s)
    if not blocks:
        return np.zeros(0)
    drawn = np.concatenate([np.random.default_rng([seed, _SECOND, b]).standard_normal(BLOCK_S) for b in blocks])
    return drawn[times_s - blocks[0] * BLOCK_S]


def _slow_noise(times_s: NDArray[np.int64], seed: int) -> Values:
    blocks = _blocks(times_s)
    if not blocks:
        return np.zeros(0)
    per_block = BLOCK_S // KNOT_S
    wider = range(blocks[0], blocks[-1] + 2)
    knots = np.concatenate([np.random.default_rng([seed, _SLOW, b]).standard_normal(per_block) for b in wider])
    positions = blocks[0] * BLOCK_S + KNOT_S * np.arange(len(knots))
    return np.asarray(np.interp(times_s, positions, knots), dtype=np.float64)


def _spikes(spec: WorkloadSpec, times_s: NDArray[np.int64], seed: int) -> Values:
    """Return spikes that rise at once and fall in a line; those of the hour before may still be falling."""
    height = np.zeros(len(times_s))
    blocks = _blocks(times_s)
    if not blocks:
        return height
    for block in range(max(blocks[0] - 1, 0), blocks[-1] + 1):
        rng = np.random.default_rng([seed, _SPIKES, block])
        starts = block * BLOCK_S + rng.integers(0, BLOCK_S, rng.poisson(spec.spikes_per_hour))
        for start, top in zip(starts, rng.uniform(0.5, 1.0, len(starts)), strict=True):
            age = (times_s - start) / spec.spike_s
            height = np.maximum(height, np.where((age >= 0) & (age < 1), top * (1.0 - age), 0.0))
    return height


def read_trace(path: Path) -> NDArray[np.float64]:
    """Return records/s for every second from the file's first to its last; seconds left out are interpolated.

    Raises ``SettingsError``, naming file, line and fix, when the file is not such a trace.
    """
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); give a CSV file") from None
    return _read(path, changed_ns)


@lru_cache(maxsize=16)
def _read(path: Path, _changed_ns: int) -> NDArray[np.float64]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            seconds, rates = _columns(path, csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingsError(f"{path}: cannot be read as CSV: {error}") from None
    trace = np.interp(np.arange(seconds[0], seconds[-1] + 1), seconds, rates)
    trace.flags.writeable = False
    return trace


def _columns(path: Path, rows: Iterator[list[str]]) -> tuple[list[int], list[float]]:
    header = tuple(next(rows, []))
    if header[:2] != COLUMNS:
        raise SettingsError(
            f"{path}:1: expected the columns {','.join(COLUMNS)}, found {','.join(header) or 'nothing'}"
        )
    seconds: list[int] = []
    rates: list[float] = []
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        try:
            second, rate = int(row[0]), float(row[1])
        except (ValueError, IndexError):
            raise SettingsError(f"{path}:{line}: expected a second and a rate, found {','.join(row)!r}") from None
        if not np.isfinite(rate) or rate < 0:
            raise SettingsError(f"{path}:{line}: the rate must be finite and not negative, found {row[1]}")
        if seconds and second <= seconds[-1]:
            raise SettingsError(f"{path}:{line}: second {second} does not come after {seconds[-1]}; sort the file")
        seconds.append(second)
        rates.append(rate)
    if not seconds:
        raise SettingsError(f"{path}: no rows below the header")
    return seconds, rates

"""The workload of a replay: a trace, scaled to what a twin can take, the same for every policy."""

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from perdix.models.forecasting.contract import Workload
from perdix.replay.case import START_S
from perdix.replay.matrix_rows import is_export, read_matrix
from perdix.replay.trace_rows import GAP_S, ONE_MISSING, Rows, closable_s, complaint, read_rows
from perdix.settings.counting import counted
from perdix.settings.durations import in_words
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.exports.csv_table import SELDOM, hardly_falls
from perdix.telemetry.window import Values
from perdix.twin.parameters import TwinParameters
from perdix.twin.workloads import WorkloadSpec, workload

COUNTER = re.compile(r"[A-Za-z_:][\w:]*_(?:total|count|sum|bucket)(?![\w:])")  # the name of a metric that only grows
ABSURD = 1_000.0  # times the 99th percentile
SHORTEST_S = 60.0
STEP = "step"  # of what was ingested: a reader finds it by its time
SHAPE_SEED = 0  # of what is random in a twin's own pattern: the shape is the same for every seed of a replay
FILE_NOISE = 0.02  # recorded traces keep their shape, and no second is exactly as it was recorded


@dataclass(frozen=True)
class Gaps:
    """What of a trace nobody measured, for longer than a line may close unasked."""

    where: str  # the trace's file or job
    allowed_s: float
    # times_s, places: from when until when, seconds after the first row, and how the row after is found; oldest first
    times_s: tuple[tuple[float, float], ...]
    places: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """How much arrives over time, before it is scaled. Starts anew after its end."""

    name: str
    # times_s, rates: knots of a line, shape ``(n,)``; the first time is 0
    times_s: Values
    rates: Values
    length_s: float  # after this many seconds it starts anew
    peak: float  # its highest rate, in the trace's own unit: what is scaled to the peak utilisation
    # peak_utilisation, noise, slow_noise: what to take when nothing else is asked for
    peak_utilisation: float = 0.75
    noise: float = FILE_NOISE
    slow_noise: float = 0.0
    notes: tuple[str, ...] = ()  # what a reader should know: the column that was read, gaps that were closed
    step_s: float = 1.0  # usual time from row to row
    origin_s: float | None = None  # epoch seconds of its first row; ``None`` where it has no dates
    begin_s: float = 0.0  # where a replay begins, seconds after its first row
    gaps: Gaps | None = None  # that are too long for a line, in a trace in which they were not to be closed
    endless: bool = False  # whether it is a pattern without end, of which there is no part to choose

    @property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of its knots and where it begins: the same digest is the same trace."""
        begin = [self.begin_s] if self.begin_s else []
        content = np.concatenate(([self.length_s, *begin], self.times_s, self.rates)).astype("<f8").tobytes()
        return hashlib.sha256(content).hexdigest()[:16]

    def relative(self, seconds: int) -> Values:
        """Return each second's rate as a share of the peak, shape ``(seconds,)``."""
        times_s = self.begin_s + np.arange(seconds, dtype=np.float64)
        return np.interp(times_s, self.times_s, self.rates, period=self.length_s) / self.peak

    def about(self, seconds: int) -> tuple[str, ...]:
        """Return the notes, and what a replay of ``seconds`` makes of the trace."""
        found = list(self.notes)
        if self.begin_s + seconds >= self.length_s + 1.0:  # not for what hours are rounded by
            found.append(f"the trace covers {self.length_s / 3600:.2f} h and starts anew after its end")
        highest = float(self.relative(seconds).max())
        if highest < 0.9:
            found.append(f"the part that is replayed reaches {highest:.0%} of the trace's peak")
        return tuple(found)


def recorded(path: Path, *, fill_gaps: bool = False, step_s: float | None = None) -> Trace:
    """Read a trace from a file: a CSV or Parquet table of times and rates, of whatever unit, or a Prometheus export.

    Between rows it is a line. A file with a row every few minutes is as good as one with a row every second. A gap is
    where rows are further apart than a minute and a single missing row of the file's usual step; a part that has one
    is refused by :func:`perdix.replay.part.part_of`.

    Raises ``SettingsError``, naming file, line and fix.

    ``step_s``: seconds from row to row of a table without times.
    ``fill_gaps``: close gaps of any length by a line, and say so.
    """
    if is_export(path):
        if step_s is not None:
            raise SettingsError(f"{path}: an export of Prometheus has times; leave --step out")
        rows = read_matrix(path)
        notes = [f"read from {rows.column}", *rows.remarks]
    else:
        rows = read_rows(path, step_s)
        others = ", ".join(f"'{name}'" for name in rows.unread)
        read = f"read from the column '{rows.column}'" + (f", not {others}" if others else "")
        notes = [*([read] if rows.column else []), *rows.remarks]
    if hardly_falls(rows.rates):  # a counter that an expression has robbed of its name, or a ramp
        notes.append("its rates hardly ever fall: if it counts records, export sum(rate(...))")
    if step_s is not None:
        notes.append(f"{in_words(step_s)} from row to row, as asked for")
    name = path.name.removesuffix(".gz")
    return _trace(name.rsplit(".", 1)[0] or name, path, rows, notes, fill_gaps=fill_gaps)


def ingested(job: str, workload: Workload, *, fill_gaps: bool = False) -> Trace:
    """Return the workload of a job as it was ingested; what was not measured is a gap.

    Raises ``SettingsError``, naming the job, the time and the fix.
    """
    known = np.flatnonzero(np.isfinite(workload.per_s))
    times_s = np.asarray(workload.start_s + workload.step_s * (known + 1.0), dtype=np.float64)
    rows = Rows(times_s, workload.per_s[known], known + 1, "", 0, STEP, dated=True)
    return _trace(job, f"job '{job}'", rows, [f"the workload of the ingested job '{job}'"], fill_gaps=fill_gaps)


def _trace(name: str, path: Path | str, rows: Rows, notes: list[str], *, fill_gaps: bool) -> Trace:
    if np.diff(rows.times_s).any() and (np.diff(rows.times_s) <= 0).all():
        rows = replace(rows, times_s=rows.times_s[::-1], rates=rows.rates[::-1], places=rows.places[::-1])
        notes = [*notes, "its newest rows come first: read from the last"]
    again = np.append(False, (np.diff(rows.times_s) == 0) & (np.diff(rows.rates) == 0))
    if 0 < again.sum() < len(again) / 3:  # where most moments come twice, they are of two series
        rows = replace(rows, times_s=rows.times_s[~again], rates=rows.rates[~again], places=rows.places[~again])
        notes = [*notes, f"rows that repeat the one before, and count once: {again.sum()}"]
    if len(rows.times_s) < 2:
        count = len(rows.times_s) or "none"
        raise SettingsError(f"{path}: at least two rows with a rate are needed; there is {count}")
    steps_s = np.diff(rows.times_s)
    _increasing(path, rows, steps_s)
    _refuse_counter(path, rows)
    usual_s = float(np.median(steps_s))
    if rows.empty:
        notes = [*notes, f"{counted(rows.empty, 'row')} without a rate left out"]
    gaps = None if fill_gaps else _gaps(path, rows, steps_s, usual_s)
    notes = [*notes, *_closed(steps_s if fill_gaps else steps_s[steps_s <= closable_s(usual_s)], usual_s)]
    peak = _peak(path, rows)
    times_s = rows.times_s - rows.times_s[0]
    length_s = float(times_s[-1]) + usual_s
    if length_s < SHORTEST_S:
        raise SettingsError(f"{path}: the trace covers {length_s:.0f} s; give at least {SHORTEST_S:.0f}")
    origin_s = float(rows.times_s[0]) if rows.dated else None
    shown = tuple(notes)
    return Trace(name, times_s, rows.rates, length_s, peak, notes=shown, step_s=usual_s, origin_s=origin_s, gaps=gaps)


def own(parameters: TwinParameters, seconds: int) -> Trace:
    """Return the pattern of a twin's own workload over ``seconds`` seconds; its noise is left to the replay.

    Raises ``SettingsError`` when the twin's workload is a file that cannot be read.
    """
    spec = parameters.workload
    bare = spec.model_copy(update={"noise": 0.0, "slow_noise": 0.0, "peak_utilisation": None, "peak_per_s": 1.0})
    rates = workload(bare, seconds, SHAPE_SEED, START_S)
    return Trace(
        parameters.name,
        np.arange(seconds, dtype=np.float64),
        rates,
        float(seconds),
        1.0,
        peak_utilisation=spec.peak_utilisation or 0.75,
        noise=spec.noise,
        slow_noise=spec.slow_noise,
        notes=(f"the twin's own workload ({spec.shape})",),
        endless=True,
    )


def arrivals(trace: Trace, seconds: int, peak_per_s: float, seed: int, *, noise: float, slow_noise: float) -> Values:
    """Return records/s in each second of a replay, shape ``(seconds,)``.

    The peak is that of the trace before noise. Noise is relative, of mean zero and independent of the trace, so it
    leaves the shape as it is; the seed draws it.
    """
    unit = WorkloadSpec(shape="constant", peak_per_s=1.0, noise=noise, slow_noise=slow_noise)
    return peak_per_s * trace.relative(seconds) * workload(unit, seconds, seed, START_S)


def _increasing(path: Path | str, rows: Rows, steps_s: Values) -> None:
    back = np.flatnonzero(steps_s <= 0)
    if not len(back):
        return
    wrong = [
        f"{rows.unit} {rows.places[k + 1]}: its time {'is that' if steps_s[k] == 0 else 'lies before that'} of "
        f"{rows.unit} {rows.places[k]}"
        for k in back
    ]
    raise SettingsError(
        f"{path}: {complaint(wrong)}; sort the rows by time and add up those of one time; local times need their zone "
        "(+01:00), or an hour comes twice when clocks are set back"
    )


def _refuse_counter(path: Path | str, rows: Rows) -> None:
    """Complain of a metric that only grows; a table's column may be called like one and hold rates."""
    found = COUNTER.match(rows.column)
    if found is None or (rows.unit != "sample" and float((np.diff(rows.rates) < 0).mean()) >= SELDOM):
        return
    other = "" if rows.unit == "sample" else ", or name the column otherwise if it holds rates"
    raise SettingsError(f"{path}: {found[0]} is a counter; export its rate: sum(rate({found[0]}[1m])){other}")


def _gaps(path: Path | str, rows: Rows, steps_s: Values, usual_s: float) -> Gaps | None:
    """Return the gaps that are too long for a line."""
    longer = np.flatnonzero(steps_s > closable_s(usual_s))
    if not len(longer):
        return None
    passed_s = rows.times_s - rows.times_s[0]
    times_s = tuple((float(passed_s[k]), float(passed_s[k + 1])) for k in longer)
    places = tuple("" if rows.unit == STEP else f"{rows.unit} {rows.places[k + 1]}: " for k in longer)
    return Gaps(str(path), max(GAP_S, 2.0 * usual_s), times_s, places)


def _closed(steps_s: Values, usual_s: float) -> list[str]:
    """Return what is said about the gaps that a line closes."""
    gaps = steps_s[steps_s > 1.5 * usual_s]
    if not len(gaps):
        return []
    if gaps.max() <= ONE_MISSING * usual_s:
        return [f"{counted(len(gaps), 'single missing row')}: lines across"]
    missing = f"{counted(len(gaps), 'gap')}, {(gaps - usual_s).sum():,.0f} s in all"
    return [f"{missing}, the longest {gaps.max():,.0f} s: lines across"]


def _peak(path: Path | str, rows: Rows) -> float:
    positive = rows.rates[rows.rates > 0]
    if not len(positive):
        raise SettingsError(f"{path}: every rate is 0; there is no peak to scale to")
    limit = ABSURD * float(np.percentile(positive, 99, method="lower"))
    absurd = np.flatnonzero(rows.rates > limit)
    if len(absurd):
        wrong = [f"{rows.unit} {rows.places[k]}: {rows.rates[k]:g}" for k in absurd]
        raise SettingsError(
            f"{path}: {complaint(wrong)}: more than {ABSURD:,.0f} times what 99 % of the rates stay below; "
            "correct them or take them out"
        )
    return float(rows.rates.max())

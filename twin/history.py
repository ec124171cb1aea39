"""What a twin went through, second by second, in growing arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

JOB_COLUMNS = (
    "arrived",  # records in this second
    "processed",  # records in this second, replays among them
    "arrived_total",  # records since the twin began
    "progress_total",  # records finished for good; falls back to the last checkpoint at a restart
    "lag",  # records waiting at the end of the second
    "capacity",  # records that could be processed in this second; 0 while the job stands still
    "latency_p95_ms",  # NaN while nothing comes out
    "uptime_s",  # since the last start; NaN while the job stands still
    "scale_out",  # workers deployed
    "deployment",  # number of the deployment: another one after each restart
)
WORKER_COLUMNS = (
    "worker_processed",  # records in this second; NaN where the worker is not there
    "worker_counter",  # records since the worker's deployment began: what an exporter counts; NaN where it is not there
    "worker_cpu",  # ratio in this second; NaN where the worker is not there
)


class History:
    """Row ``k`` is the second ``[start_s + k, start_s + k + 1)``; its state is that of the second's end."""

    def __init__(self, start_s: int, workers: int) -> None:
        self._start_s = start_s
        self._length = 0
        self._room = 4_096
        self._workers = workers
        self._columns = {name: np.empty(self._shape(name)) for name in JOB_COLUMNS + WORKER_COLUMNS}
        self._read: tuple[object, dict[object, Values]] = (None, {})

    @property
    def start_s(self) -> int:
        """Epoch second of the first row that is kept."""
        return self._start_s

    @property
    def end_s(self) -> int:
        """Epoch second at which the last row ends."""
        return self._start_s + self._length

    def __len__(self) -> int:
        return self._length

    def append(self, rows: Mapping[str, Values]) -> None:
        """Append rows of every column; all of the same length."""
        added = len(rows["arrived"])
        self._reserve(self._length + added)
        for name, column in self._columns.items():
            column[self._length : self._length + added] = rows[name]
        self._length += added

    def column(self, name: str, from_s: int | None = None, to_s: int | None = None) -> Values:
        """Return a read-only view of the rows whose second starts in ``[from_s, to_s)``, clipped to what is kept."""
        first = 0 if from_s is None else min(max(from_s - self._start_s, 0), self._length)
        last = self._length if to_s is None else min(max(to_s - self._start_s, first), self._length)
        view = self._columns[name][first:last]
        view.flags.writeable = False
        return view

    def once(self, rows: object, what: object, work_out: Callable[[], Values]) -> Values:
        """Return ``work_out()``, worked out once for ``what`` as long as the very same ``rows`` are asked for.

        A scrape reads a few tables, and a series per worker from each; the rows of an instant do not change.
        """
        read = self._read
        if read[0] is not rows:
            read = self._read = (rows, {})
        known = read[1]
        if what not in known:
            known[what] = work_out()
        return known[what]

    def at(self, name: str, second: int) -> float:
        """Return a job-level value of the second that starts at ``second``. Raises ``KeyError`` when it is not kept."""
        row = second - self._start_s
        if not 0 <= row < self._length:
            raise KeyError(f"second {second} is outside {self._start_s}..{self.end_s - 1}")
        return float(self._columns[name][row])

    def discard_before(self, second: int) -> None:
        """Forget the rows before ``second``, so that a twin that lives for months stays small."""
        gone = min(max(second - self._start_s, 0), self._length)
        if gone == 0:
            return
        kept = self._length - gone
        self._room = max(4_096, kept)
        for name, column in self._columns.items():
            moved = np.empty(self._shape(name))
            moved[:kept] = column[gone : self._length]
            self._columns[name] = moved
        self._start_s += gone
        self._length = kept

    def _shape(self, name: str) -> tuple[int, ...]:
        return (self._room, self._workers) if name in WORKER_COLUMNS else (self._room,)

    def _reserve(self, rows: int) -> None:
        if rows <= self._room:
            return
        self._room = max(rows, 2 * self._room)
        for name, column in self._columns.items():
            larger = np.empty(self._shape(name))
            larger[: self._length] = column[: self._length]
            self._columns[name] = larger

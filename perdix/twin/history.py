"""What a twin went through, row by row, in growing arrays."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.window import Values

JOB_COLUMNS = (
    "arrived",  # records/s in this row
    "processed",  # records/s in this row, replays among them
    "arrived_total",  # records since the twin began
    "progress_total",  # records finished for good; falls back to the last checkpoint at a restart
    "lag",  # records waiting at the end of the row
    "capacity",  # records/s that could be processed in this row; 0 while the job stands still
    "latency_p95_ms",  # NaN while nothing comes out
    "uptime_s",  # since the last start; NaN while the job stands still
    "scale_out",  # workers deployed
    "deployment",  # number of the deployment: another one after each restart
    "cpu_load",  # mean over the workers that run, ratio; NaN where none does
)
WORKER_COLUMNS = (
    "worker_processed",  # records/s in this row; NaN where the worker is not there
    "worker_counter",  # records since the worker's deployment began: what an exporter counts; NaN where it is not there
    "worker_cpu",  # ratio in this row; NaN where the worker is not there
)


ROOM = 4_096  # rows for which there is room at first


class History:
    """Row ``k`` is the time ``[start_s + k step_s, start_s + (k + 1) step_s)``; its state is that of its end.

    A row is a second, but for replays of months. Columns of workers may be forgotten earlier than those of the job.
    """

    def __init__(self, start_s: int, workers: int, step_s: int = 1) -> None:
        self.start_s = start_s  # epoch second of the first row that is kept
        self.step_s = step_s
        self._length = 0
        self._workers = workers
        self._forgotten = 0  # rows at the beginning that the columns of workers no longer have
        self._columns = {name: self._empty(name, ROOM) for name in JOB_COLUMNS + WORKER_COLUMNS}
        self._read: tuple[object, dict[object, Values]] = (None, {})

    @property
    def end_s(self) -> int:
        """Epoch second at which the last row ends."""
        return self.start_s + self._length * self.step_s

    def __len__(self) -> int:
        return self._length

    def append(self, rows: Mapping[str, Values | float]) -> None:
        """Append rows of every column; all as many as there are of ``arrived``, or a number that is the same in all."""
        added = np.size(rows["arrived"])
        for name in self._columns:
            kept = self._length - self._first(name)
            self._reserve(name, kept, kept + added)
            self._columns[name][kept : kept + added] = rows[name]
        self._length += added

    def column(self, name: str, from_s: int | None = None) -> Values:
        """Return a read-only view of the rows that start at ``from_s`` or later, of all that are kept by default."""
        first = 0 if from_s is None else min(max(self._row(from_s), 0), self._length)
        return self.rows(name, max(first, self._first(name)), self._length)

    def rows(self, name: str, first: int, last: int) -> Values:
        """Return a read-only view of the rows ``first`` to ``last`` (exclusive), counted from the first that is kept.

        Raises ``IndexError`` when columns of workers have forgotten the first of them.
        """
        gone = self._kept_from(name, first)
        view = self._columns[name][first - gone : max(min(last, self._length), first) - gone]
        view.flags.writeable = False
        return view

    def some(self, name: str, rows: NDArray[np.int64], worker: int | None = None) -> Values:
        """Return the values in some rows, counted from the first that is kept; shape of ``rows``.

        ``worker``: of which one, in a column of workers; of all by default, shape ``(n, workers)``. Rows of shape
        ``(n, k)`` are then those of each of the first ``k``, and so are the values.
        Raises ``IndexError`` as :meth:`rows` does.
        """
        rows = rows - self._kept_from(name, rows.min(initial=self._length))
        column = self._columns[name] if worker is None else self._columns[name][:, worker]
        of_each = column.ndim > 1 and rows.ndim > 1
        return np.asarray(column[rows, np.arange(rows.shape[1])] if of_each else column[rows])

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
        """Return a job-level value of the row in which ``second`` lies. Raises ``KeyError`` when it is not kept."""
        row = (second - self.start_s) // self.step_s
        if not 0 <= row < self._length:
            raise KeyError(f"second {second} is outside {self.start_s}..{self.end_s - 1}")
        return float(self._columns[name][row])

    def discard_before(self, second: int) -> None:
        """Forget the rows before ``second``, so that a twin that lives for months stays small."""
        gone = min(max(self._row(second), 0), self._length)
        if gone == 0:
            return
        for name in self._columns:
            self._drop(name, max(gone - self._first(name), 0))
        self._forgotten = max(self._forgotten - gone, 0)
        self.start_s += gone * self.step_s
        self._length -= gone

    def forget_workers_before(self, second: int) -> None:
        """Forget what workers did before ``second``, now or a little later: theirs is most of what is remembered."""
        gone = min(max(self._row(second), 0), self._length) - self._forgotten
        if gone < ROOM:
            return
        for name in WORKER_COLUMNS:
            self._drop(name, gone)
        self._forgotten += gone

    def _row(self, second: int) -> int:
        """Return the first row that does not start before ``second``."""
        return -((self.start_s - second) // self.step_s)

    def _first(self, name: str) -> int:
        return self._forgotten if name in WORKER_COLUMNS else 0

    def _kept_from(self, name: str, first: int) -> int:
        """Return from which row on a column is kept. Raises ``IndexError`` when ``first`` lies before."""
        gone = self._first(name)
        if first < gone:
            raise IndexError(f"row {first} of '{name}' is forgotten; those from {gone} on are kept")
        return gone

    def _empty(self, name: str, room: int) -> Values:
        return np.empty((room, self._workers) if name in WORKER_COLUMNS else (room,))

    def _drop(self, name: str, rows: int) -> None:
        kept = self._length - self._first(name) - rows
        moved = self._empty(name, max(ROOM, kept))
        moved[:kept] = self._columns[name][rows : rows + kept]
        self._columns[name] = moved

    def _reserve(self, name: str, kept: int, rows: int) -> None:
        column = self._columns[name]
        if rows <= len(column):
            return
        larger = self._empty(name, max(rows, 2 * len(column)))
        larger[:kept] = column[:kept]
        self._columns[name] = larger

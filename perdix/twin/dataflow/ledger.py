"""What happened in a dataflow, second by second."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perdix.telemetry.window import Values


@dataclass(frozen=True)
class Stretch:
    """Seconds of a dataflow; operators and edges in the order of its wiring."""

    processed: Values  # records processed in each second, of a source: emitted. Shape ``(seconds, operators)``
    # worked_s, back_pressured_s: seconds that an operator's instances worked together, as instrumentation counts it,
    # and that each of them waited for room, ``(seconds, operators)``
    worked_s: Values
    back_pressured_s: Values
    held: Values  # records in each edge's buffer at the end of each second, ``(seconds, edges)``
    # target, lag: records that each operator was to emit in the second, and that wait before it at its end; 0 for those
    # that are no source. ``(seconds, operators)``
    target: Values
    lag: Values
    instances: Values  # instances deployed, ``(seconds, operators)``
    running: Values  # 1 where it ran, 0 where it stood still, ``(seconds,)``

    def __len__(self) -> int:
        return len(self.running)


class Ledger:
    """Seconds in the order in which they pass."""

    def __init__(self, operators: int, edges: int) -> None:
        self._widths = (operators, operators, operators, edges, operators, operators, operators)
        self._rows: list[tuple[Sequence[float], ...]] = []
        self._running: list[bool] = []

    def append(self, *rows: Sequence[float], running: bool) -> None:
        """Add a second, its columns in the order of :class:`Stretch`. They are kept, not copied."""
        self._rows.append(rows)
        self._running.append(running)

    def between(self, since: int, until: int | None = None) -> Stretch:
        """Return the seconds from number ``since`` to before ``until`` (default: all that follow)."""
        rows, running = self._rows[since:until], self._running[since:until]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self._widths)
        processed, worked_s, back_pressured_s, held, target, lag, instances = (
            np.array(column, dtype=np.float64).reshape(len(rows), width)
            for column, width in zip(columns, self._widths, strict=True)
        )
        ran = np.array(running, dtype=np.float64)
        return Stretch(processed, worked_s, back_pressured_s, held, target, lag, instances, ran)

"""What happened in a topology, second by second."""

from dataclasses import dataclass

import numpy as np

from perdix.telemetry.window import Values

FIRST_SECONDS = 1_024


@dataclass(frozen=True)
class Course:
    """The seconds of a run; operators in the order of the topology.

    ``arrived``, ``left``: data items that had come to each operator, and that it had begun, from 0 on: ``(seconds + 1,
    operators)``. What is between them waits.
    ``utilisation``: what was asked of an operator as a share of what its instances reach for a moment, ``(seconds,
    operators)``.
    ``slowness``: how many times as long as usual the work itself took, ``(seconds, operators)``.
    ``working``, ``instances``: instances that worked, and all that were there (starting and stopping ones too),
    ``(seconds, operators)``.
    ``machines``, ``hosts``: machines that emitted, and hosts that were leased, ``(seconds,)``.
    """

    arrived: Values
    left: Values
    utilisation: Values
    slowness: Values
    working: Values
    instances: Values
    machines: Values
    hosts: Values

    def __len__(self) -> int:
        return len(self.machines)

    @property
    def queue(self) -> Values:
        """Data items that wait at the end of each second, ``(seconds, operators)``."""
        return np.asarray(self.arrived[1:] - self.left[1:])

    @property
    def processed(self) -> Values:
        """Data items that were begun in each second, ``(seconds, operators)``."""
        return np.asarray(np.diff(self.left, axis=0))


class Ledger:
    """Seconds in the order in which they pass, in arrays that grow."""

    def __init__(self, operators: int) -> None:
        self._count = 0
        self._wide = np.zeros((6, FIRST_SECONDS + 1, operators))  # arrived, left; utilisation, slowness, working, all
        self._narrow = np.zeros((2, FIRST_SECONDS + 1))

    def append(
        self,
        arrived: Values,
        left: Values,
        *,
        utilisation: Values,
        slowness: Values,
        working: Values,
        instances: Values,
        machines: float,
        hosts: int,
    ) -> None:
        """Add a second; the totals of what had come and was begun by its end, all else as in :class:`Course`."""
        at = self._count
        if at + 1 == self._narrow.shape[1]:
            self._wide = np.concatenate((self._wide, np.zeros_like(self._wide)), axis=1)
            self._narrow = np.concatenate((self._narrow, np.zeros_like(self._narrow)), axis=1)
        self._wide[0, at + 1], self._wide[1, at + 1] = arrived, left
        self._wide[2, at], self._wide[3, at] = utilisation, slowness
        self._wide[4, at], self._wide[5, at] = working, instances
        self._narrow[0, at], self._narrow[1, at] = machines, hosts
        self._count += 1

    def course(self) -> Course:
        """Return all seconds so far; the arrays are views."""
        totals, rest = self._wide[:2, : self._count + 1], self._wide[2:, : self._count]
        return Course(*totals, *rest, *self._narrow[:, : self._count])

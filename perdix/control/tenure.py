"""A lease at work: what its holder may write, and when it may ask a target.

A request must not leave after the lease is gone, nor be under way when it ends. So the lease is renewed at the last
moment before a request leaves, for longer than a request may take; and a holder that slept between the two sends
nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from perdix.control.clock import HostClock, moment
from perdix.control.lease import Lease, StaleLease, renew
from perdix.control.state.store import StateStore
from perdix.targets.contract import Guard, unguarded

CALL_S = 20.0  # that the lease lasts when a request leaves
REQUEST_S = 10.0  # of it, that the request may take
SHORTEST_S = 0.1


@dataclass(frozen=True)
class Tenure:
    """One tick's lease on one job."""

    store: StateStore
    lease: Lease
    clock: HostClock

    @property
    def fenced(self) -> StateStore:
        """The store, whose every write raises ``StaleLease`` once the lease was overtaken or released."""
        return self.store.under(self.lease)

    @contextmanager
    def asking(self, decision_id: str) -> Iterator[Guard]:
        """Yield what a target calls just before its request leaves; once it has answered, the lease ends as it would.

        Raises ``StaleLease``: from the guard: the lease was lost, or is about to be; nothing may be asked. From here:
        it was lost while the target was being asked.
        """
        granted = False

        def guard() -> None:
            nonlocal granted
            self._grant(decision_id)
            granted = True

        yield guard
        if granted:
            now = moment(self.clock)
            renew(self.store, self.lease, now, max(self.lease.deadline_s - now.elapsed_s, SHORTEST_S))

    def _grant(self, decision_id: str) -> None:
        asked = moment(self.clock)
        renew(self.store, self.lease, asked, max(self.lease.deadline_s - asked.elapsed_s, CALL_S))
        self.fenced.ledger.asked(decision_id, self.lease.token)
        took_s = self.clock.elapsed_s() - asked.elapsed_s
        if took_s > CALL_S - REQUEST_S:
            raise StaleLease(
                f"lease '{self.lease.name}' was renewed {took_s:.0f} s ago, too long to ask the target now"
            )


@contextmanager
def asking(tenure: Tenure | None, decision_id: str) -> Iterator[Guard]:
    """Yield the guard of a tenure; nothing is guarded where nobody else can be at work."""
    if tenure is None:
        yield unguarded
        return
    with tenure.asking(decision_id) as guard:
        yield guard

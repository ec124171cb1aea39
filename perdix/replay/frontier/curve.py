"""The frontier: the fewest worker-seconds at each share of late seconds.

A plan that is cheapest at some price of a late second lies on the lower convex hull of all plans. Between two of its
corners the hull is a line that no plan lies below; a plan on the line itself there may or may not be. So where the
frontier is read off between corners it is at most what is needed, never more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perdix.replay.frontier.known import Known
from perdix.replay.frontier.programme import Plan, Programme
from perdix.settings.stream_job import Bounds

DECISION_INTERVAL_S = 60
LARGEST = 86_400 * 24  # seconds times scale-outs: a day with 24, six hours with 96
REPORTED_AT = (0.01, 0.02, 0.05, 0.10)  # shares of late seconds at which it is reported
SOLVED = 24  # prices that are tried
DEAREST_LATE = 1e5  # worker-seconds per late second: lateness is avoided whatever it costs
LATEST = 0.3  # share of late seconds up to which corners are looked for first
ALMOST = 5e-4  # of the worker-seconds: a corner that is nearer to the line is none


def too_large(seconds: int, bounds: Bounds) -> bool:
    """Return whether a case is so long, or its scale-outs so many, that the frontier would take minutes."""
    return seconds * (bounds.maximum - bounds.minimum + 1) > LARGEST


@dataclass(frozen=True)
class Frontier:
    """The corners of the frontier of one case."""

    plans: tuple[Plan, ...]  # the less late the earlier; each needs fewer worker-seconds than those before it
    seconds: int  # length of the trace

    @property
    def least_late(self) -> float:
        """Share of late seconds of the plan that is late least, whatever it costs."""
        return self.plans[0].late_s / self.seconds

    def within(self, late: float) -> Plan:
        """Return the cheapest corner that is late in no larger share of the seconds; the least late where none is."""
        return max(self.plans, key=lambda plan: plan.late_s if plan.late_s <= late * self.seconds else -plan.late_s)

    def workers_at(self, late: float) -> float | None:
        """Return the fewest workers on average at a share of late seconds; ``None`` where no plan is late so rarely."""
        return None if late < self.least_late else self.worker_s_at(late) / self.seconds

    def worker_s_at(self, late: float) -> float:
        """Return the fewest worker-seconds at a share of late seconds, linearly between corners.

        Below the least lateness of any plan it is what that plan needs; above that of the cheapest, what that needs.
        """
        shares = [plan.late_s / self.seconds for plan in self.plans]
        return float(np.interp(late, shares, [plan.worker_s for plan in self.plans]))


def frontier(known: Known) -> Frontier:
    """Return the frontier of what is known."""
    programme = Programme.of(known, interval_s=DECISION_INTERVAL_S)
    plans = corners([programme.plan(DEAREST_LATE), programme.plan(0.0)])
    tried: set[tuple[Plan, Plan]] = set()
    for _ in range(SOLVED - 2):
        sides = [pair for pair in pairwise(plans) if pair not in tried]
        widest = max(sides, key=lambda pair: _gap(pair[0], pair[1], known.seconds), default=None)
        if widest is None:
            break
        tried.add(widest)
        more, less = widest
        between = programme.plan((more.worker_s - less.worker_s) / (less.late_s - more.late_s))
        plans = corners([*plans, between])
    return Frontier(tuple(plans), known.seconds)


def corners(plans: Sequence[Plan]) -> list[Plan]:
    """Return the plans on the lower convex hull of worker-seconds over late seconds, the least late first."""
    hull: list[Plan] = []
    for plan in sorted(plans, key=lambda plan: (plan.late_s, plan.worker_s)):
        if hull and plan.worker_s >= hull[-1].worker_s:
            continue
        while len(hull) > 1 and _line(hull[-2], plan, hull[-1].late_s) <= hull[-1].worker_s * (1.0 + ALMOST):
            hull.pop()
        hull.append(plan)
    return hull


def _line(left: Plan, right: Plan, late_s: float) -> float:
    return float(np.interp(late_s, [left.late_s, right.late_s], [left.worker_s, right.worker_s]))


def _gap(left: Plan, right: Plan, seconds: int) -> float:
    """Return how much there may be to find between two corners; little beyond :data:`LATEST`."""
    most_s = LATEST * seconds
    width = min(right.late_s, most_s) - min(left.late_s, most_s) + 1e-3 * (right.late_s - left.late_s)
    return width * (left.worker_s - right.worker_s)

"""Which hosts are leased when, for a course of hosts that are needed.

A host is leased when what is leased is not enough, its start-up time before it has to carry: a rescale is decided
before it takes place, and what is paid begins with the lease. From that moment on it is taken, so a host that stands by
then is used in place of a new one. Nothing before the course is billed: what is needed in its first moments was there.
Two rules say when an idle host is given back:

* ``at-once``: when it is empty, or ``delay_s`` later, as a cluster autoscaler does (that of Kubernetes waits ten
  minutes). The host that was leased last is emptied first.
* ``end-of-unit``: at the end of its running billing time unit, which is paid anyway; until then it is used again
  before anything is leased (Hochreiner et al., PeerJ CS 2018, "Minimize Resource Usage"). Emptied first is the host
  whose paid time ends first, so that those keep working that are paid longest.

Workers do not move between hosts while the job runs. They need not: the number of workers changes by a rescale only,
a rescale restarts every worker of a job, and a job that starts anew can be placed on any of the hosts. So each change
is a free re-packing, and between changes a host that carries goes on carrying. Leasing a unit only when all paid hosts
are taken, as ``end-of-unit`` does, buys the fewest units that cover the course: none can be bought later.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perdix.settings.prices import Billing
from perdix.telemetry.window import Values

Rule = Literal["at-once", "end-of-unit"]
Span = tuple[float, float]  # seconds from the start of the course: begin, end


@dataclass(frozen=True)
class Release:
    """When an idle host is given back."""

    rule: Rule = "at-once"
    delay_s: float = 0.0  # with ``at-once``: seconds for which a host must have been idle

    def __post_init__(self) -> None:
        if not self.delay_s >= 0:
            raise ValueError(f"the delay of a release must be 0 s or more, found {self.delay_s:g}")
        if self.delay_s and self.rule != "at-once":
            raise ValueError("a delay is for hosts that are released at once; at the end of a unit there is none")

    def __str__(self) -> str:
        """Return the rule in words."""
        if self.rule == "end-of-unit":
            return "released at the end of a unit"
        return f"released after {self.delay_s:g} s idle" if self.delay_s else "released at once"


@dataclass(frozen=True)
class Leases:
    """Leases of hosts of one type; all of shape ``(leases,)``, in the order in which they begin."""

    # begins_s, ends_s: seconds from the start of the course
    begins_s: Values
    ends_s: Values
    paid_s: Values  # seconds that are paid for each

    def hosts(self, seconds: int) -> Values:
        """Return how many hosts are leased on average in each second of the course, shape ``(seconds,)``."""
        edges = np.arange(seconds + 1, dtype=np.float64)
        if not len(self.begins_s):
            return np.zeros(seconds)
        leased_s = _leased_until(np.sort(self.begins_s), edges) - _leased_until(np.sort(self.ends_s), edges)
        return np.asarray(np.diff(leased_s))


def _leased_until(moments_s: Values, edges_s: Values) -> Values:
    """Return the integral of the number of moments that have passed, at each edge."""
    passed = np.searchsorted(moments_s, edges_s, side="right")
    summed = np.concatenate([[0.0], np.cumsum(moments_s)])
    return np.asarray(passed * edges_s - summed[passed])


def leases(
    starts_s: NDArray[np.int64],
    hosts: NDArray[np.int64],
    seconds: int,
    billing: Billing,
    *,
    start_up_s: float = 0.0,
    release: Release | None = None,
) -> Leases:
    """Return the leases that carry a course of hosts.

    Raises ``ValueError`` when a number of hosts is negative, or the starts do not rise within the course.

    ``starts_s``, ``hosts``: ``hosts[k]`` are needed from second ``starts_s[k]`` on until the next, or until
    ``seconds``.
    ``start_up_s``: from the lease of a host until it can carry, seconds.
    """
    release = release or Release()
    if len(starts_s) != len(hosts) or (len(hosts) and int(hosts.min()) < 0):
        raise ValueError("each start needs a number of hosts from 0 on")
    if len(starts_s) and ((np.diff(starts_s) <= 0).any() or starts_s[0] < 0 or starts_s[-1] >= seconds):
        raise ValueError(f"starts must rise from 0 on and lie before the end, {seconds} s")
    taken = _taken(starts_s, hosts, float(seconds), start_up_s, release.delay_s)
    spans = taken if release.rule == "at-once" else _until_paid(taken, float(seconds), billing)
    spans.sort()
    begins, ends = np.array(spans, dtype=np.float64).reshape(-1, 2).T
    paid = np.array([billing.paid_s(end - begin) for begin, end in spans], dtype=np.float64)
    return Leases(begins, ends, paid)


def _taken(
    starts_s: NDArray[np.int64], hosts: NDArray[np.int64], until_s: float, before_s: float, after_s: float
) -> list[Span]:
    """Return when each host is taken, last come first gone; joined where it is wanted again before it is gone."""
    waiting: list[float] = []  # when each host that carries began to, the oldest first
    levels: list[list[Span]] = []

    def free(at_s: float) -> None:
        begin = max(waiting.pop() - before_s, 0.0)
        mine = levels[len(waiting)]
        if mine and mine[-1][1] >= begin:
            begin = mine.pop()[0]
        mine.append((begin, min(at_s + after_s, until_s)))

    for at_s, count in zip(starts_s.tolist(), hosts.tolist(), strict=True):
        while len(waiting) > count:
            free(float(at_s))
        while len(waiting) < count:
            waiting.append(float(at_s))
            if len(levels) < len(waiting):
                levels.append([])
    while waiting:
        free(until_s)
    return [span for level in levels for span in level]


@dataclass
class _Leased:
    begin_s: float
    paid_until_s: float
    idle: bool = False


def _until_paid(taken: Iterable[Span], until_s: float, billing: Billing) -> list[Span]:
    """Return the leases that cover the hosts that are taken, where idle ones stay until their paid time ends."""
    leased: list[_Leased] = []
    over: list[Span] = []
    for at_s, count in _changes(taken):
        staying = []
        for lease in leased:
            if lease.idle and lease.paid_until_s < at_s:
                over.append((lease.begin_s, lease.paid_until_s))
                continue
            if not lease.idle:
                lease.paid_until_s = lease.begin_s + billing.paid_s(at_s - lease.begin_s)
            staying.append(lease)
        leased = sorted(staying, key=lambda lease: (-lease.paid_until_s, lease.idle, lease.begin_s))
        for rank, lease in enumerate(leased):
            lease.idle = rank >= count
        leased += [_Leased(at_s, at_s) for _ in range(count - len(leased))]
    return over + [(lease.begin_s, min(lease.paid_until_s, until_s)) for lease in leased]


def _changes(spans: Iterable[Span]) -> list[tuple[float, int]]:
    """Return ``(second, how many spans there are from then on)`` of each change, in order."""
    found = list(spans)
    if not found:
        return []
    moments = np.array([begin for begin, _ in found] + [end for _, end in found])
    steps = np.repeat([1, -1], len(found))
    at, which = np.unique(moments, return_inverse=True)
    counts = np.cumsum(np.bincount(which.ravel(), weights=steps)).astype(int).tolist()
    changes = list(zip(at.tolist(), counts, strict=True))
    return [changes[0], *(after for before, after in pairwise(changes) if before[1] != after[1])]

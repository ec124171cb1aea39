"""Fitting a parallelism to what there is: key groups or partitions that records are dealt out by, slots of a cluster.

With 128 key groups on 24 instances some hold 6 and some 5: the fullest decide. Flink's autoscaler looks upwards from
the target for a parallelism that spreads better; this is its rule (``scaling.parallelism-alignment.mode``). A cluster
may have room for fewer instances than wanted; then no operator is narrower than it must be.
"""

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perdix.models.dataflow.graph import Operator
from perdix.models.dataflow.optimal import HIGHEST

Mode = Literal["BALANCED", "EVENLY_SPREAD", "OFF"]


def aligned(target: int, current: int, operator: Operator, mode: Mode, most: int | None = None) -> int:
    """Return the instances to take for a computed ``target``.

    Upwards from the target (to ``current`` at most, when scaling in) the first is taken that every instance holds
    equally much at; ``BALANCED`` also takes the first at which the fullest holds less. Where there is none the target
    stays. An operator that is not dealt records by key groups or partitions is not aligned.

    ``most``: upper bound beside the operator's own maximum.
    """
    shares = operator.key_groups
    if mode == "OFF" or shares is None or target == current:
        return target
    cap = min(bound for bound in (shares, operator.maximum, most) if bound is not None)
    last = cap if target > current else min(current, cap)
    return first_even(shares, target, last, may_be_uneven=mode == "BALANCED") or target


def first_even(shares: int, target: int, last: int, *, may_be_uneven: bool) -> int | None:
    """Return the first parallelism from ``target`` to ``last`` that divides ``shares`` evenly, or ``None``.

    ``may_be_uneven`` also takes the first at which the lightest instance holds fewer shares than at the target.
    """
    for parallelism in range(max(target, 1), last + 1):
        lighter = may_be_uneven and shares // parallelism < shares // max(target, 1)
        if shares % parallelism == 0 or lighter:
            return parallelism
    return None


TOLERANCE = 1e-9  # relative: a share of instances that was divided and multiplied again


@dataclass(frozen=True)
class Fitted:
    """Operator -> instances that there is room for, and in words what was given up; ``None``: nothing was."""

    parallelism: Mapping[str, int]
    reason: str | None = None


def fitted_to_slots(
    wanted: Mapping[str, int],
    unrounded: Mapping[str, float],
    slots: int | None,
    *,
    shared: bool,
    least: Mapping[str, int] | None = None,
) -> Fitted:
    """Reduce what is wanted to what ``slots`` can hold.

    Instances are given to the operator that would let the smallest share of its load through, one after the other,
    for as long as there is room; what no longer widens the narrowest place is not taken. Operators that were not
    sized (sources, and what could not be measured) keep what is wanted of them.

    Raises ``ValueError`` when there is no slot at all.

    ``wanted``: operator -> instances.
    ``unrounded``: operator -> instances that its load takes, a fraction; of the operators that may be reduced.
    ``shared``: whether a slot holds an instance of every operator, so that the largest operator alone has to fit.
    Otherwise every instance takes a slot.
    ``least``: operator -> instances that it keeps where fewer would do; 1 of those that are missing.
    """
    if slots is None or _taken(wanted, shared=shared) <= slots:
        return Fitted(dict(wanted))
    if slots < 1:
        raise ValueError(f"{slots} slots; give 1 or more, or none where there is no limit")
    needs = {name: min(unrounded[name], HIGHEST) for name in wanted if unrounded.get(name, 0.0) > 0}
    kept = {name: n for name, n in wanted.items() if name not in needs}
    least = {name: min((least or {}).get(name, 1), wanted[name]) for name in needs}
    if shared:
        given = {name: max(min(wanted[name], slots), least[name]) for name in needs}
    else:
        given = _dealt(wanted, needs, least, slots - sum(kept.values()))
    share = min((given[name] / need for name, need in needs.items()), default=1.0)
    enough = {name: max(least[name], math.ceil(share * need * (1 - TOLERANCE))) for name, need in needs.items()}
    found = kept | {name: min(given[name], enough[name]) for name in needs}
    return Fitted({name: found[name] for name in wanted}, _reason(wanted, found, needs, slots, shared=shared))


def _taken(parallelism: Mapping[str, int], *, shared: bool) -> int:
    return max(parallelism.values(), default=0) if shared else sum(parallelism.values())


def _dealt(
    wanted: Mapping[str, int], needs: Mapping[str, float], least: Mapping[str, int], room: int
) -> dict[str, int]:
    """Give instances one by one to the operator that lets the smallest share of its load through."""
    given = dict(least)
    left = room - sum(given.values())
    narrowest = [(given[name] / need, name) for name, need in needs.items()]
    heapq.heapify(narrowest)
    while left > 0 and narrowest:
        name = narrowest[0][1]
        if given[name] >= wanted[name]:
            break  # the narrowest has all that it wants: more elsewhere lets nothing more through
        given[name] += 1
        left -= 1
        heapq.heapreplace(narrowest, (given[name] / needs[name], name))
    return given


def _reason(
    wanted: Mapping[str, int], found: Mapping[str, int], needs: Mapping[str, float], slots: int, *, shared: bool
) -> str:
    takes, asked = _taken(found, shared=shared), _taken(wanted, shared=shared)
    if takes > slots:
        return f"{slots} slots are too few: {takes} are needed at the least; add slots or share them"
    narrowest = min(needs, key=lambda name: (found[name] / needs[name], -needs[name]), default=None)
    if narrowest is None:
        return f"{asked} slots are wanted, {slots} are there"
    share = min(1.0, found[narrowest] / needs[narrowest])
    return (
        f"{asked} slots are wanted, {slots} are there: {narrowest} is the narrowest place and lets "
        f"{100 * share:.3g} % of its load through"
    )

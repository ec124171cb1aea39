"""Fitting a parallelism to what records are dealt out by: the key groups of an operator, the partitions of a source.

With 128 key groups on 24 instances some hold 6 and some 5: the fullest decide. Flink's autoscaler looks upwards from
the target for a parallelism that spreads better; this is its rule (``scaling.parallelism-alignment.mode``).
"""

from typing import Literal

from perdix.models.dataflow.graph import Operator

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

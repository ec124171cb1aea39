"""Which policy a replay recommends: what each costs and how often it is late, weighed against the best fixed size.

Belongs here: the rule, and the sentences that say what it came to. A policy that costs more than the best fixed size,
or does not hold the objective where that does, is beaten by a number in a YAML file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdix.replay.case import BEST_STATIC
from perdix.settings.counting import counted, in_few_digits
from perdix.settings.stream_job import Objectives

AS_MUCH = 0.005  # costs that differ by less are called the same


@dataclass(frozen=True)
class Side:
    """What one policy came to, over its seeds."""

    policy: str
    cost: float  # what is compared: worker-seconds or money, mean over seeds
    workers: tuple[float, float, float]  # mean, least and greatest over the seeds of the average workers
    # late, late_most: share of the seconds above the objective: mean over seeds, and with the worst of them
    late: float
    late_most: float
    unprocessed: float  # records that were left, with the worst seed
    held: bool  # whether the objective was held with every seed that was asked for
    failed: int = 0  # seeds with which its replay did not come to its end: nothing else here counts them


@dataclass(frozen=True)
class Weighed:
    """What the rule came to."""

    # The cheapest that held the objective, the best fixed size among them; where nothing held it, what comes nearest.
    # ``None``: nothing came to its end
    recommended: Side | None
    nearest: Side | None  # the policy that comes nearest to the objective, where no policy held it
    beaten: tuple[Side, ...]  # policies that the best fixed size beats


def weigh(policies: Sequence[Side], fixed: Side | None) -> Weighed:
    """Weigh the policies against the best fixed size; ``None`` where there is none.

    A policy that costs as much as the best fixed size is preferred to it: that one is known only afterwards.
    """
    beaten = () if fixed is None else tuple(policy for policy in policies if is_beaten(policy, fixed))
    holding = [policy for policy in policies if policy.held]
    nearest = None if holding else min(policies, key=_distance, default=None)
    stand = [verdict for verdict in holding if verdict not in beaten]
    if stand:
        return Weighed(min(stand, key=lambda verdict: verdict.cost), nearest, beaten)
    sides = [*policies, *([] if fixed is None else [fixed])]
    chosen = fixed if fixed is not None and fixed.held else min(sides, key=_distance, default=None)
    return Weighed(chosen, nearest, beaten)


def is_beaten(policy: Side, fixed: Side) -> bool:
    """Return whether a policy costs more than the best fixed size, or is late more often although it should not be.

    A fixed size that does not hold the objective itself beats only what is late more often, or as often for more.
    """
    dearer = policy.cost > (1.0 + AS_MUCH) * fixed.cost
    if fixed.held:
        return not policy.held or dearer
    if policy.held or _distance(policy)[:3] < _distance(fixed)[:3]:
        return False
    return policy.late > fixed.late or dearer


def _distance(side: Side) -> tuple[float, float, float, float]:
    return side.failed, side.late, side.unprocessed, side.cost


def recommendation(
    summaries: Sequence[Mapping[str, Any]],
    objectives: Objectives,
    *,
    currency: str | None = None,
    seeds: int | None = None,
) -> dict[str, Any]:
    """Return ``policy`` (``best-static``: a fixed size), ``held``, the labels that are ``beaten``, and a ``sentence``.

    ``summaries``: the document's ``summary``.
    ``currency``: of the costs, which are then compared in place of the worker-seconds; empty: they are in any currency.
    ``seeds``: with how many each was to be played; ``None``: as many as came to their end.
    """
    cost = "worker_seconds" if currency is None else "cost"
    sides = [
        _side(summary, cost, summary["seeds"] if seeds is None else seeds) for summary in summaries if summary["seeds"]
    ]
    fixed = next((side for side in sides if side.policy == BEST_STATIC), None)
    policies = [side for side in sides if side.policy != BEST_STATIC]
    weighed = weigh(policies, fixed)
    chosen = weighed.recommended
    return {
        "policy": None if chosen is None else chosen.policy,
        "held": None if chosen is None else chosen.held,
        "beaten": [verdict.policy for verdict in weighed.beaten],
        "sentence": _Words(_objective(objectives), currency).all(policies, fixed, weighed),
    }


def _side(summary: Mapping[str, Any], cost: str, seeds: int) -> Side:
    workers = summary["average_workers"]
    return Side(
        policy=str(summary["policy"]),
        cost=float(summary[cost]["mean"]),
        workers=(workers["mean"], workers["min"], workers["max"]),
        late=float(summary["share_above_objective"]["mean"]),
        late_most=float(summary["share_above_objective"]["max"]),
        unprocessed=float(summary["unprocessed"]["max"]),
        held=summary["held"] == seeds,
        failed=seeds - summary["seeds"],
    )


def _objective(objectives: Objectives) -> str:
    return (
        f"the objective (p95 latency above {objectives.latency_p95_ms / 1000:g} s in at most "
        f"{100 * objectives.error_budget:g} % of the seconds, nothing left unprocessed)"
    )


@dataclass(frozen=True)
class _Words:
    """How the rule's result is said."""

    objective: str
    currency: str | None

    def all(self, policies: Sequence[Side], fixed: Side | None, weighed: Weighed) -> str:
        chosen = weighed.recommended
        if chosen is None:
            return ""
        nearest = weighed.nearest if weighed.nearest is not chosen else None
        rest = [policy for policy in policies if policy is not chosen and policy is not nearest]
        unbeaten = [verdict for verdict in rest if verdict not in weighed.beaten]
        lists = (
            ("Also held", [verdict for verdict in unbeaten if verdict.held], chosen),
            (f"Beaten by {BEST_STATIC}", [verdict for verdict in rest if verdict in weighed.beaten], fixed or chosen),
            ("Not held", [verdict for verdict in unbeaten if not verdict.held], chosen),
        )
        sentences = [self._first(chosen, fixed)]
        if nearest is not None:
            sentences.append(f"No policy held it; the nearest is {self._beside(nearest, chosen, named=True)}.")
        for head, sides, other in lists:
            if sides:
                sentences.append(f"{head}: {'; '.join(self._beside(side, other) for side in sides)}.")
        return " ".join(sentences)

    def _first(self, chosen: Side, fixed: Side | None) -> str:
        if chosen.policy == BEST_STATIC and chosen.held:
            return (
                f"Recommended: a fixed size. {self._kept(chosen)}, kept all the time ({BEST_STATIC}, known only "
                f"afterwards), held {self.objective}: {_late(chosen)}."
            )
        if not chosen.held:
            return f"Nothing held {self.objective}. {self._nearest(chosen, fixed)}."
        held = f"Recommended: {chosen.policy}. It held {self.objective} with {self._needs(chosen)}, {_late(chosen)}"
        if fixed is None:
            return f"{held}."
        if not fixed.held:
            return f"{held}. No fixed size holds it: {self._kept(fixed)} ({BEST_STATIC}), {_late(fixed)}."
        size = f"{self._kept(fixed)} ({BEST_STATIC}, known only afterwards)"
        return f"{held}; that is {' '.join(_compared(chosen, fixed))} the best fixed size, {size}, {_late(fixed)}."

    def _nearest(self, chosen: Side, fixed: Side | None) -> str:
        if fixed is None:
            return f"{chosen.policy} comes nearest: {_late(chosen)}, with {self._needs(chosen)}"
        least = f"{self._kept(fixed)} kept all the time ({BEST_STATIC}), {_late(fixed)}"
        if chosen is fixed:
            return f"The best fixed size comes nearest: {least}"
        nearest = f"{chosen.policy} comes nearest: {_late(chosen)}, with {self._needs(chosen)}"
        return f"{nearest}. The fixed size that is late least: {least}"

    def _beside(self, side: Side, other: Side, *, named: bool = False) -> str:
        """Return what one needs, how much more that is than the other needs, and how late it is unless it held."""
        difference, than = _compared(side, other)
        needs = f"{side.policy} with {self._needs(side)}, {difference}"
        if named:
            needs += f" {than} {other.policy}"
        return needs if side.held else f"{needs}, {'but' if side.cost < other.cost else 'and'} {_late(side)}"

    def _needs(self, side: Side) -> str:
        return self._priced(side, f"{_workers(side.workers[0])} on average")

    def _kept(self, fixed: Side) -> str:
        _, least, most = fixed.workers
        by_seed = f"{in_few_digits(least)} to {_workers(most)} (as the seed has it)"
        return self._priced(fixed, _workers(most) if least == most else by_seed)

    def _priced(self, side: Side, workers: str) -> str:
        if self.currency is None:
            return workers
        return f"{workers} for {in_few_digits(side.cost)} {self.currency}".rstrip()


def _late(side: Side) -> str:
    mean, most = f"{100 * side.late:.1f} %", f"{100 * side.late_most:.1f} %"
    share = f"late in {mean} of the seconds"
    if not side.held and most != mean:
        share += f" ({most} with the worst seed)"
    if side.unprocessed > 0:
        share += f", {side.unprocessed:,.0f} records left"
    if side.failed:
        share += f", failed with {counted(side.failed, 'seed')}"
    return share


def _compared(side: Side, other: Side) -> tuple[str, str]:
    """Return how much more or less one costs, and the word that leads on to the other."""
    if other.cost <= 0 < side.cost:
        return "more", "than"
    share = side.cost / other.cost - 1.0 if other.cost > 0 else 0.0
    if abs(share) < AS_MUCH:
        return "as much", "as"
    return f"{100 * abs(share):.0f} % {'more' if share > 0 else 'less'}", "than"


def _workers(count: float) -> str:
    return "1 worker" if count == 1 else f"{in_few_digits(count)} workers"

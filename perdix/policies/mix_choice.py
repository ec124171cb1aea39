"""From a plan of mixes to a decision, and to its sentence."""

import math
from dataclasses import replace

import numpy as np

from perdix.models.mixes.problem import Mixes
from perdix.models.mixes.qcesa import MixPlan
from perdix.policies.contract import Candidate, Decision, Reason, Situation
from perdix.policies.holding import hold
from perdix.policies.mix_problem import Horizon, MixOptions
from perdix.policies.wording import per_s, records, seconds, workers

TOLD = 6  # candidates that a decision lists
EQUAL = 1e-9  # plans whose costs differ by no more than rounding
BLIND = "the consumer lag is not measured, so there is no scaling in."


class MixChoice:
    """One plan, and what is made of it."""

    def __init__(
        self, policy: str, situation: Situation, horizon: Horizon, found: MixPlan, options: MixOptions
    ) -> None:
        self.policy, self.situation, self.horizon = policy, situation, horizon
        self.plan, self.options = found, options
        self.problem = found.problem
        self.begin, self.best = self.problem.begin, _strongest_of_equals(found)

    def decision(self, assumed: str = "") -> Decision:
        """Return the first mix of the plan, or the hold that says why what runs stays.

        ``assumed`` says what was taken for granted about what runs.
        """
        decided = self._decided()
        return replace(decided, sentence=f"{decided.sentence}{assumed}{self._notes()}")

    def _decided(self) -> Decision:
        if self.situation.lag_records is None and self._takes_away():
            return self._kept(Reason.HOLD_BLIND, f"{self._carried(self.best)} would do; {BLIND}")
        if self.plan.shortfall_per_s[0] > 0:
            return self._chosen(Reason.SCALE_MAXIMUM, self._not_carried())
        if (self.best == self.begin).all():
            reason = Reason.HOLD_GOOD if self.situation.lag_records is not None else Reason.HOLD_BLIND
            said = "" if reason is Reason.HOLD_GOOD else f" No less is considered: {BLIND}"
            return self._kept(reason, f"{self._carried(self.begin)}: {self._cheapest()}.{said}")
        saved = self.plan.cost_of_keeping() - self.plan.costs.total
        return self._chosen(self._reason(), f"{self._carried(self.best)}: {self._cheapest()}; {self._instead(saved)}.")

    def _takes_away(self) -> bool:
        sizes = self.problem.sizes
        fewer = int(self.best.sum()) < self.situation.scale_out
        return fewer or bool((self.best - self.begin) @ sizes.per_s < 0)

    def _reason(self) -> Reason:
        before, after = int(self.begin.sum()), int(self.best.sum())
        if before != after:
            return Reason.of_change(before, after)
        return Reason.SCALE_OUT if (self.best - self.begin) @ self.problem.sizes.per_s > 0 else Reason.SCALE_IN

    def _kept(self, reason: Reason, sentence: str) -> Decision:
        held = hold(self.policy, self.situation, reason, sentence, candidates=self._candidates(self.begin))
        return replace(held, mix=self.situation.mix)

    def _chosen(self, reason: Reason, sentence: str) -> Decision:
        return Decision(
            self.policy,
            int(self.best.sum()),
            reason,
            sentence,
            self._candidates(self.best),
            memory=self.situation.memory,
            mix=self._mix(self.best),
        )

    def _candidates(self, taken: Mixes) -> tuple[Candidate, ...]:
        """Return the cheapest first mixes, dearest first, and what is taken last."""
        cheapest, examined = float(self.plan.costs.total), []
        for mix, cost in zip(self.plan.first[:TOLD], self.plan.first_costs[:TOLD].tolist(), strict=True):
            if (mix != taken).any():
                examined.append(
                    self._candidate(mix, f"its best plan costs {_money(cost)}, the cheapest {_money(cheapest)}")
                )
        return (*reversed(examined), self._candidate(taken, None))

    def _candidate(self, mix: Mixes, rejected_by: str | None) -> Candidate:
        rate = float(mix @ self.problem.sizes.per_s)
        return Candidate(int(mix.sum()), rate, None, rejected_by, self._mix(mix))

    def _mix(self, mix: Mixes) -> dict[str, int]:
        return {name: int(count) for name, count in zip(self.problem.sizes.names, mix, strict=True) if count}

    def _named(self, mix: Mixes) -> str:
        return workers(int(mix.sum()), self._mix(mix)) if mix.any() else "no workers"

    def _carried(self, mix: Mixes) -> str:
        rate = float(mix @ self.problem.sizes.per_s)
        price = float(mix @ self.problem.sizes.running) * 3_600.0 / self.horizon.epoch_s
        unit = "cores" if self.horizon.by_cores else "per hour"
        wanted, lag = float(self.problem.levels_per_s[0]), self.situation.lag_records or 0.0
        free = self.horizon.first_per_s / (1.0 - self.options.headroom)
        why = f"and {records(lag)} of lag" if wanted > free * (1.0 + 1e-9) and lag else "with head-room"
        within, first = seconds(self.horizon.epoch_s), per_s(self.horizon.first_per_s)
        asked = f"{per_s(wanted)} asked for within {within} ({first} {why})"
        if self.horizon.staying:
            asked = f"{first} of the next {within}, with less head-room than a change would bring"
        return f"{self._named(mix)} ({per_s(rate)}, {_money(price)} {unit}) carry the {asked}"

    def _cheapest(self) -> str:
        costs, length = self.plan.costs, seconds(self.horizon.length_s)
        sure = "the first of the cheapest plan" if self.plan.exact else "the first of a good plan"
        off = "" if self.plan.exact else f", at most {self.plan.gap:.1%} above the cheapest"
        if self.plan.dearer:
            sure = "the first of the cheapest plan with the smallest size alone"
            off = f", {self.plan.dearer:.1%} above the cheapest, as small workers can be stopped one by one"
        return (
            f"{sure} for {length} ({_money(costs.total)}: running {_money(costs.running)}, "
            f"starts {_money(costs.starts)}, stops {_money(costs.stops)}, changes {_money(costs.changes)}{off})"
        )

    def _instead(self, saved: float) -> str:
        if math.isinf(saved):
            rate = float(self.begin @ self.problem.sizes.per_s)
            why = "would not" if self.problem.allows(self.begin) else "are not allowed"
            return f"{self._named(self.begin)} ({per_s(rate)}) {why}"
        return f"to keep {self._named(self.begin)} would cost {_money(saved)} more"

    def _not_carried(self) -> str:
        rate, wanted = float(self.best @ self.problem.sizes.per_s), float(self.problem.levels_per_s[0])
        return (
            f"No mix within the bounds carries the {per_s(wanted)} asked for; {self._named(self.best)} ({per_s(rate)}) "
            "have the greatest performance."
        )

    def _notes(self) -> str:
        names = self.problem.sizes.names
        used = [name for name, count in zip(names, self.best, strict=True) if count]
        guessed = [name for name in used if self.situation.sizes[name].extrapolated]
        said = f" The performance of {', '.join(guessed)} is extrapolated: no more than a guess." if guessed else ""
        free = " Every size is free, so cores stand for prices." if self.horizon.by_cores else ""
        return f"{said}{free}"


def _strongest_of_equals(found: MixPlan) -> Mixes:
    """Return, of the first mixes of plans that cost the same, that of the greatest performance, with fewest workers."""
    equals = found.first[found.first_costs <= found.first_costs[0] + EQUAL * abs(found.first_costs[0])]
    same = (equals == found.problem.begin).all(axis=1)
    if same.any():
        return found.problem.begin
    best = np.lexsort((equals.sum(axis=1), -(equals @ found.problem.sizes.per_s)))[0]
    return np.asarray(equals[best])


def _money(value: float) -> str:
    return f"{value:,.3g}" if math.isfinite(value) else "an infinite amount"

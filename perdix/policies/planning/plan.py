"""What was planned, as the decision that follows from it: sentence, candidates, and the stages as a table.

Belongs here: how a plan explains itself. Does not belong here: choosing one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdix.policies.contract import Candidate, Decision, Planned, Reason, Situation
from perdix.policies.planning.course import Course
from perdix.policies.planning.programme import Programme, Sizes, Stage
from perdix.policies.standing_still import LEAST_MINUTES
from perdix.policies.wording import LITTLE_S, per_s, seconds, workers

SETTLED_S = 300.0  # after a rescale: latency reflects the size that runs
RISES = 1.02  # times the present load: less is no rise to speak of


@dataclass(frozen=True)
class Limits:
    """What no plan goes below and none beyond, and what is gone to from more that no plan needs; workers."""

    at_least: float
    enough: float
    stood_at: float = 0.0  # the fixed size that did better than plans; 0 where none did


@dataclass(frozen=True)
class Plan:
    """What was planned at one tick."""

    sizes: Sizes
    course: Course
    found: Programme
    # runs, chosen: index of what runs, and of what is gone to, among the sizes
    runs: int
    chosen: int
    stages: tuple[Stage, ...]  # the plan from ``chosen`` on
    budget_left: float  # share of the error budget
    limits: Limits
    tries: bool  # whether nothing is believed to hold, and another size is more likely to
    beyond: bool  # whether no size catches up within the course, and what is chosen takes the most

    def decision(self, policy: str, situation: Situation, memory: Mapping[str, Any]) -> Decision:
        """Return the decision to take its first step."""
        return Decision(
            policy,
            int(self.sizes.workers[self.chosen]),
            self._reason,
            self._sentence(situation),
            self._candidates(situation),
            memory=memory,
            plan=self._table(),
            budget_left=self.budget_left,
        )

    @property
    def _stands(self) -> bool:
        return self.limits.at_least > 0.0

    @property
    def _reason(self) -> Reason:
        if self.tries or (self.beyond and self.chosen != self.runs):
            return Reason.SCALE_MAXIMUM
        before, after = (int(self.sizes.workers[k]) for k in (self.runs, self.chosen))
        reason = Reason.of_change(before, after)
        return Reason.HOLD_FIXED if self._stands and reason is Reason.HOLD_GOOD else reason

    def _sentence(self, situation: Situation) -> str:
        now_per_s, highest = situation.workload_per_s, float(self.course.per_s.max())
        minutes, goes_to = round(self.course.whole_s / 60.0), workers(int(self.sizes.workers[self.chosen]))
        goes = f"The load rises from {per_s(now_per_s)} to {per_s(highest)} within {minutes} minutes"
        if highest <= RISES * now_per_s or per_s(highest) == per_s(now_per_s):
            goes = f"The load stays at {per_s(max(highest, now_per_s))} or below for {minutes} minutes"
        late = f"{goes_to} would be late for {seconds(float(self.found.late_s[self.chosen]))} of it"
        against = f", {workers(situation.scale_out)} for {seconds(float(self.found.late_s[self.runs]))}"
        if not situation.bounds.minimum <= situation.scale_out <= situation.bounds.maximum:
            than = "more" if situation.scale_out > situation.bounds.maximum else "fewer"
            against = f"{against}, which is {than} than the bounds allow"
        compared = against if self.chosen != self.runs else ""
        tries = f"; no size is sure to catch up, {goes_to} most likely" if self.tries else ""
        if self.beyond:
            takes = "takes" if int(self.sizes.workers[self.chosen]) == 1 else "take"
            tries = f"; no size catches up within it, {goes_to} {takes} the most"
        left = f"{self.budget_left:.0%} of the error budget is left"
        if self.budget_left < 0.0:
            left = "the error budget is overspent"
        rival = self._not_below if self._stands else self._better
        ends = f"; {rival}." if rival else "."
        return f"{goes}; {late}{compared}{tries}; {left}{ends}{self._slow_by_itself(situation)}"

    def _slow_by_itself(self, situation: Situation) -> str:
        """Return in words that the latency is above its objective although the workers keep up, where that is so."""
        is_ms, objective_ms = situation.latency_p95_ms, situation.objectives.latency_p95_ms
        late_s = max(float(self.found.late_s[self.chosen]), float(self.found.late_s[self.runs]))
        if is_ms is None or not is_ms > objective_ms or not late_s < LITTLE_S:
            return ""
        if situation.since_rescale_s <= SETTLED_S or situation.behind:  # it may be what a rescale left
            return ""
        above = f"The p95 latency is {is_ms:,.0f} ms, above the objective of {objective_ms:,.0f} ms"
        return f" {above}, which more workers would not change: raise objectives.latency_p95_ms."

    @property
    def _not_below(self) -> str:
        return f"not below {self.limits.at_least:.0f}, which did better than the plans for hours"

    @property
    def _better(self) -> str:
        """In words, that fewer workers did better than the plans; empty where that is not why those are gone to."""
        chosen, runs = (int(self.sizes.workers[k]) for k in (self.chosen, self.runs))
        dearer = float(self.found.go[self.chosen]) > float(self.found.stay[self.runs])
        for_that = dearer and not (self.tries or self.beyond or self.sizes.barred[self.runs])
        gone_to = for_that and runs > chosen >= self.limits.stood_at > 0.0
        return f"{self.limits.stood_at:.0f} did better than the plans for hours" if gone_to else ""

    def _candidates(self, situation: Situation) -> tuple[Candidate, ...]:
        costs = self.found.go.copy()
        costs[self.runs] = self.found.stay[self.runs]
        more_h = ((costs - costs[self.chosen]) / 3_600.0).tolist()
        sizes = zip(self.sizes.workers.tolist(), self.sizes.per_s.tolist(), more_h, strict=True)
        return tuple(
            Candidate(n, takes, None, None if k == self.chosen else self._rejected(situation, k, more))
            for k, (n, takes, more) in enumerate(sizes)
        )

    def _rejected(self, situation: Situation, place: int, more: float) -> str:
        """Return in words why a size is not gone to, whose plan costs this many worker-hours more."""
        if place == self.runs and situation.bounds.clamp(situation.scale_out) != situation.scale_out:
            return "the bounds do not allow it"
        if place == self.runs and more < 0.0:  # left although it costs less
            return self._better or "it would not catch up"
        if math.isfinite(more):
            return f"its plan costs {more:.2f} worker-hours more" if more >= 0.0 else _too_little(situation, -more)
        if self.sizes.workers[place] < situation.scale_out:
            return self._not_below
        return f"more than {self.limits.enough:.0f} were not needed for hours"

    def _table(self) -> tuple[Planned, ...]:
        course = self.course
        rows = zip(course.begins_s.tolist(), course.lasts_s.tolist(), course.per_s.tolist(), self.stages, strict=True)
        return tuple(
            Planned(after_s, load, stage.workers, min(stage.late_s / lasts_s, 1.0), stage.cost, lasts_s)
            for after_s, lasts_s, load, stage in rows
        )


def _too_little(situation: Situation, saved_h: float) -> str:
    """Return in words why a size is not gone to although its plan costs this many worker-hours less."""
    if situation.known_minutes < LEAST_MINUTES:
        return "the job is known for less than an hour, so there is no scaling in"
    if situation.lag_records is None:
        return "the consumer lag is not measured, so there is no scaling in"
    return f"its plan saves {saved_h:.2f} worker-hours, too little for a rescale now"

"""What the policy remembers from tick to tick: the budget that was spent, and what was learned of sizes and loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from perdix.policies.contract import Situation
from perdix.policies.late_at import LateAt
from perdix.policies.pace import Pace
from perdix.policies.planning.budget import Spent
from perdix.policies.planning.lateness import Lateness
from perdix.policies.planning.plan import SETTLED_S
from perdix.policies.planning.rival import Rival
from perdix.policies.planning.stays import Outgrown, Stays
from perdix.policies.remembering import number, part_of
from perdix.policies.standing_still import LEAST_MINUTES
from perdix.settings.durations import MINUTE_S
from perdix.settings.replacing import replace

HARDLY_BUSY = 0.5  # of the capacity: what is late below, with nothing waiting, is not so for want of workers
STOPS_S = 600.0  # between two looks that count as seen: meanwhile the job may have stood still


@dataclass(frozen=True)
class Memory:
    """What is remembered."""

    spent: Spent
    rival: Rival
    # behind_s, caught_up_s: epoch seconds when more than a little waited last, and when what waited was worked off at
    # the most workers; ``None``: never
    behind_s: float | None
    caught_up_s: float | None
    lateness: Lateness
    stays: Stays
    outgrown: Outgrown
    late_at: LateAt
    pace: Pace

    @classmethod
    def looked(cls, situation: Situation) -> Self:
        """Return what is remembered after a look at a situation, and what its memory holds."""
        waits, lag, longest_s = situation.behind, situation.lag_records, max(10.0 * situation.tick_interval_s, STOPS_S)
        spent = Spent.of_memory(situation.memory)
        measured = _late_since(situation, spent.at_s, longest_s)
        late = float(waits) if measured is None else measured
        here = situation.capacities.get(situation.scale_out)
        settled = situation.since_rescale_s > SETTLED_S and lag is not None and not waits
        known = here is not None and here.usable
        busy = situation.workload_per_s / here.per_s if here is not None and known else situation.cpu_load or 1.0
        curable = not settled or busy > HARDLY_BUSY
        budget, stays_s = situation.objectives.error_budget, situation.since_rescale_s
        at_most = situation.scale_out >= situation.bounds.maximum and stays_s > SETTLED_S
        caught_up_s = part_of(situation.memory.get("caught_up_s"), number)
        if at_most and (not waits or busy >= 1.0):
            caught_up_s = situation.now_s
        # What the most workers still catch up with waited before they ran: fewer were too few.
        at_most &= caught_up_s is not None and caught_up_s > situation.now_s - stays_s
        # Of scrapes that are longer apart than ticks most ticks show nothing new: then they are counted together.
        counts = spent.at_s is None or situation.seen_late.ended(spent.at_s)
        if counts:
            spent = spent.counted(situation.now_s, late, budget, longest_s=longest_s, curable=curable and not at_most)
        behind_s = situation.now_s if waits else part_of(situation.memory.get("behind_s"), number)
        lateness = Lateness.of_memory(situation.memory)
        stays, outgrown = Stays.of_memory(situation.memory), Outgrown.of_memory(situation.memory)
        outgrown = outgrown.looked(situation.now_s, stays.scale_out, situation.scale_out, situation.workload_per_s)
        rescaled = stays.scale_out not in {None, float(situation.scale_out)}
        pace = Pace.of_memory(situation.memory).looked(situation.now_s, rescaled=rescaled)
        stays = stays.looked(situation.now_s, situation.scale_out)
        if settled and measured is not None and known:
            lateness = lateness.seen(busy, late, situation.tick_interval_s / MINUTE_S)
        rival = Rival.of_memory(situation.memory)
        if situation.known_minutes < LEAST_MINUTES:  # while nothing may be given back, it says nothing against plans
            rival = replace(rival, at_s=situation.now_s)
        elif counts:
            rival = rival.counted(situation.now_s, situation.scale_out, late, longest_s=longest_s)
        at_this_size = curable * late if stays_s > SETTLED_S else None
        late_at = LateAt.of_memory(situation.memory)
        if counts:
            late_at = late_at.counted(situation.now_s, situation.scale_out, at_this_size, longest_s=longest_s)
        return cls(spent, rival, behind_s, caught_up_s, lateness, stays, outgrown, late_at, pace)

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state."""
        return {name: part.to_state() if hasattr(part, "to_state") else part for name, part in vars(self).items()}


def _late_since(situation: Situation, counted_s: float | None, longest_s: float) -> float | None:
    """Return the share of the time since the last count that was late; ``None`` where the latency is not measured.

    While a rescale is under way no policy is asked, and the job stands still: that time is looked at afterwards.
    """
    last_s = situation.now_s - situation.tick_interval_s
    return situation.seen_late.share(max(min(counted_s or last_s, last_s), situation.now_s - longest_s))

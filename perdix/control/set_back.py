"""What is remembered after a clock that was ahead is set back: nothing of what was seen after now."""

from dataclasses import replace

from perdix.control.clock import CLOCK_BACK_S
from perdix.control.job_memory import JobMemory
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.trust import Trust
from perdix.policies.holding import AHEAD_S


def until(memory: JobMemory, now_s: float) -> JobMemory:
    """Return what was seen up to now, so that what comes is not taken for known until it is as late as it was.

    What policies remember is of no use: nobody can say how long ago it was.
    """
    champion, watching = memory.champion, memory.watching
    forecasters = (memory.fallback, None if champion is None else champion.forecaster)
    ends_s = [part.end_s for part in (memory.workload, memory.minutes, *forecasters) if part is not None]
    ends_s += [item.newest_s for item in memory.rejected.of.values()]  # of a load that cannot be, all that there is
    if max(ends_s, default=now_s) <= now_s + AHEAD_S:
        return memory
    if champion is not None:
        champion = replace(champion, forecaster=champion.forecaster.until(now_s))
    return replace(
        memory,
        workload=_tail(memory.workload, now_s),
        minutes=_tail(memory.minutes, now_s),
        champion=champion,
        fallback=None,
        newest=tuple(part for part in memory.newest if part.end_s <= now_s),
        trust=_trust(memory.trust, now_s),
        further_trust=_trust(memory.further_trust, now_s),
        drift=memory.drift.promoted(memory.drift.horizon.expected),
        scored_until_s=min(memory.scored_until_s, now_s),
        capacity=memory.capacity.until(now_s),
        profile_learned_s=min(memory.profile_learned_s, now_s),
        normal=replace(memory.normal, newest_s=min(memory.normal.newest_s, now_s)),
        watching=None if watching is None or watching.watch.at_s > now_s + CLOCK_BACK_S else watching,
        policy_memory={},
        rejected=memory.rejected.until(now_s),
    )


def _tail(tail: Tail | None, now_s: float) -> Tail | None:
    return None if tail is None or tail.start_s >= now_s else tail.until(now_s)


def _trust(trust: Trust, now_s: float) -> Trust:
    return replace(trust, made=tuple(forecast for forecast in trust.made if forecast.origin_s <= now_s))

"""DS2 per operator: the rule of equations 7 and 8, and the scaling manager around it (OSDI '18, sections 3 and 4.2)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perdix.models.dataflow.optimal import Curve
from perdix.models.dataflow.slots import aligned, fitted_to_slots
from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.policies.dataflow.ds2.curve import CautiousCurve
from perdix.policies.dataflow.ds2.measured import measure
from perdix.policies.dataflow.ds2.memory import Avoided, Memory, Raised
from perdix.policies.dataflow.ds2.options import Ds2Options
from perdix.policies.dataflow.ds2.sizing import Sized, bounded, size
from perdix.policies.dataflow.holding import changes_in_words, hold, reason_of, running, unknown, with_usable_windows
from perdix.policies.dataflow.scaling_manager import (
    Emitted,
    Parallelism,
    Rescale,
    Result,
    agree,
    combined,
    in_vain,
    shortfall,
    to_take_back,
    worthwhile,
)
from perdix.policies.wording import per_s, seconds

MOST_HIDDEN = 10.0  # times the instances that useful time asks for: who has more does not hold the sources back
SAME_TARGET = 0.8  # of the target rate at which results were raised: below, overheads may be less


class Ds2:
    """DS2 on every operator of a dataflow.

    The published manager differs from the paper that describes it. Here the paper counts: results are combined over
    the activation time, the target rate ratio works online, a rescale that made things worse is taken back, and the
    number of vain ones is limited. Rates of two configurations never mix, and what did not report blocks nothing and is
    never scaled in.
    """

    name = "ds2"

    def __init__(self, options: Ds2Options | None = None) -> None:
        self.options = options or Ds2Options()

    def decide(self, situation: DataflowSituation) -> DataflowDecision:
        """Choose the parallelism of every operator, or hold what runs."""
        situation = with_usable_windows(situation)
        blind = unknown(situation)
        if blind is not None:
            return hold(self.name, situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
        memory = Memory.of(situation)
        wait = self._warming_up(situation, memory)
        if wait is not None:
            return hold(self.name, situation, Reason.HOLD_GRACE, wait, memory=memory.to_json())
        measured = measure(situation, self.options.skew_ratio)
        memory = self._forgiving(memory, measured.emitted)
        if self.options.skew == "hottest":
            memory = memory.knowing_keys(measured.skews, situation.now_s, self.options.avoid_s)
            measured = measured.with_keys({name: share.share for name, share in memory.hot_keys.items()})
        curves: Mapping[str, Curve] = {}
        if self.options.curve == "learned":
            memory = memory.learning(measured.rates, situation.now_s)
            curves = {name: CautiousCurve(curve) for name, curve in memory.curves.items()}
        # Where a scale-out brought next to nothing, more instances do not help the hottest one.
        hottest = self.options.skew == "hottest" and memory.in_vain == 0
        sized = size(situation, measured, self.options, curves, for_the_hottest=hottest)
        if not sized.wanted:
            why = f"No operator's true rate is known{_reasons(sized.why)}."
            return hold(self.name, situation, Reason.HOLD_UNKNOWN, why, memory=memory.to_json())
        results = (*memory.results, Result(sized.wanted, measured.emitted))[-self.options.activation :]
        memory = replace(memory, results=results)
        wait = self._waiting(memory)
        if wait is not None:
            return self._hold(sized, Reason.HOLD_GOOD, wait, memory)
        return self._act(sized, memory)

    def _hold(self, sized: Sized, reason: Reason, sentence: str, memory: Memory) -> DataflowDecision:
        verdicts = sized.verdicts()
        return hold(self.name, sized.situation, reason, sentence, operators=verdicts, memory=memory.to_json())

    def _warming_up(self, situation: DataflowSituation, memory: Memory) -> str | None:
        """Return why the windows say nothing yet: they began before the warm-up was over, or before the rescale."""
        window_s = max(window.window_s for window in situation.windows.values())
        warm_up_s = max(self.options.warm_up_s, self.options.warm_up * window_s)
        age_s = min(situation.since_rescale_s, situation.now_s - memory.since_s)
        if math.isnan(age_s):
            return "It is not known when the last rescale was."
        if age_s - window_s >= warm_up_s - 1e-6:
            return None
        return (
            f"Rescaled or started {seconds(age_s)} ago: what counts is windows of {seconds(window_s)} that begin after "
            f"a warm-up of {seconds(warm_up_s)}."
        )

    def _waiting(self, memory: Memory) -> str | None:
        """Return what the activation time still waits for."""
        count, needed = len(memory.results), self.options.activation
        if count < needed:
            return f"{count} of {needed} results until one is acted on."
        if self.options.agreement and not agree(memory.results):
            return f"The last {needed} results differ; they are acted on once they agree."
        return None

    def _act(self, sized: Sized, memory: Memory) -> DataflowDecision:
        """Look at what the last rescale did, and decide on the combined results."""
        situation, options = sized.situation, self.options
        runs = running(situation)
        emitted = Emitted.mean([result.emitted for result in memory.results if result.emitted is not None])
        wanted: Mapping[str, int] = combined(memory.results, options.combine)
        last = memory.rescale
        if last is not None:
            memory = self._judged(replace(memory, rescale=None), last, sized, emitted)
            if self._is_to_take_back(sized, last, wanted, emitted, memory):
                return self._take_back(sized, last, emitted, memory)
        wanted = self._not_below_what_was_raised(sized, wanted, memory, emitted)
        wanted, raised, ratio = self._raised(sized, wanted, emitted)
        if ratio > 1.0 and emitted is not None:
            memory = replace(memory, raised=Raised(ratio, emitted.target_per_s))
        sustained = all(result.emitted is not None and result.emitted.sustained for result in memory.results)
        chosen, kept = self._chosen(sized, wanted, sustained=sustained)
        chosen, limited = self._limited(runs, chosen, memory, emitted)
        if chosen == runs and limited is not None:
            return self._hold(sized, Reason.HOLD_AVOIDED, f"No rescale: {limited}.", memory)
        now_s, latest_s = situation.now_s, situation.now_s + self.options.avoid_s  # later: of a clock that was ahead
        if chosen != runs and any(
            avoidance.parallelism == chosen and now_s < avoidance.until_s <= latest_s for avoidance in memory.avoided
        ):
            why = f"{changes_in_words(runs, chosen)} would follow, but made things worse not long ago."
            return self._hold(sized, Reason.HOLD_AVOIDED, why, memory)
        notes = [note for note in (raised, *kept, limited) if note is not None]
        sentence = _sentence(sized, chosen, emitted, notes)
        if chosen == runs:
            return self._hold(sized, Reason.HOLD_GOOD, sentence, memory)
        memory = replace(memory, rescale=Rescale(runs, chosen, emitted))
        reason, verdicts = reason_of(runs, chosen), sized.verdicts()
        return DataflowDecision(self.name, chosen, reason, sentence, verdicts, memory.to_json())

    def _forgiving(self, memory: Memory, emitted: Emitted | None) -> Memory:
        """Forget scale-outs that were in vain, and what turned out badly, once the target rate is another."""
        if emitted is None:
            return memory
        avoided = tuple(
            avoidance for avoidance in memory.avoided if _is_same(avoidance.target_per_s, emitted.target_per_s)
        )
        memory = replace(memory, avoided=avoided)
        if memory.in_vain == 0:
            return memory
        moved_per_s = abs(emitted.target_per_s - memory.in_vain_at_per_s)
        same = moved_per_s <= self.options.least_gain * memory.in_vain_at_per_s
        return memory if same else replace(memory, in_vain=0)

    def _judged(self, memory: Memory, last: Rescale, sized: Sized, emitted: Emitted | None) -> Memory:
        """Count the scale-outs in a row that were in vain.

        Where an uneven operator holds all back, none brings anything, and sizing by the average cannot overshoot: it
        goes on to what would suffice without skew.
        """
        vain = in_vain(last, emitted, self.options.least_gain)
        if vain is None or emitted is None or (sized.held_back_by and self.options.skew == "average"):
            return memory
        return replace(memory, in_vain=memory.in_vain + 1 if vain else 0, in_vain_at_per_s=emitted.target_per_s)

    def _is_to_take_back(
        self, sized: Sized, last: Rescale, wanted: Parallelism, emitted: Emitted | None, memory: Memory
    ) -> bool:
        """Whether the last rescale made things worse for a reason that the rule does not see.

        Skew is one that it sees, and so is an operator that is too small. It is done once per configuration while the
        target rate is much the same.
        """
        tolerance = self.options.rollback_tolerance
        if (
            tolerance is None
            or sized.held_back_by
            or any(avoidance.parallelism == last.after for avoidance in memory.avoided)
        ):
            return False
        return to_take_back(last, emitted, tolerance, wanted)

    def _take_back(self, sized: Sized, last: Rescale, emitted: Emitted | None, memory: Memory) -> DataflowDecision:
        """Go back to what ran before the last rescale. That is done once: the way back is not judged in its turn."""
        until_s = sized.situation.now_s + self.options.avoid_s
        way_back = Rescale(last.after, last.before, None)
        target_per_s = 0.0 if emitted is None else emitted.target_per_s
        avoided = (*memory.avoided, Avoided(until_s, last.after, target_per_s))
        memory = replace(memory, avoided=avoided, rescale=way_back)
        before, after = ("an unknown rate" if rate is None else per_s(rate.per_s) for rate in (last.emitted, emitted))
        sentence = (
            f"Since {changes_in_words(last.before, last.after)} the sources emit {after}, before it was {before}: "
            f"taken back, and avoided for {seconds(self.options.avoid_s)}."
        )
        verdicts = sized.verdicts()
        return DataflowDecision(self.name, last.before, Reason.ROLLBACK, sentence, verdicts, memory.to_json())

    def _raised(
        self, sized: Sized, wanted: Mapping[str, int], emitted: Emitted | None
    ) -> tuple[Mapping[str, int], str | None, float]:
        """Raise the results where none scales out and the sources still fall short (target rate ratio).

        What runs lets through the target over the shortfall, although the operator with the least to spare should let
        through more: so much more than it seems is needed, of every operator. That operator gets its instances times
        the shortfall; those with more to spare may need none. What is held back by one that can have no more instances
        is not counted.

        Returns the results, that in words, and by what the unrounded ones were multiplied (1: not raised).
        """
        runs = sized.situation.parallelism
        short = shortfall(emitted, self.options.target_rate_ratio, self.options.tolerance)
        if short == 1.0 or any(count > runs[name] for name, count in wanted.items()):
            return wanted, None, 1.0
        if sized.held_back_by:
            why = f"the sources fall short because {sized.held_back_by[0]} is uneven, which more instances do not fix"
            return wanted, why, 1.0
        spare = min((runs[name] / need for name, need in sized.exact.items() if need > 0), default=1.0)
        if spare > MOST_HIDDEN:
            return wanted, "the sources fall short, and not because of an operator that was measured", 1.0
        ratio = short * min(max(spare, 1.0), sized.lets_through)
        raised = self._times(sized, wanted, ratio)
        if raised == wanted:
            return wanted, None, 1.0
        return raised, f"raised, as {short:.4g} times as much should be emitted as is", ratio

    def _not_below_what_was_raised(
        self, sized: Sized, wanted: Mapping[str, int], memory: Memory, emitted: Emitted | None
    ) -> Mapping[str, int]:
        """Keep the instances that a raise added while the target rate is much the same: useful time still hides why."""
        raised = memory.raised
        if raised is None or emitted is None or emitted.target_per_s < raised.target_per_s * SAME_TARGET:
            return wanted
        runs = sized.situation.parallelism
        more = self._times(sized, wanted, raised.ratio)
        return {name: max(count, min(more[name], runs[name])) for name, count in wanted.items()}

    def _times(self, sized: Sized, wanted: Mapping[str, int], ratio: float) -> Mapping[str, int]:
        return {
            name: max(count, bounded(sized.situation, self.options, name, sized.exact[name] * ratio))
            for name, count in wanted.items()
        }

    def _chosen(self, sized: Sized, wanted: Mapping[str, int], *, sustained: bool) -> tuple[dict[str, int], list[str]]:
        """Return the parallelism of every operator: small changes, missing data, key groups and slots considered.

        An instance more is minor only while what runs sustains the target rates: one that is needed never is. Nor is
        one that leads into the bounds.
        """
        situation, options, not_in = sized.situation, self.options, sized.measured.not_in
        chosen, notes = running(situation), []
        for name, count in wanted.items():
            runs = chosen[name]
            kept = worthwhile(runs, count, options.ignored_out if sustained else 0, options.ignored_in)
            kept = bounded(situation, options, name, float(kept))
            if kept < runs and name in not_in:
                notes.append(f"{name} is not scaled in: {not_in[name]}")
                kept = runs
            chosen[name] = aligned(kept, runs, situation.graph[name], options.alignment, options.maximum)
        least = {name: situation.parallelism[name] if name in not_in else options.minimum for name in sized.exact}
        fitted = fitted_to_slots(chosen, sized.exact, situation.slots, shared=situation.slots_shared, least=least)
        return dict(fitted.parallelism), notes if fitted.reason is None else [*notes, fitted.reason]

    def _limited(
        self, runs: Mapping[str, int], chosen: dict[str, int], memory: Memory, emitted: Emitted | None
    ) -> tuple[dict[str, int], str | None]:
        """Return what is left of a change when scale-outs were in vain too often, and in words why."""
        limit, scales_out = self.options.decision_limit, any(count > runs[name] for name, count in chosen.items())
        if limit is None or memory.in_vain < limit or not scales_out or emitted is None:
            return chosen, None
        why = (
            f"{memory.in_vain} scale-outs in a row hardly raised what the sources emit ({per_s(emitted.per_s)} of "
            f"{per_s(emitted.target_per_s)}), as with skew or a straggler, which scaling does not fix"
        )
        return {name: min(count, runs[name]) for name, count in chosen.items()}, why


def _is_same(before_per_s: float, now_per_s: float) -> bool:
    """Whether two target rates are much the same."""
    return min(before_per_s, now_per_s) >= SAME_TARGET * max(before_per_s, now_per_s)


def _sentence(sized: Sized, chosen: Mapping[str, int], emitted: Emitted | None, notes: Sequence[str]) -> str:
    runs = running(sized.situation)
    load = "" if emitted is None else f" ({per_s(emitted.per_s)} of {per_s(emitted.target_per_s)} are emitted)"
    said = "What runs is what the target rates take" if chosen == runs else changes_in_words(runs, chosen)
    return "; ".join([f"{said}{load}", *notes]) + f"{_reasons(sized.why)}."


def _reasons(why: Mapping[str, str], most: int = 3) -> str:
    """Return why operators are not just what the equations say, of the first few."""
    shown = "".join(f"; {name}: {reason}" for name, reason in list(why.items())[:most])
    return shown + (f"; and {len(why) - most} more" if len(why) > most else "")

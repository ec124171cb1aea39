"""QEScalor: the first mix of the cheapest plan of mixes over the forecast (paper 2.4), and CBA, its baseline."""

import math
from collections.abc import Mapping
from dataclasses import replace

from perdix.models.mixes.qcesa import MixPlan, plan, single, steadied
from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.holding import blindness, hold
from perdix.policies.mix_choice import MixChoice
from perdix.policies.mix_problem import Horizon, MixOptions, horizon_of
from perdix.policies.wording import workers

NO_SIZES = (
    "The job has no sizes whose performance is known: name 'sizes' in its job file, and sample them "
    "(`perdix sample`); what runs stays."
)


class QEScalorOptions(MixOptions):
    """Options of the policy: see :class:`~perdix.policies.mix_problem.MixOptions`."""


class CbaOptions(MixOptions):
    """Options of the baseline."""

    size: str | None = None  # the size of every worker; the job's first when absent


class QEScalor:
    """Plans mixes over the forecast at least cost (running, starting, stopping) and takes the first.

    The reason of a change follows from the number of workers. Where that stays, more performance is a scale-out; less,
    or as much at another price, is a scale-in.
    """

    name = "qescalor"
    learns = True

    def __init__(self, options: MixOptions | None = None) -> None:
        self.options = options or QEScalorOptions()

    def decide(self, situation: Situation) -> Decision:
        """Choose a mix within the bounds, or hold what runs."""
        running, why = running_mix(situation)
        only = self.only(situation)
        blind = blindness(situation)
        if blind is not None:
            return self._held(situation, Reason.HOLD_BLIND, f"Blind: {blind}.")
        unknown = unusable(situation, running) or self._refused(situation, only)
        if unknown is not None:
            return self._held(situation, Reason.HOLD_UNKNOWN, unknown)
        if sum(running.values()) != situation.scale_out:
            said = (
                f"The reported sizes are of {workers(sum(running.values()), running)}, and {situation.scale_out} run."
            )
            return self._held(situation, Reason.HOLD_BLIND, said)
        try:
            horizon = horizon_of(situation, running, self.options, only)
        except ValueError as error:
            return self._held(situation, Reason.HOLD_UNKNOWN, f"No mix can be planned: {error}.")
        found = self._planned(horizon, only)
        return MixChoice(self.name, situation, horizon, found, self.options).decision(why)

    def only(self, situation: Situation) -> str | None:  # noqa: ARG002
        """Return the one size of which workers may be started; ``None``: every size."""
        return None

    def _planned(self, horizon: Horizon, only: str | None) -> MixPlan:
        problem = horizon.problem
        if only is not None:
            return single(problem, problem.sizes.names.index(only))
        return steadied(plan(problem, exact_candidates=self.options.exact_candidates), self.options.indifference)

    def _refused(self, situation: Situation, only: str | None) -> str | None:
        if only is not None and only not in situation.sizes:
            return f"The job has no size '{only}' whose performance is known; it has {', '.join(situation.sizes)}."
        if not self.options.refuse_extrapolated:
            return None
        meant = situation.sizes if only is None else {only: situation.sizes[only]}
        if all(size.extrapolated for size in meant.values()):
            return f"The performance of {', '.join(meant)} is extrapolated, which the options refuse: sample them."
        return None

    def _held(self, situation: Situation, reason: Reason, sentence: str) -> Decision:
        return replace(hold(self.name, situation, reason, sentence), mix=situation.mix)


class Cba(QEScalor):
    """The baseline: running and scaling at least cost with workers of one size, whatever the others would save."""

    name = "cba"
    learns = True

    def __init__(self, options: CbaOptions | None = None) -> None:
        super().__init__(options or CbaOptions())
        self.size = (options or CbaOptions()).size

    def only(self, situation: Situation) -> str | None:
        """Return the size of the options, or the job's first."""
        return self.size or next(iter(situation.sizes), None)


def running_mix(situation: Situation) -> tuple[dict[str, int], str]:
    """Return size -> workers that run, and what was assumed for it, in words.

    Where workers are not distinguished they are taken for the job's first size: that is what it was started with.
    """
    if situation.mix or not situation.sizes:
        return dict(situation.mix), ""
    first = next(iter(situation.sizes))
    assumed = f" The sizes of what runs are not reported; {workers(situation.scale_out)} are taken for {first}."
    return {first: situation.scale_out}, assumed


def unusable(situation: Situation, running: Mapping[str, int]) -> str | None:
    """Return why nothing can be planned with the sizes of a situation, or ``None``."""
    sizes = situation.sizes
    if not any(size.per_s > 0 for size in sizes.values()):
        return NO_SIZES
    for name, size in sizes.items():
        if not (math.isfinite(size.per_s) and size.per_s >= 0 and math.isfinite(size.price_per_h)):
            return (
                f"Size '{name}' is expected to process {size.per_s}/s at {size.price_per_h} per hour, which cannot be."
            )
    for name, count in running.items():
        if name not in sizes or not sizes[name].per_s > 0:
            return f"{workers(count, {name: count})} run, and the performance of that size is not known: sample it."
    return None

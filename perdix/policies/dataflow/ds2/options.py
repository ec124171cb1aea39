"""Options of DS2 per operator (OSDI '18, section 4.2: the parameters of the scaling manager)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from perdix.models.dataflow.slots import Mode
from perdix.settings.strict import Strict

Share = Annotated[float, Field(ge=0, le=1)]
Instances = Annotated[int, Field(ge=1, le=1_000_000)]


class Ds2Options(Strict):
    """Options of the policy; what ``ds2-global`` also has means the same there.

    The paper's policy interval is no option: windows come at the interval at which the policy is asked.

    ``warm_up_s``, ``warm_up``: after a start or a rescale nothing is decided on windows that began within this many
    seconds, or within this many windows; the longer counts.
    ``activation``, ``combine``: how many results since the last rescale are gathered before they are acted on, and
    which of them counts for an operator.
    ``agreement``: whether the gathered results must also be the same: the paper's test of convergence (5.4).
    ``rate_factor``: share by which every target rate is raised: head-room, which the paper does without.
    ``target_rate_ratio``: where no operator is scaled out and a source should still emit more than this many times what
    it does emit, the results are raised by that ratio: overheads that useful time does not show. ``null``: never.
    ``tolerance``: relative excess over a whole number of instances that is taken for an error of rounding.
    ``ignored_out``, ``ignored_in``: changes of an operator by at most this many instances (of more than 36 that run, in
    proportion) are not worth a rescale, where that is one or at most a fifth of what runs. Scaling out is minor only
    while what runs sustains the target rates.
    ``minimum``, ``maximum``: bounds of every operator beside its own maximum.
    ``rollback_tolerance``, ``avoid_s``: a rescale after which the sources emit less by more than this share, for no
    reason that the rule sees, is taken back, once per configuration; what it led to is avoided for so long. ``null``:
    never.
    ``decision_limit``, ``least_gain``: after this many scale-outs in a row of which none closed this share of the gap
    between what the sources emit and should, none follows until the target rate has changed by that share. ``null``: no
    limit.
    ``curve``: ``linear``: a further instance adds as much as the ones before, as the paper assumes. ``learned``: as was
    seen of this operator so far.
    ``skew``, ``skew_ratio``, ``skew_bound``: ``average``: imbalance is averaged away as the paper does, and reported.
    ``hottest``: an operator whose hottest instance works more than ``skew_ratio`` times as long as the mean is sized so
    that this one keeps up, with at most ``skew_bound`` times as many instances as its average would take.
    ``alignment``: how the parallelism of a keyed operator is fitted to its key groups
    (:mod:`perdix.models.dataflow.slots`).
    """

    warm_up_s: Annotated[float, Field(ge=0, le=86_400)] = 30.0
    warm_up: Annotated[int, Field(ge=0, le=1_000)] = 0
    activation: Annotated[int, Field(ge=1, le=100)] = 1
    combine: Literal["last", "max", "median"] = "max"
    agreement: bool = False
    rate_factor: Annotated[float, Field(ge=0, le=10)] = 0.0
    target_rate_ratio: Annotated[float, Field(ge=1)] | None = 1.0
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 1e-6
    ignored_out: Annotated[int, Field(ge=0)] = 2
    ignored_in: Annotated[int, Field(ge=0)] = 2
    minimum: Instances = 1
    maximum: Instances | None = None
    rollback_tolerance: Share | None = 0.1
    avoid_s: Annotated[float, Field(ge=0, le=604_800)] = 1_800.0
    decision_limit: Annotated[int, Field(ge=1, le=100)] | None = 2
    least_gain: Share = 0.1
    curve: Literal["linear", "learned"] = "linear"
    skew: Literal["average", "hottest"] = "average"
    skew_ratio: Annotated[float, Field(gt=1)] = 1.2
    skew_bound: Annotated[float, Field(ge=1)] = 2.0
    alignment: Mode = "OFF"

    @model_validator(mode="after")
    def _ordered(self) -> Ds2Options:
        if self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}; swap or widen them")
        return self

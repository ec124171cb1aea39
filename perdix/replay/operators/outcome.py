"""What a policy made of a dataflow: steps until it was stable, where it ended, and what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from perdix.telemetry.window import Values
from perdix.twin.dataflow import optimum as truth
from perdix.twin.dataflow.job import Rescale
from perdix.twin.dataflow.ledger import Stretch
from perdix.twin.dataflow.parameters import DataflowParameters

SUSTAINED = 0.99  # of the target rate: what is missing of it is noise
SETTLING_S = 60  # after a rescale is over, warming up and catching up are not held against a configuration

Parallelism = Mapping[str, int]


@dataclass(frozen=True)
class Asked:
    """One look of a policy: what it chose, and why."""

    at_s: int
    parallelism: Parallelism
    changed: bool  # whether it led to a rescale
    reason: str
    sentence: str


@dataclass(frozen=True)
class Phase:
    """A stretch with constant source rates."""

    from_s: int
    until_s: int
    target_per_s: Mapping[str, float]  # source -> records/s
    optimum: Parallelism | None  # the least that sustains it; ``None``: nothing does, because of skew or slots
    balanced_optimum: Parallelism | None  # the same as if no instance were hotter than the others
    # Parallelism at the start of the phase and after each rescale that was asked for in it
    path: tuple[Parallelism, ...]
    # From the start of the phase until the last rescale in it was over, be it of an earlier phase; ``None``: what ran
    # then does not sustain 99 % of the rates, by the twin's true capacities (what is achieved may hide it while queues
    # fill), or never ran
    converged_s: int | None
    # Share of the target that was emitted after that and a minute; ``None``: the phase was over by then
    achieved: float | None
    back_pressured: float | None  # share of the same time in which a source waited for room
    oscillations: int  # changes of direction, summed over operators: the rates were constant

    @property
    def steps(self) -> int:
        """Rescales."""
        return len(self.path) - 1

    @property
    def parallelism(self) -> Parallelism:
        """What it ended with."""
        return self.path[-1]

    @property
    def overshoot(self) -> Parallelism | None:
        """Operator -> instances above the optimum (below 0: too few)."""
        if self.optimum is None:
            return None
        return {name: count - self.optimum[name] for name, count in self.parallelism.items()}


@dataclass(frozen=True)
class DataflowOutcome:
    """What one replay came to."""

    policy: str
    dataflow: str
    seed: int
    seconds: int
    start: Parallelism
    phases: tuple[Phase, ...]
    # instance_s, bound_instance_s: instance-seconds of all operators that may be scaled, the old numbers until a
    # rescale is over; and the same of the optimum of each phase (without skew where there is none), which rescales at
    # once
    instance_s: float
    bound_instance_s: float
    achieved: float  # share of all that was to be emitted that was emitted, standstills included
    back_pressured: float  # share of the seconds that it ran in which a source waited for room
    # lag_maximum_records, lag_at_end_records: over all sources; 0 without a log
    lag_maximum_records: float
    lag_at_end_records: float
    decisions: tuple[Asked, ...] = ()
    problems: tuple[str, ...] = ()  # looks at which the policy failed or answered what cannot be; it was held then
    wall_s: float = 0.0

    @property
    def steps(self) -> int:
        """Rescales in all phases."""
        return sum(phase.steps for phase in self.phases)

    @property
    def oscillations(self) -> int:
        """Changes of direction under constant rates."""
        return sum(phase.oscillations for phase in self.phases)

    @property
    def parallelism(self) -> Parallelism:
        """What it ended with."""
        return self.phases[-1].parallelism

    @property
    def converged_s(self) -> int | None:
        """The longest that it took in any phase; ``None``: in one of them it did not converge."""
        times = [phase.converged_s for phase in self.phases]
        known = [time for time in times if time is not None]
        return max(known) if len(known) == len(times) else None

    @property
    def instance_ratio(self) -> float:
        """Instance-seconds as a multiple of the bound; below 1 it did not sustain the rates all the time."""
        return self.instance_s / self.bound_instance_s if self.bound_instance_s > 0 else float("nan")


@dataclass(frozen=True)
class DataflowCourse:
    """The run second by second."""

    operators: tuple[str, ...]
    sources: tuple[str, ...]
    stretch: Stretch = field(repr=False)  # columns by operator in the order of ``operators``, which are topological

    def of(self, operator: str) -> int:
        """Return the column of an operator."""
        return self.operators.index(operator)

    def total(self, values: Values) -> Values:
        """Return the sum of a quantity over the sources, shape ``(seconds,)``."""
        return np.asarray(values[:, [self.of(name) for name in self.sources]].sum(axis=1))


@dataclass(frozen=True)
class DataflowPlayed:
    """A replay that came to its end."""

    outcome: DataflowOutcome
    course: DataflowCourse


def phases_of(
    parameters: DataflowParameters, course: DataflowCourse, rescales: Sequence[Rescale], start: Parallelism
) -> tuple[Phase, ...]:
    """Return what came of each stretch with constant source rates; times count from the start of the run."""
    length_s = len(course.stretch)
    starts = [second for second in parameters.change_times_s() if second < length_s]
    spans = zip(starts, [*starts[1:], length_s], strict=True)
    return tuple(_phase(parameters, course, span, rescales, start) for span in spans)


def bound_instance_s(parameters: DataflowParameters, phases: Sequence[Phase]) -> float:
    """Return the instance-seconds of the optimum of each phase, over the operators that may be scaled."""
    total = 0.0
    for phase in phases:
        least = phase.optimum or phase.balanced_optimum
        if least is None:
            return float("nan")
        total += (phase.until_s - phase.from_s) * sum(least[name] for name in scalable(parameters))
    return total


def scalable(parameters: DataflowParameters) -> tuple[str, ...]:
    """Return the operators that may be scaled."""
    return tuple(name for name, operator in parameters.operators.items() if operator.may_scale)


def oscillations(path: Sequence[Parallelism]) -> int:
    """Return how often an operator's parallelism changed its direction, over all operators."""
    count = 0
    for name in path[0] if path else ():
        moves = [after[name] - before[name] for before, after in pairwise(path)]
        signs = [move > 0 for move in moves if move != 0]
        count += sum(sign != other for sign, other in pairwise(signs))
    return count


def _phase(
    parameters: DataflowParameters,
    course: DataflowCourse,
    span: tuple[int, int],
    rescales: Sequence[Rescale],
    start: Parallelism,
) -> Phase:
    from_s, until_s = span
    target = parameters.target_per_s(from_s)
    so_far = [rescale for rescale in rescales if rescale.asked_s < until_s]
    earlier = sum(rescale.asked_s < from_s for rescale in so_far)
    path = (start, *(rescale.after for rescale in so_far))[earlier:]
    settled_s = max([from_s, *(rescale.end_s for rescale in so_far)])  # it may begin with a rescale that goes on
    rest = slice(min(settled_s + SETTLING_S, until_s), until_s)
    achieved = back_pressured = None
    if rest.stop > rest.start:
        due = float(course.total(course.stretch.target)[rest].sum())
        achieved = float(course.total(course.stretch.processed)[rest].sum()) / due if due > 0 else 1.0
        back_pressured = _source_waited(course, rest)
    least_per_s = {name: SUSTAINED * per_s for name, per_s in target.items()}
    stable = settled_s < until_s and truth.sustains(parameters, path[-1], least_per_s)
    return Phase(
        from_s,
        until_s,
        target,
        _optimum(parameters, target, even=False),
        _optimum(parameters, target, even=True),
        path,
        settled_s - from_s if stable else None,
        achieved,
        back_pressured,
        oscillations(path),
    )


def _source_waited(course: DataflowCourse, rows: slice) -> float:
    """Return the share of these seconds in which the source that waited most did."""
    waited = course.stretch.back_pressured_s[rows][:, [course.of(name) for name in course.sources]]
    ran = max(float(course.stretch.running[rows].sum()), 1.0)
    return float(waited.max(axis=1).sum()) / ran


def _optimum(parameters: DataflowParameters, target: Mapping[str, float], *, even: bool) -> Parallelism | None:
    try:
        return truth.optimum(parameters, target, even=even)
    except ValueError:
        return None  # nothing sustains it


def summed_up(parameters: DataflowParameters, course: DataflowCourse, phases: tuple[Phase, ...]) -> dict[str, float]:
    """Return the figures of a whole run by their names in :class:`DataflowOutcome`."""
    stretch = course.stretch
    columns = [course.of(name) for name in scalable(parameters)]
    due, emitted = float(course.total(stretch.target).sum()), float(course.total(stretch.processed).sum())
    lag = course.total(stretch.lag)
    return {
        "instance_s": float(stretch.instances[:, columns].sum()),
        "bound_instance_s": bound_instance_s(parameters, phases),
        "achieved": emitted / due if due > 0 else 1.0,
        "back_pressured": _source_waited(course, slice(0, len(stretch))),
        "lag_maximum_records": float(lag.max()) if len(lag) else 0.0,
        "lag_at_end_records": float(lag[-1]) if len(lag) else 0.0,
    }

"""The course of a sampling over cores and memory: what was tried so far in, the next size or why it is over out.

Two sweeps. Cores first, with the most memory, so that memory is not what limits; then memory, with the most cores, so
that cores are not. The paper's sizes vary memory by 2 % beside cores by 300 %, and say nothing of how the two are
walked; a grid of both would take the product of the samples instead of their sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from perdix.models.sampling.contract import SamplingRule, Sweep, Wanted
from perdix.models.sampling.dynamic_step import DynamicStep
from perdix.settings.size_grid import Grid, GridPoint

Known = Mapping[GridPoint, float | None]  # records/s of what was tried; None where the size failed


@dataclass(frozen=True)
class Next:
    """What is to be sampled next."""

    point: GridPoint | None  # the size; ``None`` when sampling is over
    step: int  # units from the point before it, along the axis that is swept
    why: str  # why this size, or why it is over


def next_size(rule: SamplingRule, grid: Grid, known: Known) -> Next:
    """Return the next size. Pure: the course is walked anew through what is known until something is not.

    So no size is wanted twice, and a sampling that was cut goes on from what it has.
    """
    most = grid.largest
    if rule.largest_first and most not in known:
        return Next(most, 0, "the largest size, for the scale")
    reaches_per_s = known.get(most)
    by_cpu = {point.cpu: per_s for point, per_s in known.items() if point.memory == most.memory}
    cpu = _walk(rule.sweep(most.cpu, reaches_per_s=reaches_per_s), by_cpu)
    if isinstance(cpu, Wanted):
        return Next(GridPoint(cpu.index, most.memory), cpu.step, f"cores: {cpu.why}")
    by_memory = {point.memory: per_s for point, per_s in known.items() if point.cpu == most.cpu}
    memory = _walk(rule.sweep(most.memory, reaches_per_s=reaches_per_s), by_memory)
    if isinstance(memory, Wanted):
        return Next(GridPoint(most.cpu, memory.index), memory.step, f"memory: {memory.why}")
    return Next(None, 0, f"cores: {cpu}; memory: {memory}")


def _walk(sweep: Sweep, known: Mapping[int, float | None]) -> Wanted | str:
    """Return the first point of a sweep that is not known, or why the sweep ended."""
    try:
        wanted = next(sweep)
        while wanted.index in known:
            wanted = sweep.send(known[wanted.index])
    except StopIteration as ended:
        return str(ended.value)
    return wanted


def rule_called(name: str) -> SamplingRule:
    """Return the rule of a name: ``dsa``, or ``fssa-<step>``. Raises ``ValueError`` saying which there are."""
    if name == "dsa":
        return DynamicStep()
    family, _, step = name.partition("-")
    if family == "fssa" and step.isascii() and step.isdigit() and int(step) >= 1:
        return FixedStep(int(step))
    raise ValueError(f"there is no sampling method '{name}'; there are 'dsa', and 'fssa-1', 'fssa-2', ...")


@dataclass(frozen=True)
class FixedStep:
    """FSSA, which DSA is compared with (ICCS 2020, section 3): every ``step``-th point from the smallest on.

    Whatever comes of it; with step 1, the reference, all.
    """

    step: int

    @property
    def largest_first(self) -> bool:
        """It does not: it knows its points beforehand."""
        return False

    @property
    def name(self) -> str:
        """``fssa-<step>``."""
        return f"fssa-{self.step}"

    def sweep(self, last: int, *, reaches_per_s: float | None = None) -> Sweep:
        """Return a new sweep; see :class:`perdix.models.sampling.contract.SamplingRule`."""
        del reaches_per_s  # it takes every step
        for index in range(0, last + 1, self.step):
            yield Wanted(index, self.step, "fixed step")
        return "the end of the range"

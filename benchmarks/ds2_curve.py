"""How often DS2 reconfigures until it holds, with its linear rule and with learned scaling curves.

    python -m benchmarks.ds2_curve                 # about a minute
    python -m benchmarks.ds2_curve --errors 4      # what if windows were less accurate

The operator is Nexmark Q1's mapper as measured at 13 parallelisms from 1 to 26 (means of up to five observations;
between them records/s of an instance are interpolated). A window measures its rate with the relative errors of those
observations, drawn anew. The rule is applied window after window from any start until it keeps what runs; as in the
original program a result of one instance less is ignored. The least parallelism that takes the target rate is the goal.

Cold: nothing is known at the start. Visits: other parallelisms were seen before, drawn at random, each in one window.
Wave and walk: one job after the other rate, and what is learned stays: there and back between low and high rates five
times (the same twelve rates), and thirty rates drawn at random. Knowing: a rule that knows the true curve.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.measured import nexmark
from perdix.models.dataflow.optimal import rounded_up
from perdix.models.dataflow.scaling_curve import ScalingCurve
from perdix.telemetry.window import Values

MOST = 26
STEPS = 12  # a rule that has not come to rest by then never does
TARGETS = 24
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Truth:
    """Records/s at 1 to ``MOST`` instances, shape ``(MOST,)``, and relative errors of single observations."""

    per_s: Values
    errors: Values

    @classmethod
    def measured(cls) -> Truth:
        table = nexmark().groupby("parallelism")["records_per_second"]
        means = table.mean()
        each = np.interp(np.arange(1, MOST + 1), means.index, means.to_numpy() / means.index)
        errors = [(group / group.mean() - 1).to_numpy() for _, group in table if len(group) > 1]
        # The mean of five is itself drawn towards each of them: their errors are a little larger than they look.
        return cls(each * np.arange(1, MOST + 1), np.concatenate([e * np.sqrt(len(e) / (len(e) - 1)) for e in errors]))

    def linear(self) -> Truth:
        """Return an operator that scales as DS2 assumes, measured with the same errors."""
        return Truth(self.per_s[0] * np.arange(1, MOST + 1), self.errors)

    def goal(self, target_per_s: float) -> int:
        """Return the fewest instances that take the target rate."""
        return int(np.searchsorted(self.per_s, target_per_s * (1 - TOLERANCE))) + 1

    def window(self, instances: int, rng: np.random.Generator) -> float:
        """Return the rate that one window measures."""
        return float(self.per_s[instances - 1] * (1 + rng.choice(self.errors)))


@dataclass
class Rule:
    """A rule that sizes the operator; ``curve`` is ``None`` for the linear one."""

    curve: ScalingCurve | None = None

    def next(self, running: int, target_per_s: float, measured_per_s: float) -> int:
        if self.curve is None:
            exact = target_per_s / (measured_per_s / running)
        else:
            self.curve = self.curve.observed(running, measured_per_s)
            exact = self.curve.unrounded_for(target_per_s, running, measured_per_s)
        wanted = int(np.clip(rounded_up(np.array([exact]), TOLERANCE)[0], 1, MOST))
        return running if wanted == running - 1 else wanted


@dataclass
class Knowing(Rule):
    """A rule that knows the curve: what no learning can do better than."""

    truth: Truth = field(default_factory=Truth.measured)

    def next(self, running: int, target_per_s: float, measured_per_s: float) -> int:  # noqa: ARG002 - it knows
        wanted = min(self.truth.goal(target_per_s), MOST)
        return running if wanted == running - 1 else wanted


@dataclass
class Tally:
    """What came of the runs: reconfigurations, and instances above the goal at rest."""

    reconfigurations: list[int] = field(default_factory=list)
    excess: list[int] = field(default_factory=list)

    def add(self, reconfigurations: int, excess: int) -> None:
        self.reconfigurations.append(reconfigurations)
        self.excess.append(excess)


def settle(truth: Truth, rule: Rule, start: int, target_per_s: float, rng: np.random.Generator) -> tuple[int, int]:
    """Apply a rule until it keeps what runs; return reconfigurations and where it rests."""
    running = start
    for step in range(STEPS):
        wanted = rule.next(running, target_per_s, truth.window(running, rng))
        if wanted == running:
            return step, running
        running = wanted
    return STEPS, running


def from_everywhere(truth: Truth, make: Callable[[np.random.Generator], Rule], seed: int) -> Tally:
    """Run from every start to every target rate."""
    rng, tally = np.random.default_rng(seed), Tally()
    for start in range(1, MOST + 1):
        for target in np.linspace(truth.per_s[0] * 0.9, truth.per_s[-1] * 0.98, TARGETS):
            count, rest = settle(truth, make(rng), start, float(target), rng)
            tally.add(count, rest - truth.goal(float(target)))
    return tally


def one_after_the_other(truth: Truth, rule: Rule, targets: Iterable[float], seed: int) -> Tally:
    """Run one job through target rates."""
    rng, tally, running = np.random.default_rng(seed), Tally(), 4
    for target in targets:
        count, running = settle(truth, rule, running, target, rng)
        tally.add(count, running - truth.goal(target))
    return tally


def visited(truth: Truth, count: int) -> Callable[[np.random.Generator], Rule]:
    """Return what makes rules that saw this many other parallelisms before."""

    def make(rng: np.random.Generator) -> Rule:
        curve = ScalingCurve()
        for instances in rng.choice(np.arange(1, MOST + 1), size=count, replace=False):
            curve = curve.observed(int(instances), truth.window(int(instances), rng))
        return Rule(curve)

    return make


def line(name: str, tallies: Sequence[Tally], plain: Sequence[Tally] | None) -> str:
    """Return a row of the table; the spread is the standard deviation over seeds."""
    means = np.array([np.mean(tally.reconfigurations) for tally in tallies])
    found = np.concatenate([tally.reconfigurations for tally in tallies])
    excess = np.concatenate([tally.excess for tally in tallies])
    fewer = (
        "" if plain is None else f"{100 * (1 - means.sum() / sum(np.mean(p.reconfigurations) for p in plain)):6.1f} %"
    )
    spread = means.std(ddof=1) if len(means) > 1 else 0.0
    return (
        f"{name:<40}{means.mean():6.2f} +- {spread:.2f}{fewer:>10}{100 * np.mean(found > 2):9.1f} %"
        f"{found.max():6d}{100 * np.mean(excess == 0):10.1f} %{100 * np.mean(excess < 0):8.1f} %"
        f"{100 * np.mean(excess > 0):8.1f} %{excess.mean():8.2f}{np.abs(excess).max():6d}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--errors", type=float, default=1.0, help="measured errors times this")
    given = parser.parse_args()
    seeds, truth = range(given.seeds), Truth.measured()
    truth = replace(truth, errors=np.clip(truth.errors * given.errors, -0.9, 0.9))
    print(
        f"Nexmark Q1 mapper, {truth.per_s[0]:,.0f}/s on 1 to {truth.per_s[-1]:,.0f}/s on {MOST}; error of a window "
        f"{100 * truth.errors.std():.2f} %; {len(seeds)} seeds\n"
    )
    print(
        f"{'':<40}{'reconfigurations':>16}{'fewer':>9}{'over 2':>11}{'most':>6}{'at goal':>12}{'below':>10}"
        f"{'above':>10}{'mean':>8}{'most':>6}"
    )
    for name, curve in (("", truth), (", were it linear", truth.linear())):
        everywhere(f"every start{name}", curve, seeds)
    low, high = truth.per_s[3], truth.per_s[23]
    wave = [float(low + (high - low) * (1 - np.cos(2 * np.pi * k / 12)) / 2) for k in range(12)] * 5
    following("wave", truth, dict.fromkeys(seeds, wave))
    following("walk", truth, {seed: rates(truth, seed) for seed in seeds})


def everywhere(name: str, truth: Truth, seeds: Iterable[int]) -> None:
    """Print the rows of runs from every start to every rate."""
    plain = [from_everywhere(truth, lambda _: Rule(), seed) for seed in seeds]
    print(line(f"{name}: linear", plain, None))
    for count, known in ((0, "cold"), (1, "1 visit"), (2, "2 visits"), (4, "4 visits")):
        make = visited(truth, count)
        print(line(f"  learned, {known}", [from_everywhere(truth, make, seed) for seed in seeds], plain))
    knowing = [from_everywhere(truth, lambda _: Knowing(truth=truth), seed) for seed in seeds]
    print(line("  knowing the curve", knowing, plain))


def following(name: str, truth: Truth, rates_of: Mapping[int, Sequence[float]]) -> None:
    """Print the rows of a job that goes through rates, by seed."""

    def run(make: Callable[[], Rule]) -> list[Tally]:
        return [one_after_the_other(truth, make(), rates, seed) for seed, rates in rates_of.items()]

    plain = run(Rule)
    print(line(f"{name}: linear", plain, None))
    print(line("  learned", run(lambda: Rule(ScalingCurve())), plain))
    print(line("  knowing the curve", run(lambda: Knowing(truth=truth)), plain))


def rates(truth: Truth, seed: int) -> list[float]:
    """Return thirty rates drawn at random."""
    drawn = np.random.default_rng(1000 + seed).uniform(truth.per_s[0], truth.per_s[-1] * 0.98, 30)
    return [float(rate) for rate in drawn]


if __name__ == "__main__":
    main()

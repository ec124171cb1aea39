"""A sampling of instances whose truth is known: how the share is raised, when it has converged, what failures do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.sampling.course import FixedStep
from perdix.models.sampling.dynamic_step import DynamicStep
from perdix.models.sampling.rows import OperatorSamples
from perdix.profiling import sampling
from perdix.profiling.sampling import (
    SamplingPlan,
    SamplingProgress,
    converged,
    converged_performance,
    sample_operator,
)
from perdix.profiling.sampling_instance import Observed, SamplingError
from perdix.profiling.twin_sampling import TwinSamplingInstances
from perdix.settings.size_grid import Axis, Grid
from perdix.twin.operators.parameters import load_operator
from perdix.twin.operators.physics import true_performance

LIVE_PER_S = 100_000.0
PER_CORE = 10_000.0
GRID = Grid(cpu=Axis(least=1.0, most=4.0, unit=1.0), memory=Axis(least=100.0, most=400.0, unit=100.0))


@dataclass
class Known:
    """Processes 10,000 records/s per core; time passes only while it is given something."""

    cpu_cores: float
    memory_mb: float
    dies_above: float = math.inf
    stuck: bool = False
    unstoppable: bool = False
    noise: np.random.Generator | None = None
    warm_after_s: float = 0.0
    now_s: float = 1_000.0
    shares: list[float] = field(default_factory=list)
    stopped: int = 0

    def process(self, share: float, for_s: int) -> Observed:
        self.shares.append(share)
        self.now_s += for_s
        offered = share * LIVE_PER_S
        if offered > self.dies_above:
            raise SamplingError("out of memory")
        able = PER_CORE * self.cpu_cores * (1.0 if self.now_s - 1_000.0 > self.warm_after_s else 0.1)
        if self.noise is not None:
            able *= self.noise.uniform(0.0, 2.0)
        return Observed(offered, 0.0 if self.stuck else min(offered, able))

    def stop(self) -> None:
        self.stopped += 1
        if self.unstoppable:
            raise SamplingError("the cluster does not answer")


@dataclass
class Instances:
    """Starts :class:`Known` ones; those of some sizes are special."""

    special: dict[tuple[float, float], dict[str, object]] = field(default_factory=dict)
    refused: tuple[tuple[float, float], ...] = ()
    all: dict[tuple[float, float], Known] = field(default_factory=dict)
    restored: int = 0
    unrestorable: bool = False

    def restore(self) -> None:
        assert all(instance.stopped for instance in self.all.values()), "what was there before comes back last"
        self.restored += 1
        if self.unrestorable:
            raise SamplingError("its worker keeps 4 cores")

    def start(self, cpu_cores: float, memory_mb: float) -> Known:
        size = (cpu_cores, memory_mb)
        if size in self.refused:
            raise SamplingError("no host has so much room")
        self.all[size] = Known(cpu_cores, memory_mb, **self.special.get(size, {}))  # type: ignore[arg-type]
        return self.all[size]


def sample(instances: Instances) -> OperatorSamples:
    return sample_operator("parse", FixedStep(1), GRID, instances)


class TestOneInstance:
    def test_its_share_is_raised_until_it_no_longer_follows_and_then_kept(self, monkeypatch) -> None:
        one = Known(2.0, 400.0)
        monkeypatch.setattr(sampling, "RAISED_BY", 2.0)
        assert converged_performance(one, SamplingPlan(first_share=0.05)) == pytest.approx(20_000)
        assert one.shares[:4] == [0.05, 0.1, 0.2, 0.4]
        assert set(one.shares[3:]) == {0.4}, "no more load than shows that it is full: this is live traffic"

    def test_one_that_warms_up_is_given_more_when_it_follows_again(self) -> None:
        one = Known(2.0, 400.0, warm_after_s=200.0)
        assert converged_performance(one, SamplingPlan()) == pytest.approx(20_000)

    def test_one_that_takes_all_there_is_has_no_sample(self) -> None:
        with pytest.raises(SamplingError, match="it takes all of the live workload"):
            converged_performance(Known(11.0, 400.0), SamplingPlan())

    def test_one_that_never_settles_is_given_up_in_time(self, monkeypatch) -> None:
        monkeypatch.setattr(sampling, "TOLERANCE", 0.01)
        one = Known(2.0, 400.0, noise=np.random.default_rng(1))
        with pytest.raises(SamplingError, match="did not converge within 900 s"):
            converged_performance(one, SamplingPlan(most_s=900))
        assert one.now_s <= 1_900.0

    def test_one_that_does_nothing_is_given_up_too(self) -> None:
        with pytest.raises(SamplingError, match="nothing came out within 900 s"):
            converged_performance(Known(2.0, 400.0, stuck=True), SamplingPlan(most_s=900))

    def test_too_slow_a_rise_is_told(self, monkeypatch) -> None:
        monkeypatch.setattr(sampling, "RAISED_BY", 1.01)
        with pytest.raises(SamplingError, match="it was not full within 300 s"):
            converged_performance(Known(9.0, 400.0), SamplingPlan(most_s=300))


class TestConvergence:
    def test_the_earlier_half_is_taken_for_the_warm_up(self) -> None:
        assert converged([1.0, 20.0, 50.0, 90.0, 100.0, 100.0, 100.0, 100.0]) == 100.0

    def test_too_few_windows_say_nothing(self) -> None:
        assert converged([100.0] * 6) is None
        assert converged([100.0] * 7) == 100.0

    def test_a_mean_that_still_rises_has_not_converged(self, monkeypatch) -> None:
        monkeypatch.setattr(sampling, "TOLERANCE", 0.1)
        assert converged([100.0 * 1.05**n for n in range(40)]) is None

    def test_nothing_and_what_is_not_known_do_not_converge(self) -> None:
        assert converged([0.0] * 20) is None
        assert converged([100.0] * 7 + [math.nan]) is None

    @given(seed=st.integers(0, 200), spread=st.floats(0.0, 0.1))
    def test_what_has_converged_is_near_the_truth(self, seed: int, spread: float) -> None:
        windows = 1_000.0 * (1.0 + spread * np.random.default_rng(seed).standard_normal(400))
        first = next(found for n in range(1, 401) if (found := converged(windows[:n].tolist())) is not None)
        assert first == pytest.approx(1_000.0, rel=4.5 * sampling.TOLERANCE)


class TestCampaign:
    def test_every_size_becomes_a_sample_and_what_it_cost_is_counted(self) -> None:
        instances = Instances()
        found = sample(instances)
        assert {(taken.cpu_cores, taken.memory_mb): taken.per_s for taken in found.samples} == {
            size: pytest.approx(PER_CORE * size[0]) for size in instances.all
        }
        assert len(found.samples) == 4 + 4 - 1
        spent = {size: instance.now_s - 1_000.0 for size, instance in instances.all.items()}
        assert found.core_s == pytest.approx(sum(size[0] * spent_s for size, spent_s in spent.items()))
        assert found.worker_s == pytest.approx(sum(spent.values()))
        assert all(instance.stopped == 1 for instance in instances.all.values())
        assert found.ended_because == "cores: the end of the range; memory: the end of the range"

    def test_a_size_that_fails_is_recorded_with_its_reason_and_the_rest_goes_on(self) -> None:
        special = {(4.0, 100.0): {"dies_above": 5_000.0}, (2.0, 400.0): {"stuck": True}}
        found = sample(Instances(special, refused=((3.0, 400.0),)))
        why = {(size.cpu_cores, size.memory_mb): size.why for size in found.failed}
        assert why == {
            (4.0, 100.0): "out of memory",
            (2.0, 400.0): "nothing came out within 2400 s",
            (3.0, 400.0): "could not be started: no host has so much room",
        }
        assert len(found.samples) == 4
        assert found.worker_s > sum(taken.took_s for taken in found.samples), "failures cost, too"

    def test_one_that_cannot_be_stopped_is_named_and_its_sample_stands(self) -> None:
        found = sample(Instances({(1.0, 400.0): {"unstoppable": True}}))
        assert (1.0, 400.0) in {(taken.cpu_cores, taken.memory_mb) for taken in found.samples}
        (note,) = found.notes
        assert note.startswith("the instance with 1 cores and 400 MB could not be stopped: the cluster does not answer")

    def test_all_are_stopped_whatever_happens(self) -> None:
        instances = Instances({(1.0, 400.0): {"noise": "no generator"}})
        with pytest.raises(AttributeError):
            sample(instances)
        assert instances.all[1.0, 400.0].stopped == 1

    def test_nothing_at_all_is_an_error(self) -> None:
        everything = {(cpu, mb): {"stuck": True} for cpu in (1.0, 2.0, 3.0, 4.0) for mb in (100.0, 200.0, 300.0, 400.0)}
        with pytest.raises(
            SamplingError,
            match="not one of 7 sizes of parse could be sampled: 1 cores, 400 MB and 6 more: nothing came out within",
        ):
            sample(Instances(everything))  # type: ignore[arg-type]

    def test_where_nothing_could_be_sampled_all_that_went_wrong_is_said(self) -> None:
        sizes = [(float(n), float(m)) for n in range(1, 5) for m in range(100, 500, 100)]
        special = {size: {"stuck": True, "unstoppable": size == (1.0, 400.0)} for size in sizes}
        instances = Instances(special, refused=((4.0, 400.0),), unrestorable=True)  # type: ignore[arg-type]
        with pytest.raises(SamplingError) as caught:
            sample(instances)
        said = str(caught.value)
        assert "; 4 cores, 400 MB: could not be started: no host has so much room; " in said
        assert "the instance with 1 cores and 400 MB could not be stopped: the cluster does not answer; stop" in said
        assert said.endswith("could not be restored: its worker keeps 4 cores; restore it by hand")

    def test_progress_is_told_of_every_size(self) -> None:
        told: list[SamplingProgress] = []
        found = sample_operator("parse", FixedStep(2), GRID, Instances(), on_progress=told.append)
        assert [size.number for size in told] == list(range(1, found.tried + 1))
        assert str(told[0]) == "size 1: 1 cores, 400 MB: 10,000/s (cores: fixed step)"


class TestOnTheTwin:
    @pytest.mark.parametrize("window_s", [1, 2, 5])
    def test_windows_shorter_than_the_warm_up_do_not_end_it(self, window_s: int) -> None:
        """Of 1 s, the first few were alike, and all were slow: a third of the performance was missing."""
        operator = load_operator("co1")
        found = converged_performance(TwinSamplingInstances(operator).start(2.0, 300.0), SamplingPlan(window_s))
        assert found == pytest.approx(float(true_performance(operator, 2.0, 300.0)), rel=0.07)

    @pytest.mark.parametrize("name", ["co1", "co2", "cmo1", "cmo2"])
    def test_samples_are_near_the_truth_and_sizes_that_die_are_told(self, name: str) -> None:
        one = load_operator(name)
        found = sample_operator(name, DynamicStep(), one.sizes, TwinSamplingInstances(one, 3))
        sizes = np.array([(s.cpu_cores, s.memory_mb) for s in found.samples])
        truth = true_performance(one, sizes[:, 0], sizes[:, 1])
        off = np.array([s.per_s for s in found.samples]) / truth - 1.0
        assert np.sqrt((off**2).mean()) < 0.08
        assert abs(off.mean()) < 0.04
        assert {s.why for s in found.failed} == {f"out of memory: killed at {s.memory_mb:g} MB" for s in found.failed}
        assert all(s.memory_mb <= one.memory.live_mb for s in found.failed)
        assert len(found.samples) < 30

    def test_the_same_seed_gives_the_same_samples_and_another_others(self) -> None:
        one = load_operator("co2")
        first, again, other = (
            sample_operator("co2", DynamicStep(), one.sizes, TwinSamplingInstances(one, seed)) for seed in (1, 1, 2)
        )
        assert first == again
        assert first.samples != other.samples

    def test_time_is_that_of_the_simulation(self) -> None:
        one = load_operator("co2")
        found = sample_operator("co2", DynamicStep(), one.sizes, TwinSamplingInstances(one, 1, start_s=1_700_000_000))
        assert found.began_s == 1_700_000_000
        assert found.ended_s - found.began_s == pytest.approx(found.worker_s), "one after the other"

    @pytest.mark.parametrize("size", [(0.0, 100.0), (1.0, -3.0), (math.nan, 100.0)])
    def test_impossible_sizes_are_not_started(self, size: tuple[float, float]) -> None:
        with pytest.raises(SamplingError, match="above 0"):
            TwinSamplingInstances(load_operator("co1")).start(*size)

    def test_one_that_was_stopped_processes_nothing(self) -> None:
        one = TwinSamplingInstances(load_operator("co1")).start(1.0, 100.0)
        one.stop()
        one.stop()
        with pytest.raises(SamplingError, match="it was stopped"):
            one.process(0.1, 10)

    def test_below_what_the_runtime_takes_nothing_comes_out(self) -> None:
        with pytest.raises(SamplingError, match="nothing came out"):
            converged_performance(TwinSamplingInstances(load_operator("cmo2")).start(0.05, 200.0), SamplingPlan())


def test_what_was_there_before_comes_back_once_or_is_named() -> None:
    instances = Instances()
    assert sample(instances).notes == ()
    assert instances.restored == 1
    kept = Instances(unrestorable=True)
    assert sample(kept).notes == (
        "what ran before could not be restored: its worker keeps 4 cores; restore it by hand",
    )


def test_it_comes_back_also_when_nothing_could_be_sampled() -> None:
    instances = Instances(refused=tuple((float(n), float(m)) for n in range(1, 5) for m in range(100, 500, 100)))
    with pytest.raises(SamplingError):
        sample(instances)
    assert instances.restored == 1

"""What the busiest worker's share of the records says of scale-outs that never ran."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.zoo.properties import drawn_parameters
from perdix.models.capacity.evidence import Evidence
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.capacity.skew import Skew
from perdix.twin.job import JobTwin
from perdix.twin.parameters import Keys, TwinParameters, Workers
from perdix.twin.workloads import WorkloadSpec

EACH = 1_000.0  # records/s that a worker takes


def ran(scale_out, share, each=EACH):
    return Evidence(scale_out, each / share, 0.05, 60.0 * scale_out, 0.8, hottest_share=share)


def of(*evidence):
    return ScaleOuts(memory={item.scale_out: item for item in evidence}, newest_s=1e4)


def hot_key(scale_out, hot):
    """The share of the worker that processes the hot key, and of the rest what any other does."""
    return hot + (1.0 - hot) / scale_out


def test_a_hot_key_that_was_seen_at_two_sizes_limits_all_larger_ones():
    model = of(*(ran(n, hot_key(n, 0.2)) for n in (2, 4, 8)))
    for n, estimate in model.table(40).items():
        if n > 8:
            true = EACH / hot_key(n, 0.2)
            assert estimate.per_s == pytest.approx(true, rel=0.12)
            assert estimate.low_per_s <= true <= estimate.high_per_s
            assert "a key group or partition is one worker's" in estimate.basis


@pytest.mark.parametrize("contention", [0.0, 0.015, 0.03])
@pytest.mark.parametrize("sizes", [(20,), (15, 21), (14, 20, 30)])
@pytest.mark.parametrize("hot", [0.1, 0.2, 0.4])
def test_a_hot_key_costs_fewer_workers_less(sizes, hot, contention):
    """With half of the workers each has twice the other keys, and the worker of the hot key hardly more."""

    def each(n):
        return EACH / (1.0 + contention * (n - 1))

    table = of(*(ran(n, hot_key(n, hot), each(n)) for n in sizes)).table(max(sizes))
    for n in range(sizes[0] // 3, sizes[0]):
        true = each(n) / hot_key(n, hot)
        assert table[n].low_per_s <= true <= table[n].high_per_s
        assert table[n].per_s == pytest.approx(true, rel=0.20 if contention == 0.015 else 0.30)
        assert f"extrapolated from {sizes[0]} workers: never ran at this size" in table[n].basis


def test_workers_that_differ_a_little_do_so_at_any_size():
    """Nothing to gain beyond what being fewer spares each: 30 workers of 1,000/s are not 15 of 1,200/s."""
    table = of(ran(30, 1.05 / 30)).table(30)
    assert table[15].per_s == pytest.approx(15 * EACH / 1.05, rel=0.25)
    assert table[15].per_s > 15 * EACH / 1.05


def test_keys_that_spread_evenly_limit_nothing():
    found = Skew.seen([ran(n, 1.1 / n) for n in (2, 4, 8)])
    log_value, doubt = (value[0] for value in found.limited(np.array([32]), np.array([math.log(30_000.0)])))
    assert math.exp(log_value) == pytest.approx(EACH * 32 / 1.1, rel=0.15)
    assert doubt < 0.02


def test_of_evidence_without_shares_nothing_is_said():
    old = Evidence(4, 4_000.0, 0.05, 0.0, 0.8)
    assert Skew.seen([old]) is None
    assert Skew.seen([]) is None
    assert Evidence.from_state(old.to_state()) == old
    assert "hottest_share" not in old.to_state()
    assert Evidence.from_state(ran(4, 0.3).to_state()) == ran(4, 0.3)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan, 1e300])
def test_a_share_that_cannot_be_is_refused(share):
    with pytest.raises(ValueError, match="share of the records"):
        Evidence.from_state({**ran(4, 0.3).to_state(), "hottest_share": share})


@given(
    st.lists(st.tuples(st.integers(1, 60), st.floats(0.001, 1.0), st.floats(1.0, 1e7)), min_size=1, max_size=6),
    st.none() | st.integers(1, 200),
)
@example([(3, 0.5, 1.0)], 3)
def test_capacities_never_fall_with_the_scale_out_but_for_partitions(found, partitions):
    """Who adds a worker that changes nothing about the most that one reads, adds one that holds the others up."""
    table = of(*(ran(n, share, each) for n, share, each in found)).table(80, partitions=partitions)
    values = [estimate.per_s for estimate in table.values()]
    assert all(math.isfinite(value) and value > 0 for value in values)
    assert partitions is not None or all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(values))


def twin(seed, scale_out, **keys):
    parameters = TwinParameters(
        name="dealt",
        workers=Workers(capacity_per_s=EACH, maximum=24, speed_spread=0.0, capacity_noise=0.02),
        keys=Keys(**keys),
        workload=WorkloadSpec(shape="constant", peak_per_s=1.0),
        start_scale_out=1,
    )
    return JobTwin(parameters, seed, scale_out=scale_out)


@pytest.mark.parametrize("zipf", [0.0, 0.8, 1.0, 1.1])
def test_the_hottest_share_of_key_groups_is_foreseen_after_three_sizes(zipf):
    """Median over draws: within 11 %; an even spread, which is assumed without it, is further off."""
    off, even = [], []
    for seed in range(30):
        deployed = {n: twin(seed, n, count=20_000, zipf=zipf, groups=128, keyed=1.0) for n in (4, 6, 9, 12, 16)}
        shares = {n: float(max(operator._shares)) for n, operator in deployed.items()}
        found = Skew.seen([ran(n, shares[n]) for n in (4, 6, 9)])
        for n in (12, 16):
            (log_value,), _ = found.limited(np.array([n]), np.array([math.inf]))
            off.append(abs(EACH / math.exp(log_value) / shares[n] - 1.0))
            even.append(1.0 - 1.0 / n / shares[n])
    assert np.median(off) < 0.11
    assert np.median(even) > np.median(off)


def as_deployed(parameters, seed, scale_out):
    """What a stay at this scale-out would tell."""
    deployed = JobTwin(parameters, seed, scale_out=scale_out)
    share = float(deployed._shares[np.argmax(deployed._shares / deployed._deployed_capacities())])
    return Evidence(scale_out, deployed.current_capacity(), 0.07, 60.0 * scale_out, 0.8, hottest_share=share)


def judge(table, scale_outs, truth, held, errors):
    """Add the share of the intervals that hold the truth, and the mean error of the logarithm."""
    true = {n: truth.true_capacity(n) for n in scale_outs}
    held.append(np.mean([table[n].low_per_s <= true[n] <= table[n].high_per_s for n in scale_outs]))
    errors.append(np.mean([math.log(table[n].per_s / true[n]) for n in scale_outs]))


def test_intervals_hold_what_drawn_jobs_take():
    """Of sizes above three that ran; without shares 82 %, and a tenth too much was promised."""
    held, errors = [], []
    for seed in range(8_000, 8_060):
        parameters = drawn_parameters("drawn", np.random.default_rng([seed, 77]))
        most = parameters.workers.maximum
        if most < 8:
            continue
        sizes = sorted({max(1, most // 6), max(2, most // 4), max(3, most // 3)})
        evidence = []
        for n in sizes:
            evidence.append(as_deployed(parameters, seed, n))
        truth = JobTwin(parameters, seed)
        table = of(*evidence).table(most, partitions=parameters.source.partitions)
        above = range(sizes[-1] + 1, most + 1)
        judge(table, above, truth, held, errors)
    assert 0.85 < np.mean(held) < 0.97
    assert abs(np.mean(errors)) < 0.07


def test_intervals_hold_what_fewer_workers_of_drawn_jobs_take():
    """Of sizes below one that ran; from the curve alone 76 % of the intervals held."""
    held, errors = [], []
    for seed in range(8_000, 8_060):
        parameters = drawn_parameters("drawn", np.random.default_rng([seed, 77]))
        most = parameters.workers.maximum
        if most < 8:
            continue
        table = of(as_deployed(parameters, seed, most)).table(most)
        judge(table, range(most // 4, most), JobTwin(parameters, seed), held, errors)
    assert 0.85 < np.mean(held) < 0.97
    assert abs(np.mean(errors)) < 0.07

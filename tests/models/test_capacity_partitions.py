"""A worker reads whole partitions of the source: what that makes of scale-outs that never ran."""

import math

import numpy as np
import pytest

from benchmarks.zoo.properties import drawn_parameters
from perdix.models.capacity.evidence import Evidence
from perdix.models.capacity.key_groups import Subtasks
from perdix.models.capacity.partitions import evenness, if_read_evenly, read_shares, read_unevenly
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.telemetry.window import Window
from perdix.twin.job import JobTwin

EACH = 1_000.0  # records/s that a worker takes


def ran(scale_out, share, each=EACH, speed=None):
    return Evidence(scale_out, each / share, 0.05, 60.0 * scale_out, 0.8, hottest_share=share, hottest_speed=speed)


def of(*evidence):
    return ScaleOuts(memory={item.scale_out: item for item in evidence}, newest_s=1e4)


def share_read(partitions, scale_out):
    return float(read_shares(partitions, np.array([scale_out]))[0])


@pytest.mark.parametrize(("n", "reads"), [(1, 1.0), (5, 2 / 8), (7, 2 / 8), (8, 1 / 8), (20, 1 / 8), (10_000, 1 / 8)])
def test_a_worker_reads_whole_partitions(n, reads):
    assert read_shares(8, np.array([n])) == [reads]
    assert evenness(8, np.array([n])) == pytest.approx(1.0 / n / reads)


def test_workers_beyond_the_partitions_add_nothing():
    table = of(ran(3, 1 / 3), ran(4, 1 / 4)).table(20, partitions=8)
    assert table[7].per_s == pytest.approx(table[5].per_s, rel=0.05)
    assert 0.8 * table[8].per_s < table[20].per_s <= table[8].per_s
    assert table[8].low_per_s < 8 * EACH < table[8].high_per_s
    assert of(ran(3, 1 / 3), ran(4, 1 / 4)).table(20)[20].per_s > 1.5 * table[20].per_s


@pytest.mark.parametrize("sizes", [(8,), (4, 8), (8, 12)])
def test_between_sizes_that_divide_the_partitions_workers_add_nothing(sizes):
    """With 8 partitions one of 5, 6 or 7 workers reads two, as each of 4 does."""
    known, unknown = (of(*(ran(n, share_read(8, n)) for n in sizes)).table(8, partitions=p) for p in (8, None))
    for n in (5, 6, 7):
        assert known[n].per_s == pytest.approx(4 * EACH, rel=0.10)
        assert known[n].per_s == pytest.approx(known[4].per_s, rel=0.10)
    assert unknown[6].per_s > 1.2 * known[6].per_s


def test_what_partitions_explain_is_not_held_against_fewer_workers():
    """24 partitions on 17 workers: one reads two of them, as each of 12 does."""
    known, unknown = (of(ran(17, 2 / 24)).table(17, partitions=p) for p in (24, None))
    assert known[12].per_s == pytest.approx(12 * EACH, rel=0.15)
    assert known[12].per_s > unknown[12].per_s
    # Fewer workers hold each other up less: 11 of them, each with three partitions at most, take more than two thirds.
    assert known[11].per_s > 1.05 * EACH / (3 / 24)


@pytest.mark.parametrize(("partitions", "n"), [(6, 5), (24, 23), (12, 11), (30, 29)])
def test_one_more_worker_that_lets_each_read_one_partition_takes_far_more(partitions, n):
    """Five workers read six partitions, so one of them two: six take up to twice as much, not a fifth more."""
    table = of(ran(n, 2 / partitions)).table(partitions, partitions=partitions)
    assert table[n].per_s == pytest.approx(EACH * partitions / 2, rel=0.05)
    assert table[partitions].per_s > 1.5 * table[n].per_s
    assert table[partitions].high_per_s > EACH * partitions


def test_who_reads_most_partitions_is_some_worker_and_not_the_slowest():
    """Nine workers, of which the slowest is full first: one of five reads four of 16 partitions, and not that one."""
    slow, unknown = (of(ran(9, 1.1 / 9, 0.8 * EACH, speed)).table(9, partitions=16) for speed in (0.8, None))
    assert slow[5].per_s == pytest.approx(EACH / (4 / 16), rel=0.12)
    assert slow[5].per_s > 1.04 * unknown[5].per_s


def test_the_slowest_of_fewer_workers_is_not_as_slow():
    slow, alike = (of(ran(16, 1 / 16, 0.7 * EACH, speed)).table(16) for speed in (0.7, 1.0))
    assert slow[16] == alike[16]
    assert slow[4].per_s > 1.1 * alike[4].per_s
    assert slow[4].per_s < slow[16].per_s


def test_what_ran_is_as_it_ran_whatever_the_partitions_say():
    model = of(ran(3, 1 / 3), ran(12, 1 / 12))
    assert model.table(12, partitions=4)[12] == model.table(12)[12]


@pytest.mark.parametrize("n", [1, 5, 6, 8, 10_000])
def test_what_was_read_evenly_or_held_up_by_keys_stays_as_it_is(n):
    by_keys = ran(n, min(1.4 * share_read(8, n), 1.0))
    assert if_read_evenly(by_keys, 8) is by_keys
    unknown = Evidence(n, EACH, 0.05, 0.0, 0.8)
    assert if_read_evenly(unknown, 8) is unknown
    read = ran(n, share_read(8, n))
    assert read_unevenly(read, 8) is (n not in {1, 8})
    assert if_read_evenly(read, 8).per_s >= read.per_s


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan, math.inf])
def test_a_speed_that_cannot_be_is_refused(speed):
    kept = ran(4, 0.3, speed=0.9).to_state()
    assert Evidence.from_state(kept) == ran(4, 0.3, speed=0.9)
    with pytest.raises(ValueError, match="speed"):
        Evidence.from_state({**kept, "hottest_speed": speed})


def window(partitions, scale_out, start_s, speeds):
    """Workers that are full at the same load as far as their partitions and speeds say, at half of that."""
    times = start_s + 5.0 * np.arange(36)
    reads = np.array([len(range(worker, partitions, scale_out)) for worker in range(scale_out)]) / partitions
    load = 0.5 + 0.2 * np.sin(times / 300.0)
    busy = load[:, None] * reads / speeds[:scale_out] / (reads / speeds[:scale_out]).max()
    names = tuple(f"tm-{number:02d}" for number in range(scale_out))
    columns = {"cpu_load": 0.1 + 0.9 * busy, "throughput_per_s": EACH * busy * speeds[:scale_out]}
    return Window("job", 5.0, times, names, {}, columns, times[-1])


def test_what_workers_read_is_not_taken_for_their_key_groups():
    """Nine of 15 workers and eight of 16 read two of 24 partitions: at 12 nobody has fewer than the others."""
    speeds = np.exp(0.1 * np.random.default_rng(3).standard_normal(24))
    learned = {}
    for partitions in (24, None):
        model = ScaleOuts()
        for k, n in enumerate((15, 16)):
            subtasks = Subtasks(tuple(f"tm-{number:02d}" for number in range(n)))
            for minute in range(25):
                at_s = 10_000.0 * k + 60.0 * minute
                model = model.update(window(24, n, at_s, speeds), n, subtasks, partitions=partitions)
        learned[partitions] = model
    assert learned[None].groups.seen
    assert not learned[24].groups.seen
    slowest = 12 * EACH * speeds[:12].min()
    assert learned[24].table(24, partitions=24)[12].per_s == pytest.approx(slowest, rel=0.15)


def test_intervals_hold_what_drawn_jobs_with_partitions_take():
    """Of fewer and more workers than one size that ran; jobs' mean errors scattered by 12 % before, and 86 % held."""
    held, errors = [], []
    for seed in range(9_000, 9_120):
        parameters = drawn_parameters("drawn", np.random.default_rng([seed, 77]))
        most, partitions = parameters.workers.maximum, parameters.source.partitions
        if most < 6 or partitions is None:
            continue
        n = int(np.random.default_rng(seed).integers(3, most + 1))
        deployed, truth = JobTwin(parameters, seed, scale_out=n), JobTwin(parameters, seed)
        takes = deployed._deployed_capacities()
        hottest = int(np.argmax(deployed._shares / takes))
        share, speed = float(deployed._shares[hottest]), float(takes[hottest] / takes.mean())
        table = of(ran(n, share, deployed.current_capacity() * share, speed)).table(most, partitions=partitions)
        others = [m for m in range(-(-n // 2), min(2 * n, most) + 1) if m != n]
        true = {m: truth.true_capacity(m) for m in others}
        held.append(np.mean([table[m].low_per_s <= true[m] <= table[m].high_per_s for m in others]))
        errors.append(np.mean([math.log(table[m].per_s / true[m]) for m in others]))
    assert len(held) > 30
    assert 0.9 < np.mean(held) < 0.99
    assert abs(np.mean(errors)) < 0.03
    assert np.std(errors) < 0.095

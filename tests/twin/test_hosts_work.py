"""Rates of instances, CPU that hosts share, and how long items wait: by hand, and whatever is put together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import lognorm

from perdix.twin.hosts.parameters import load_topology
from perdix.twin.hosts.system import Placement, Work
from perdix.twin.hosts.waiting import mean_own, share_within, waits_s

TOPOLOGY = load_topology("manufacturing")
OPERATORS = list(TOPOLOGY.operators)
PARSE, OEE = OPERATORS.index("parse"), OPERATORS.index("oee")
CORES = np.array([operator.cpu_cores for operator in TOPOLOGY.operators.values()])
BOOST = TOPOLOGY.processing.boost


def placed(*hosts: dict[int, int]) -> Placement:
    counts = np.zeros((len(hosts), len(OPERATORS)))
    order = []
    for row, mine in enumerate(hosts):
        for k, count in mine.items():
            counts[row, k] = count
        order.append(tuple(k for k, count in mine.items() for _ in range(count)))
    return Placement(tuple(range(len(hosts))), counts, tuple(order))


def test_an_instance_works_off_what_the_calibration_says() -> None:
    work, one = Work(TOPOLOGY), placed({OEE: 1})
    per_s = work.guaranteed(one, np.ones(1))[OEE]
    assert per_s == pytest.approx(TOPOLOGY.processing.at_a_time / 0.7)
    assert work.guaranteed(one, np.array([0.5]))[OEE] == pytest.approx(0.5 * per_s), "on a slow host half as much"


def test_idle_cpu_doubles_it_where_there_is_enough() -> None:
    work, one = Work(TOPOLOGY), placed({OEE: 3})
    guaranteed = work.guaranteed(one, np.ones(1))
    wanted = np.zeros(len(OPERATORS))
    wanted[OEE] = 100.0 * guaranteed[OEE]
    assert work.with_idle_cpu(one, np.ones(1), guaranteed, wanted)[OEE] == pytest.approx(BOOST * guaranteed[OEE])
    wanted[OEE] = 0.5 * guaranteed[OEE]
    assert work.with_idle_cpu(one, np.ones(1), guaranteed, wanted)[OEE] == pytest.approx(guaranteed[OEE])


def test_who_was_there_first_gets_the_idle_cpu() -> None:
    work = Work(TOPOLOGY)
    wanted = np.zeros(len(OPERATORS))
    wanted[[PARSE, OEE]] = 1e6
    gained = {}
    for first, hosts in (("parse", {PARSE: 5, OEE: 5}), ("oee", {OEE: 5, PARSE: 5})):
        one = placed(hosts)
        guaranteed = work.guaranteed(one, np.ones(1))
        found = work.with_idle_cpu(one, np.ones(1), guaranteed, wanted)
        gained[first] = (found / np.maximum(guaranteed, 1e-9))[[PARSE, OEE]]
    # 4 cores, of which 5 x (0.66 + 0.046) are guaranteed: 0.47 cores are idle.
    assert gained["parse"] == pytest.approx([1 + 0.47 / (5 * 0.66), 1.0])
    assert gained["oee"] == pytest.approx([1 + (0.47 - 5 * 0.046) / (5 * 0.66), BOOST])


counts = st.lists(st.integers(0, 6), min_size=9, max_size=9)


@settings(max_examples=100, deadline=None)
@given(st.lists(counts, min_size=1, max_size=4), st.lists(st.floats(0, 500), min_size=9, max_size=9))
def test_no_host_works_more_than_its_cores(hosts: list[list[int]], wanted: list[float]) -> None:
    fitting = []
    for mine in hosts:
        kept: dict[int, int] = {}
        for k, count in enumerate(mine):
            while count and sum(CORES[i] * n for i, n in kept.items()) + CORES[k] <= TOPOLOGY.hosts.cores:
                kept[k], count = kept.get(k, 0) + 1, count - 1  # noqa: PLW2901
        fitting.append(kept)
    work, one, speeds = Work(TOPOLOGY), placed(*fitting), np.ones(len(hosts))
    guaranteed = work.guaranteed(one, speeds)
    asked = np.array(wanted)
    can = work.with_idle_cpu(one, speeds, guaranteed, asked)
    assert (can >= guaranteed - 1e-9).all(), "what is guaranteed is there"
    assert (can <= BOOST * guaranteed + 1e-9).all()
    processed = np.minimum(asked, can)
    used_cores = float((processed / work.per_instance_s * CORES).sum())
    assert used_cores <= TOPOLOGY.hosts.cores * len(hosts) + 1e-9
    assert (work.at_most(one, speeds, guaranteed, asked) <= BOOST * guaranteed + 1e-9).all()


def test_an_item_waits_for_those_before_it() -> None:
    # 10 items come in the first second and none later; 4 are begun per second.
    arrived = np.array([0.0, 10.0, 10.0, 10.0, 10.0])
    left = np.array([0.0, 4.0, 8.0, 10.0, 10.0])
    found = waits_s(arrived, left, slice(0, 3), np.zeros(3), 0.0)
    # The n-th came at n / 10 and is begun at n / 4, while four were begun per second.
    numbers = np.array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])
    assert found[:2].ravel() == pytest.approx(numbers / 4 - numbers / 10)
    assert waits_s(arrived, left, slice(1, 2), np.zeros(1), 0.0).ravel() == pytest.approx(found[1]), (
        "wherever one looks"
    )


def test_who_keeps_up_lets_items_wait_within_a_burst_only() -> None:
    arrived = np.arange(5.0) * 10
    found = waits_s(arrived, arrived, slice(0, 4), np.array([0.0, 0.5, 1.0, 1.0]), 0.4)
    assert found.max(axis=1) == pytest.approx([0.0, 0.175, 0.35, 0.35])


def test_shares_within_a_limit_are_those_of_the_distribution() -> None:
    waited_s = np.full((1, 4), 0.3)
    within = share_within(waited_s, np.array([1.2]), 0.6, 2.0, (0.8, 0.3))
    assert within[0] == pytest.approx(lognorm(0.3, scale=0.8 * 1.2 * 0.6).cdf(2.0 * 0.6 - 0.3))
    assert share_within(np.full((1, 4), 1.3), np.ones(1), 0.6, 2.0, (0.8, 0.3))[0] == 0.0
    assert mean_own(0.8, 0.3) == pytest.approx(lognorm(0.3, scale=0.8).mean())

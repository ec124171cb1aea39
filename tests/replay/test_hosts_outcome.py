"""What leases cost, and how compliance is counted: by hand, and for any leases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.replay.hosts.outcome import Lease, bill, delayed_items, leases_of, time_to_adapt_s
from perdix.settings.prices import Billing
from perdix.twin.hosts.leased import LeasedHost
from perdix.twin.hosts.ledger import Course
from perdix.twin.hosts.parameters import Topology, load_topology

PRICE_PER_H = 6.0  # 1, 3 and 6 for 10, 30 and 60 min


def of(unit_min: int, *spans: tuple[int, int, bool]) -> tuple[int, float, float, int]:
    leases = [Lease(f"h{k}", since, until, kept) for k, (since, until, kept) in enumerate(spans)]
    found = bill(leases, Billing(unit_s=60 * unit_min), PRICE_PER_H, {"near": 2.5})
    assert found.total_cost == {"near": pytest.approx(found.resource_cost + 2.5)}
    return found.paid_units, found.resource_cost, found.unused_s, found.premature


def test_every_unit_that_was_begun_is_paid_whole() -> None:
    whole, short = (0, 7_200, True), (600, 1_500, False)
    assert of(10, whole, short) == (12 + 2, pytest.approx(14.0), 300.0, 1)
    assert of(30, whole, short) == (4 + 1, pytest.approx(15.0), 900.0, 1)
    assert of(60, whole, short) == (2 + 1, pytest.approx(18.0), 2_700.0, 1)


def test_a_host_that_is_given_back_shortly_before_the_end_of_its_unit_is_not_premature() -> None:
    assert of(10, (0, 1_150, False)) == (2, pytest.approx(2.0), 50.0, 0)
    assert of(60, (0, 3_430, False))[3] == 0
    assert of(60, (0, 3_410, False))[3] == 1


@given(
    st.lists(st.tuples(st.integers(0, 7_000), st.integers(0, 7_200)), max_size=30),
    st.sampled_from([1, 10, 30, 60]),
)
def test_no_unit_is_lost_and_a_longer_unit_is_never_cheaper(spans: list[tuple[int, int]], unit_min: int) -> None:
    ordered = [(min(pair), max(pair), False) for pair in spans]
    units, cost, unused_s, _ = of(unit_min, *ordered)
    leased_s = sum(until - since for since, until, _ in ordered)
    assert units * unit_min * 60 == pytest.approx(leased_s + unused_s)
    assert cost == pytest.approx(units * unit_min * PRICE_PER_H / 60)
    assert of(2 * unit_min, *ordered)[1] >= cost - 1e-9


def test_leases_end_with_the_run() -> None:
    hosts = [LeasedHost("a", 0, 0, 0), LeasedHost("b", 1, 100, 150, gone_s=500)]
    assert leases_of(hosts, 600) == (Lease("a", 0, 600, True), Lease("b", 100, 500, False))


def test_a_host_that_died_was_not_given_back() -> None:
    (lease,) = leases_of([LeasedHost("a", 0, 0, 0, died=True, gone_s=600)], 7_200)
    found = bill([lease], Billing(unit_s=3_600), PRICE_PER_H, {})
    assert (found.paid_units, found.unused_s, found.premature) == (1, 0.0, 0)


def flat(topology: Topology, queue: list[float], per_s: float = 10.0) -> Course:
    """Return a course in which the queue of the first operator is as given at the end of each second, others idle."""
    seconds, width = len(queue), len(topology.operators)
    arrived = np.zeros((seconds + 1, width))
    arrived[1:, 0] = per_s * np.arange(1, seconds + 1)
    left = arrived.copy()
    left[1:, 0] -= queue
    zeros = np.zeros((seconds, width))
    return Course(arrived, left, zeros, zeros + 1.0, zeros, zeros, zeros[:, 0], zeros[:, 0])


def test_delayed_items_by_hand() -> None:
    topology = load_topology("manufacturing")
    topology = topology.model_copy(
        update={"processing": topology.processing.model_copy(update={"usual": 0.5, "spread": 0.001})}
    )
    # The first operator's objective is 1.5 s and its own duration 0.75 s, so 0.75, 2.25 and 6.75 s of waiting are
    # allowed; once 40 items wait at 10/s, each waits 4 s.
    queue = [0.0] * 10 + [10.0, 20.0, 30.0] + [40.0] * 50
    found = delayed_items(topology, flat(topology, queue))
    assert found["relaxed"] == 0.0
    # While the queue grows nothing is begun, so all that is begun after the tenth second is late.
    assert found["near"] == pytest.approx(10.0 * 49, abs=10.0)
    assert found["real-time"] == pytest.approx(found["near"], abs=10.0)
    assert delayed_items(topology, flat(topology, [0.0] * 60)) == {"real-time": 0.0, "near": 0.0, "relaxed": 0.0}


def test_time_to_adapt_is_from_the_first_delay_to_the_empty_queue() -> None:
    topology = load_topology("manufacturing")
    late = [0.0] * 10 + [40.0] * 20 + [0.0] * 10
    assert time_to_adapt_s(topology, flat(topology, late)) == pytest.approx(20.0, abs=4.0)
    assert time_to_adapt_s(topology, flat(topology, [0.0] * 40)) is None
    assert time_to_adapt_s(topology, flat(topology, [0.0] * 10 + [40.0] * 20)) == pytest.approx(20.0, abs=5.0)

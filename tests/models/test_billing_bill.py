"""Bills: what a course of workers costs, what of it is wasted, and on which type it costs least."""

from __future__ import annotations

import time
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.billing.bill import Demand, bill, bills, least_cost, quotes
from perdix.models.billing.leases import Release
from perdix.models.billing.packing import DoesNotFitError, Resources
from perdix.settings.prices import Billing, InstanceType, PriceList, Reserved, load_prices

WORKER = Resources(1.0, 2048.0)
RELEASES = (Release("at-once"), Release("end-of-unit"), Release("at-once", 120.0))


def price_list(billing: Billing, reserved: Reserved | None = None, **types: InstanceType) -> PriceList:
    return PriceList(
        name="test",
        currency="EUR",
        as_of=date(2025, 1, 1),
        billing=billing,
        reserved=reserved or Reserved(),
        instance_types=types,
    )


def machine(cores: float, memory_mb: float, price_per_h: float, start_up_s: float = 0.0) -> InstanceType:
    return InstanceType(cores=cores, memory_mb=memory_mb, price_per_h=price_per_h, start_up_s=start_up_s)


def test_a_bill_by_hand() -> None:
    """2 workers for an hour, then 5 for half: one and two hosts of 4, that is three hours begun, at 1 each."""
    prices = price_list(Billing(unit_s=3600), four=machine(4, 8192, 1.0))
    found = bill(Demand.of_workers([2] * 3600 + [5] * 1800, WORKER), prices, "four")
    one = found.bill
    assert (one.cost, one.host_h_paid, one.host_h_used, one.leases, one.most_hosts) == (3.0, 3.0, 2.0, 2, 2)
    assert one.utilisation == pytest.approx((2 + 2.5) / 12)
    assert one.wasted_cost == pytest.approx(3.0 * (1 - 4.5 / 12))
    assert (one.instance_type, one.currency) == ("four", "EUR")
    np.testing.assert_allclose(found.hosts, [1] * 3600 + [2] * 1800)


def test_the_start_up_is_paid_and_carries_nobody() -> None:
    prices = price_list(Billing(unit_s=1), one=machine(1, 2048, 3600.0, start_up_s=45))
    found = bill(Demand.of_workers([0] * 100 + [1] * 100, WORKER), prices, "one").bill
    assert found.cost == pytest.approx(145.0)
    assert found.host_h_used == pytest.approx(100 / 3600)
    assert found.wasted_cost == pytest.approx(45.0)


def test_the_papers_hosts_take_three_workers_of_two_gigabytes() -> None:
    """visp-60: 4 cores and 7168 MB; seven workers are three hosts, two hours and a second are three units at 6."""
    found = bill(Demand.of_workers([7] * 7201, WORKER), load_prices("visp-60"), "dockerhost", Release("end-of-unit"))
    assert found.bill.most_hosts == 3
    assert found.bill.cost == pytest.approx(3 * 3 * 6.0)


def test_mixes_share_hosts() -> None:
    """Three cores beside one core fill a host of four; counted apart they would need two hosts."""
    prices = price_list(Billing(unit_s=1), four=machine(4, 8192, 1.0))
    sizes = (Resources(3.0, 1024.0), Resources(1.0, 1024.0))
    found = bill(Demand.of_mixes([[1, 1]] * 3600 + [[2, 1]] * 3600, sizes), prices, "four").bill
    assert (found.most_hosts, found.host_h_used) == (2, 3.0)
    assert found.utilisation == pytest.approx((4 + 7) / 12)


def test_the_cheapest_type_comes_first_and_what_does_not_fit_is_told() -> None:
    prices = price_list(
        Billing(unit_s=1),
        wide=machine(8, 16384, 0.8),
        small=machine(2, 4096, 0.19),
        tiny=machine(1, 1024, 0.01),
    )
    steady, short = Demand.of_workers([8] * 600, WORKER), Demand.of_workers([1] * 3600, WORKER)
    cheapest, left_out = bills([steady], prices)
    assert [offers[0].bill.instance_type for offers in cheapest] == ["small", "wide"]
    assert "a worker of 1 core and 2,048 MB fits on no host" in left_out["tiny"]
    assert bills([short], prices)[0][0][0].bill.cost == pytest.approx(0.19)
    both, _ = bills([steady, short], prices)
    assert [len(leases) for leases in both] == [2, 2]


def test_nothing_to_carry_costs_nothing() -> None:
    prices = price_list(Billing(unit_s=3600), four=machine(4, 8192, 1.0))
    found = bill(Demand.of_workers([0] * 60, WORKER), prices, "four").bill
    assert (found.cost, found.leases, found.utilisation, found.wasted_cost) == (0.0, 0, None, 0.0)
    assert bill(Demand.of_workers([], WORKER), prices, "four").bill.cost == 0.0


def test_a_worker_that_fits_nowhere_is_an_error() -> None:
    prices = price_list(Billing(unit_s=1), Reserved(memory_share=0.1), exact=machine(1, 2048, 1.0))
    with pytest.raises(DoesNotFitError, match=r"has 1 core and 1,843 MB for workers \(memory too small\)"):
        bill(Demand.of_workers([1], WORKER), prices, "exact")
    assert least_cost(3600.0, WORKER, prices) is None


@pytest.mark.parametrize("workers", [[-1], [0.5], [float("nan")], [float("inf")]])
def test_workers_are_whole_numbers(workers: list[float]) -> None:
    with pytest.raises(ValueError, match="whole numbers from 0 on"):
        Demand.of_workers(workers, WORKER)


def test_a_mix_has_as_many_columns_as_sizes() -> None:
    with pytest.raises(ValueError, match="must be of shape"):
        Demand.of_mixes([[1, 2]], (WORKER,))


PRICES = st.builds(
    lambda billing, cores, memory_mb, price, start_up_s: price_list(
        billing, host=machine(cores, memory_mb, price, start_up_s)
    ),
    st.sampled_from([Billing(unit_s=1), Billing(unit_s=1, minimum_s=60), Billing(unit_s=600), Billing(unit_s=3600)]),
    st.integers(1, 16),
    st.sampled_from([2048, 8192, 65536]),
    st.floats(0.01, 2.0),
    st.floats(0, 90),
)
RUNS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 900)), min_size=1, max_size=12)


@given(RUNS, PRICES, st.sampled_from(RELEASES))
def test_nobody_pays_less_than_the_cores_that_are_used(
    runs: list[tuple[int, int]], prices: PriceList, release: Release
) -> None:
    workers = np.repeat([count for count, _ in runs], [length for _, length in runs])
    found = bill(Demand.of_workers(workers, WORKER), prices, "host", release).bill
    host = prices.instance_types["host"]
    used = float(workers.sum()) * WORKER.cores / host.cores * host.price_per_h / 3600.0
    assert found.cost >= used - 1e-9
    assert found.wasted_cost == pytest.approx(found.cost - used, abs=1e-9)
    least = least_cost(float(workers.sum()), WORKER, prices)
    assert least is not None
    assert used - 1e-9 <= least <= found.cost + 1e-9
    assert found.host_h_paid >= found.host_h_used - 1e-9


def test_a_day_is_billed_in_milliseconds() -> None:
    """A rescale every five minutes, on every one of ten types, by both rules."""
    rng = np.random.default_rng(7)
    workers = np.repeat(rng.integers(1, 25, 288), 300)
    prices = load_prices("aws-ec2-us-east-1")
    began_s = time.perf_counter()
    demand = Demand.of_workers(workers, WORKER)
    for release in RELEASES:
        assert len(bills([demand], prices, release)[0]) == 10
    assert (time.perf_counter() - began_s) / 30 < 0.25  # about 5 ms on an idle machine


def test_quotes_come_cheapest_first() -> None:
    """Twelve workers of 1 core and 4 GB; a tenth of each host's memory is the system's."""
    found, left_out = quotes(load_prices("aws-ec2-us-east-1"), Resources(1.0, 4096.0), 12)
    by_type = {quote.instance_type: quote for quote in found}
    assert [quote.price_per_h for quote in found] == sorted(quote.price_per_h for quote in found)
    assert "c6i.large" in left_out  # 4096 MB less a tenth
    assert (by_type["m6i.xlarge"].per_host, by_type["m6i.xlarge"].hosts) == (3, 4)
    assert by_type["m6i.xlarge"].price_per_h == pytest.approx(4 * 0.192)
    assert by_type["m6i.xlarge"].worker_price_per_h == pytest.approx(4 * 0.192 / 12)
    assert by_type["m6i.xlarge"].utilisation == pytest.approx(12 / 16)
    with pytest.raises(ValueError, match="at least 1 worker"):
        quotes(load_prices("visp-10"), WORKER, 0)

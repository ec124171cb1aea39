"""Workers onto hosts: nothing is overfull, nobody is left out, and no host could be saved beyond the gap."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.billing.packing import DoesNotFitError, Resources, lower_bound, pack, per_host

HOST = Resources(4.0, 7168.0)
SIZES = st.builds(Resources, st.floats(0.1, 4.0), st.floats(64.0, 7168.0))


@pytest.mark.parametrize(
    ("worker", "count"),
    [
        (Resources(1.0, 2048.0), 3),  # memory is short
        (Resources(1.0, 1024.0), 4),  # cores are
        (Resources(0.66, 452.0), 6),  # the paper's operator O1
        (Resources(4.0, 7168.0), 1),
        (Resources(0.1, 16.0), 40),  # 40 times 0.1 is 4, whatever floats say
    ],
)
def test_a_host_takes_as_many_as_cores_and_memory_allow(worker: Resources, count: int) -> None:
    assert per_host(worker, HOST) == count


def test_a_worker_that_fits_on_no_host_is_an_error_that_names_sizes() -> None:
    with pytest.raises(DoesNotFitError, match=r"a worker of 8 cores and 2,048 MB fits on no host that has 4 cores and"):
        per_host(Resources(8, 2048), HOST)
    with pytest.raises(DoesNotFitError, match=r"7,168 MB for workers \(cores and memory too small\)"):
        per_host(Resources(8, 8000), HOST)
    with pytest.raises(DoesNotFitError, match="size 'big': a worker of 5 cores"):
        pack({"small": 2, "big": 1}, {"small": Resources(1, 1), "big": Resources(5, 1)}, HOST)


@pytest.mark.parametrize(("cores", "memory_mb"), [(0, 1), (1, 0), (-1, 1), (float("nan"), 1), (1, float("inf"))])
def test_a_size_must_be_something(cores: float, memory_mb: float) -> None:
    with pytest.raises(ValueError, match="must be a number above 0"):
        Resources(cores, memory_mb)


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 workers of size 'a'"):
        pack({"a": -1}, {"a": Resources(1, 1)}, HOST)
    with pytest.raises(ValueError, match="size 'b' is not known; known: a"):
        pack({"b": 1}, {"a": Resources(1, 1)}, HOST)


def test_nobody_needs_no_host() -> None:
    assert pack({}, {}, HOST).hosts == ()
    assert pack({"a": 0}, {}, HOST).hosts == ()


def test_several_sizes_share_hosts() -> None:
    """Two of 3 cores and two of 1 core fill two hosts of 4; in the order small to large they would need three."""
    sizes = {"large": Resources(3, 1024), "small": Resources(1, 1024)}
    found = pack({"small": 2, "large": 2}, sizes, HOST)
    assert sorted(map(dict, found.hosts), key=str) == [{"large": 1, "small": 1}] * 2
    assert found.lower_bound == 2


def test_the_order_that_needs_fewest_hosts_is_taken() -> None:
    """Large by cores alone, or by memory alone: only some order pairs the wide with the tall."""
    sizes = {"wide": Resources(3.0, 700.0), "tall": Resources(0.9, 6000.0), "even": Resources(2.0, 3500.0)}
    found = pack({"wide": 2, "tall": 2, "even": 2}, sizes, HOST)
    assert len(found.hosts) == found.lower_bound == 3


MIXES = st.lists(st.tuples(SIZES, st.integers(1, 30)), min_size=1, max_size=5)


@given(MIXES)
def test_every_worker_has_a_place_and_no_host_is_overfull(mix: list[tuple[Resources, int]]) -> None:
    sizes = {str(k): size for k, (size, _) in enumerate(mix)}
    workers = {str(k): count for k, (_, count) in enumerate(mix)}
    found = pack(workers, sizes, HOST)
    placed = {name: sum(host.get(name, 0) for host in found.hosts) for name in workers}
    assert placed == workers
    for host in found.hosts:
        assert sum(count * sizes[name].cores for name, count in host.items()) <= HOST.cores * (1 + 1e-6)
        assert sum(count * sizes[name].memory_mb for name, count in host.items()) <= HOST.memory_mb * (1 + 1e-6)
    assert found.lower_bound <= len(found.hosts)


@given(SIZES, st.integers(1, 200))
def test_equal_workers_are_packed_exactly(size: Resources, count: int) -> None:
    found = pack({"a": count}, {"a": size}, HOST)
    assert len(found.hosts) == found.lower_bound == -(-count // per_host(size, HOST))


@given(st.lists(st.tuples(SIZES, st.integers(1, 2)), min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_the_bound_is_below_the_best_and_the_packing_at_most_one_host_above_it(
    mix: list[tuple[Resources, int]],
) -> None:
    sizes = {str(k): size for k, (size, _) in enumerate(mix)}
    workers = {str(k): count for k, (_, count) in enumerate(mix)}
    best = _fewest(workers, sizes)
    assert lower_bound(workers, sizes, HOST) <= best
    assert best <= len(pack(workers, sizes, HOST).hosts) <= best + 1


def _fewest(workers: Mapping[str, int], sizes: Mapping[str, Resources]) -> int:
    """Try every assignment of workers to hosts: each goes onto every open host that has room, and onto a new one."""
    each = [sizes[name] for name, count in workers.items() for _ in range(count)]

    def from_here(k: int, free: list[tuple[float, float]]) -> int:
        if k == len(each):
            return len(free)
        found = len(each) + 1
        for at, (cores, memory_mb) in enumerate([*free, (HOST.cores * (1 + 1e-9), HOST.memory_mb * (1 + 1e-9))]):
            left = (cores - each[k].cores, memory_mb - each[k].memory_mb)
            if min(left) >= 0:
                found = min(found, from_here(k + 1, [*free[:at], left, *free[at + 1 :]]))
        return found

    return from_here(0, [])

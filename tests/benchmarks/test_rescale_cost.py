"""Which rescales are measured, and in which order."""

from collections import Counter

from benchmarks.rescale_cost import WAYS, Cost, due_of


def measured(way: str, to: int) -> Cost:
    return Cost(way, 10, 31, to, waited_s=1.0, standstill_s=1.0, again=0.0, nothing_waits_s=None, state_mb=10.0)


def test_each_way_scales_out_as_often_as_in() -> None:
    order = [way for way, _ in due_of([], ["request", "last"], [31], 6)]
    fell = Counter((way, number % 2) for number, way in enumerate(order))
    assert set(fell.values()) == {3}


def test_what_was_measured_before_is_not_measured_again() -> None:
    before = [measured("request", 3), measured("request", 2), measured("last", 3)]
    left = Counter(way for way, _ in due_of(before, list(WAYS), [31], 2))
    assert left == {"last": 1, "first": 2, "perdix": 2}

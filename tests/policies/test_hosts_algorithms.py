"""Algorithms 1 to 3 of Hochreiner et al. (PeerJ CS 2018), with numbers worked out by hand from the printed lines."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.policies.hosts.host_selection import UNSUITABLE, Need, Room, best_host, feasibility, suitability
from perdix.policies.hosts.operator_selection import NEEDED, Standing, Weights, utilities
from perdix.policies.hosts.scale_out_trigger import predicted_s, trigger

OPERATOR = Need(0.66, 452.0, "O1")
GROWING_S = (0.5, 0.51, 0.52, 0.53, 0.54)


def room(free_cores: float, free_mb: float, *images: str) -> Room:
    return Room(4.0, 7_168.0, free_cores, free_mb, frozenset(images))


@pytest.mark.parametrize(("durations_s", "expected_s"), [(GROWING_S, 0.55), ((0.5,) * 5, 0.5), ((0.7,), 0.7)])
def test_the_trend_is_the_least_squares_line_one_step_on(durations_s: tuple[float, ...], expected_s: float) -> None:
    assert predicted_s(durations_s) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("durations_s", "objective_s", "queue", "needed"),
    [
        ((0.7,) * 5, 0.6, 51, True),
        ((0.7,) * 5, 0.6, 50, False),  # a hiccup: the queue must exceed the threshold
        (GROWING_S, 0.545, 51, True),  # only the trend is above
        (GROWING_S, 0.55, 1_000, False),  # "higher than"
        (GROWING_S[::-1], 0.545, 1_000, False),  # it gets better
    ],
)
def test_a_type_is_scaled_out_when_it_is_late_or_will_be_and_items_wait(
    durations_s: tuple[float, ...], objective_s: float, queue: float, needed: bool
) -> None:
    found = trigger(durations_s, objective_s, queue)
    assert (found.needed, found.measured) == (needed, True)


def test_only_the_last_durations_make_the_trend() -> None:
    assert not trigger((9.0, 0.5, 0.5, 0.5, 0.5, 0.5), 0.6, 100.0).needed
    assert trigger((0.1, 0.1, 0.5, 0.58), 0.6, 100.0, most_durations=2).needed


@pytest.mark.parametrize(
    ("durations_s", "queue"),
    [((), 900.0), ((0.9,), None), ((0.9, math.nan), 900.0), ((0.9,), math.nan), ((-1.0,), 9.0)],
)
def test_what_is_not_measured_asks_for_nothing_and_says_so(durations_s: tuple[float, ...], queue: float | None) -> None:
    found = trigger(durations_s, 0.6, queue)
    assert (found.needed, found.measured) == (False, False)
    assert "is not measured" in found.why


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (room(2.0, 3_584.0), 0.033641),
        (room(2.0, 3_584.0, "O1"), 0.00033641),
        (room(4.0, 7_168.0), 0.016820),
        (room(0.5, 3_000.0), UNSUITABLE),
        (room(1.0, 6_000.0), 0.454737),
    ],
)
def test_a_host_suits_by_balance_by_how_much_more_fits_and_by_its_images(where: Room, expected: float) -> None:
    assert suitability(where, OPERATOR) == pytest.approx(expected, rel=1e-4)


def test_the_lowest_value_that_is_not_negative_wins() -> None:
    rooms = {"full": room(0.5, 3_000.0), "half": room(2.0, 3_584.0), "empty": room(4.0, 7_168.0)}
    assert best_host(rooms, OPERATOR) == "empty"
    assert best_host({**rooms, "cached": room(2.0, 3_584.0, "O1")}, OPERATOR) == "cached"
    assert best_host({"full": rooms["full"]}, OPERATOR) is None
    assert best_host({}, OPERATOR) is None


def test_among_balanced_hosts_a_cached_image_then_more_room_then_the_name_decides() -> None:
    even = Need(1.0, 1_792.0, "A")  # leaves equal shares: suitability 0 on every balanced host
    rooms = {"c": room(2.0, 3_584.0), "b": room(4.0, 7_168.0), "a": room(4.0, 7_168.0)}
    assert best_host(rooms, even) == "a"
    assert best_host({**rooms, "z": room(2.0, 3_584.0, "A")}, even) == "z"


def test_five_containers_fill_a_host_whatever_floating_point_says() -> None:
    where, need = Room(4.0, 5_000.0, 4.0, 5_000.0), Need(0.8, 1_000.0)
    for _ in range(5):
        assert feasibility(where, need) > 0.999999
        assert best_host({"one": where}, need) == "one"
        where = where.without(need)
    assert best_host({"one": where}, need) is None


def test_what_needs_nothing_fits_anywhere() -> None:
    assert best_host({"one": room(0.0, 0.0)}, Need(0.0, 0.0)) == "one"


def standings(**changed: Standing) -> dict[str, Standing]:
    others = {"least": Standing(1, 0.6, 0.6, 10, 5.0), "most": Standing(4, 0.6, 0.6, 0, 5.0)}
    in_all = sum(outcome.scalings for outcome in [*others.values(), *changed.values()])
    return {**others, **changed, "rest": Standing(1, 0.6, 0.6, 20 - in_all, 5.0)}


@pytest.mark.parametrize(
    ("count", "duration_s", "own", "queue", "expected"),
    [
        (4, 0.3, 5, 0.0, 101.24995),
        (4, 0.3, 5, 7.0, 1.24995),
        (4, 3.0, 5, 7.0, -3.2505),
        (2, 0.6, 1, 3.0, 0.283233),
        (1, 0.3, 1, 0.0, NEEDED),
    ],
)
def test_a_type_can_go_by_its_instances_its_queue_its_delay_and_how_often_it_was_scaled(
    count: int, duration_s: float, own: int, queue: float, expected: float
) -> None:
    found = utilities(standings(one=Standing(count, duration_s, 0.6, own, queue)))
    assert found["one"] == pytest.approx(expected, abs=1e-5)


def test_weights_put_emphasis_on_an_aspect() -> None:
    one = standings(one=Standing(4, 0.3, 0.6, 5, 0.0))
    assert utilities(one, Weights(2.0, 0.5, 0.0, 4.0))["one"] == pytest.approx(1 + 2 + 50 - 0 - 1.0)


def test_where_all_have_as_many_instances_and_none_was_scaled_neither_counts() -> None:
    alike = {name: Standing(3, 0.3, 0.6, 0, 5.0) for name in "AB"}
    assert utilities(alike, penalty=0.0) == {"A": 0.5, "B": 0.5}


@given(
    st.lists(
        st.builds(
            Standing,
            st.integers(0, 9),
            st.one_of(st.none(), st.floats()),
            st.floats(0.01, 9),
            st.integers(0, 9),
            st.one_of(st.none(), st.floats()),
        )
    )
)
def test_what_is_not_measured_or_alone_is_never_taken_away(found: list[Standing]) -> None:
    given = {str(k): action for k, action in enumerate(found)}
    for name, value in utilities(given).items():
        one = given[name]
        assert not math.isnan(value)
        known = [part is not None and math.isfinite(part) and part >= 0 for part in (one.duration_s, one.queue_items)]
        if one.instances < 2 or not all(known):
            assert value == NEEDED

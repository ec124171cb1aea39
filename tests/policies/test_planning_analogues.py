"""What came after minutes like this one."""

import numpy as np
import pytest

from perdix.policies.planning import analogues
from perdix.policies.planning.analogues import after


def late_after(minutes, capacities, allowed_s, reaction_s):
    came = after(
        minutes,
        np.arange(1, len(capacities) + 1),
        capacities,
        allowed_s=allowed_s,
        reaction_s=reaction_s,
        recovery_s=600.0,
    )
    return None if came is None else came.late


def more_after(minutes, capacities, **changes):
    given = {"allowed_s": 1.0, "reaction_s": 60.0, "recovery_s": 600.0, **changes}
    came = after(minutes, np.arange(1, len(capacities) + 1), capacities, **given)
    assert came is not None
    return came.more


def on_and_off(cycles=6, off=40, on=20):
    return np.tile(np.concatenate((np.full(off, 10.0), np.full(on, 900.0))), cycles)


def test_a_load_that_comes_back_within_the_hour_is_remembered():
    minutes = np.concatenate((on_and_off(), np.full(20, 10.0)))
    share = late_after(minutes, np.array([100.0, 1_000.0]), 1.0, 60.0)
    assert share is not None
    assert share[0] > 0.1
    assert share[1] == 0.0


def test_what_waited_of_an_earlier_rush_is_not_counted_again():
    """One rush at a small size leaves a backlog for hours; the calm minutes after it are calm all the same."""
    minutes = np.concatenate((np.full(100, 10.0), np.full(20, 900.0), np.full(300, 10.0)))
    share = late_after(minutes, np.array([100.0, 1_000.0]), 1.0, 60.0)
    assert share is not None
    assert share[0] < 0.1


def test_who_can_scale_out_is_late_for_as_long_as_that_takes():
    minutes = np.concatenate((np.tile(np.concatenate((np.full(60, 10.0), np.full(60, 300.0))), 4), np.full(20, 10.0)))
    quick, slow = (late_after(minutes, np.array([100.0, 1_000.0]), 1.0, reaction_s) for reaction_s in (30.0, 600.0))
    assert quick is not None
    assert slow is not None
    assert 0.0 < quick[0] < slow[0]


def test_a_load_that_begins_to_rise_within_a_minute_takes_as_long_to_catch_up_with():
    """Catching up was reckoned at the load of the first late minute, in whose last second it may have risen."""
    off, on = np.full(20, 10.0), np.full(20, 900.0)
    at_once, within = (
        late_after(np.concatenate([*[off, rise, on] * 5, off[:12]]), np.array([100.0, 1_000.0]), 1.0, 60.0)
        for rise in (np.zeros(0), np.full(1, 150.0))
    )
    assert at_once is not None
    assert within is not None
    assert within[0] > 0.5 * at_once[0] > 0.1
    assert within[1] == 0.0


def test_a_load_that_was_off_is_known_to_come_back():
    """Of minutes without any load nothing was concluded, so the job was undressed in each of them."""
    minutes = np.concatenate((np.tile(np.repeat([0.0, 300.0], 20), 10), np.zeros(12)))
    share = late_after(minutes, np.array([100.0, 1_000.0]), 1.0, 60.0)
    assert share is not None
    assert share[0] > 0.03
    assert share[1] == 0.0


def test_where_nothing_was_alike_what_was_most_alike_counts():
    """Zoo 60001-27: the longest pause so far had no equal, so nothing was expected to end it."""
    on, off = np.full(40, 900.0), np.full(5, 10.0)
    minutes = np.concatenate((np.tile(np.concatenate((off, on)), 4), np.full(9, 10.0)))
    share = late_after(minutes, np.array([100.0, 1_000.0]), 1.0, 60.0)
    assert share is not None
    assert share[0] > 0.1
    assert share[1] == 0.0


def test_a_size_that_a_load_overtakes_needs_more_workers_while_that_lasts():
    """Zoo 100013-24: one worker was cheap while nothing came, and four ran for as long as something did; two hold."""
    minutes = np.concatenate((np.tile(np.repeat([0.0, 650.0], 30), 8), np.zeros(12)))
    more = more_after(minutes, np.array([350.0, 700.0, 1_000.0, 1_300.0]))
    assert 0.5 < more[0] < 1.5  # three in place of one work off in ten minutes what waits, for half of the hour
    assert not more[1:].any()


def test_the_longer_a_rescale_takes_the_more_workers_catch_up_with_what_waits():
    minutes = np.concatenate((np.tile(np.repeat([0.0, 650.0], 30), 8), np.zeros(12)))
    capacities = 350.0 * np.arange(1, 9)
    soon, late = (more_after(minutes, capacities, reaction_s=reaction_s)[0] for reaction_s in (10.0, 600.0))
    assert soon < late
    hurried = more_after(minutes, capacities, recovery_s=60.0)[0]
    assert hurried > more_after(minutes, capacities)[0]


def test_what_is_over_before_a_rescale_needs_nobody():
    minutes = np.concatenate((np.tile(np.repeat([10.0, 650.0, 10.0], [29, 1, 30]), 8), np.full(12, 10.0)))
    assert not more_after(minutes, np.array([350.0, 700.0]), reaction_s=300.0).any()


def test_what_came_once_says_less_than_what_came_each_time():
    """At the foot of a wave that was climbed once, six workers had stayed where two did (`traffic` of the replays)."""
    off, on, capacities = np.zeros(30), np.full(30, 650.0), np.array([350.0, 700.0, 1_000.0])
    once, often = (np.concatenate([*[off, on] * cycles, np.zeros(12)]) for cycles in (2, 8))
    assert more_after(once, capacities)[0] < 0.8 * more_after(often, capacities)[0]


@pytest.mark.parametrize(
    ("minutes", "times"),
    [
        (np.concatenate((np.zeros(600), np.full(30, 650.0), np.zeros(12))), 1.0),  # 48 of its minutes are looked at
        (np.concatenate((np.tile(np.repeat([0.0, 650.0], 30), 8), np.zeros(12))), 8.0),
    ],
)
def test_a_pause_is_one_time_however_long_it_lasted(monkeypatch, minutes, times):
    capacities = np.array([350.0, 700.0, 1_000.0])
    counted = more_after(minutes, capacities)[0]
    monkeypatch.setattr(analogues, "NO_MORE", 0.0)
    assert counted / more_after(minutes, capacities)[0] == pytest.approx(times / (times + 1.0), abs=0.02)


def test_no_size_needs_more_than_the_most_workers():
    minutes = np.concatenate((np.tile(np.repeat([0.0, 1e300], 30), 8), np.zeros(12)))
    more = more_after(minutes, np.array([350.0, 700.0, 1_000.0]))
    assert ((more >= 0.0) & (np.arange(1, 4) + more <= 3.0)).all()


@pytest.mark.parametrize("minutes", [np.zeros(0), np.zeros(300), np.full(300, np.nan), np.full(50, 10.0)])
def test_too_little_says_nothing(minutes):
    assert late_after(minutes, np.array([100.0]), 1.0, 60.0) is None


@pytest.mark.parametrize("seed", range(4))
def test_of_many_sizes_each_is_late_as_it_is_by_itself(seed: int):
    """Of 200 sizes a quarter is followed through the hours; the others lie between these."""
    rng = np.random.default_rng(seed)
    minutes = on_and_off(12) * rng.uniform(0.5, 1.5, 720)
    capacities = rng.permutation(np.linspace(20.0, 1_500.0, 200))
    together = late_after(minutes, capacities, 1.0, 60.0)
    alone = [late_after(minutes, np.array([capacity, capacities.max()]), 1.0, 60.0) for capacity in capacities[:20]]
    assert together is not None
    assert np.allclose(together[:20], [shape[0] for shape in alone if shape is not None], atol=0.03)


def test_sizes_that_take_the_same_are_late_alike():
    minutes = np.concatenate((on_and_off(), np.full(20, 10.0)))
    share = late_after(minutes, np.array([100.0, 100.0, 1_000.0, 1_000.0]), 1.0, 60.0)
    assert share is not None
    assert share[0] == share[1] > share[2] == share[3]

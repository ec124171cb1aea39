"""A slice of the storm on fixed seeds, and what it must find: bugs that are planted on purpose."""

import pytest

from benchmarks.storm.episodes import Episode, Player, episode
from benchmarks.storm.faults import Fault
from benchmarks.storm.planted import PLANTS

SLICE = frozenset(
    {"refused", "status", "lost answer", "slow", "no metrics", "crash", "restart", "down", "registry gone"}
)
MINUTES = 30  # of the first waves: a rescale or two


def cut(given: Episode) -> Episode:
    """The first minutes of an episode."""
    return Episode(given.climate, given.controllers, given.faults, MINUTES)


def test_nothing_is_violated_in_a_slice_of_fixed_seeds():
    for number in range(2):
        run = Player().play(cut(episode(11, number, SLICE)), compared=False)
        assert run.violations == ()
        assert run.steps >= MINUTES - 5


def test_the_same_episode_is_the_same_run():
    given = Episode(1, 2, (Fault("crash", "c0", 3, 1, 40.0), Fault("lost answer", "job-1", 5, 3)), 12)
    first, second = (Player().play(given, compared=False) for _ in range(2))
    assert first == second


def test_an_episode_survives_being_written_down():
    given = episode(3, 5)
    assert Episode.from_json(given.to_json()) == given


def test_a_violation_is_shrunk_to_the_fault_that_it_takes():
    planted = Episode(2, 1, (Fault("registry gone", "all", 1, 5), Fault("restart", "c0", 4, 1)), 12)
    with PLANTS["key"]() as wrap:
        player = Player(wrap)
        (found, *_) = player.play(planted, compared=False).violations
        assert found.oracle == "one rescale per decision"
        assert player.shrunk(planted, found, compared=False).faults == ()


@pytest.mark.parametrize(
    ("plant", "faults"), [("lease", (Fault("asleep before asking", "c0", 1, 25),)), ("outcome", ()), ("key", ())]
)
def test_a_planted_bug_is_found(plant: str, faults: tuple[Fault, ...]):
    with PLANTS[plant]() as wrap:
        run = Player(wrap).play(Episode(2, 2, faults, 12), compared=False)
    assert run.violations
    assert Player().play(Episode(2, 2, faults, 12), compared=False).violations == ()

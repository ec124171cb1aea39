"""Topologies and arrival patterns: what is read, and what an operator may write wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.settings.yaml_files import SettingsError
from perdix.twin.hosts.parameters import DOWN_BELOW, UP_ABOVE, Pattern, Walk, load_topology

TINY = """\
sensors: {meter: {per_machine_minute: 5}}
operators: {count: {duration_ms: 500, cpu_cores: 0.5, memory_mb: 500, inputs: [meter]}}
patterns: {flat: {every_s: 60, levels: [3]}}
"""


def test_the_manufacturing_topology_is_the_papers() -> None:
    topology = load_topology("manufacturing")
    operators = list(topology.operators.values())
    assert [operator.duration_ms for operator in operators] == [1500, 600, 750, 750, 750, 600, 700, 500, 1300]
    assert [1000 * operator.cpu_cores for operator in operators] == [660, 131, 100, 83, 77, 65, 46, 74, 47]
    assert [operator.memory_mb for operator in operators] == [452, 524, 430, 502, 527, 440, 464, 466, 452]
    assert [operator.image_mb for operator in operators] == [89, 68, 68, 68, 68, 68, 68, 68, 70]
    assert [(operator.consumes, operator.emits) for operator in operators] == [
        (1, 3), (50, 1), (1, 1), (1, 1), (1, 1), (100, 1), (3, 1), (1, 0), (300, 1),
    ]  # fmt: skip
    assert [sensor.per_machine_minute for sensor in topology.sensors.values()] == [5, 1, 10]


def test_patterns_are_the_papers() -> None:
    topology = load_topology("manufacturing")
    stepwise = topology.pattern("stepwise").machines(7_200)
    assert set(stepwise) == {2.0, 5.0, 8.0}
    assert (np.abs(np.diff(stepwise)) <= 3).all(), "like a sinus: never from the lowest to the highest at once"
    assert np.flatnonzero(np.diff(stepwise)).tolist() == list(range(239, 7_199, 240)), "every 4 min"
    two = topology.pattern("two-level").machines(7_200)
    assert set(two) == {2.0, 8.0}
    assert np.flatnonzero(np.diff(two)).tolist() == list(range(479, 7_199, 480)), "every 8 min"


@pytest.mark.parametrize("name", ["random-walk-1", "random-walk-2"])
def test_the_walks_follow_equation_6_and_never_touch_their_bounds_by_force(name: str) -> None:
    pattern = load_topology("manufacturing").pattern(name)
    assert pattern.walk is not None
    values = pattern.machines(7_200)[:: pattern.every_s]
    drawn = np.random.default_rng(pattern.walk.seed).random(len(values) - 1)
    moves = (drawn > UP_ABOVE).astype(int) - (drawn < DOWN_BELOW)
    assert values.tolist() == (4 + np.concatenate(([0], np.cumsum(moves)))).tolist()
    assert values.min() >= 1
    assert values.max() <= 8


@given(st.integers(0, 10_000), st.integers(1, 2_000))
def test_a_walk_stays_within_its_bounds_and_moves_by_one(seed: int, count: int) -> None:
    values = Walk(seed=seed).machines(count)
    assert len(values) == count
    assert values.min() >= 1
    assert values.max() <= 8
    assert (np.abs(np.diff(values)) <= 1).all()


@given(st.integers(1, 500), st.integers(0, 400))
def test_more_of_a_pattern_begins_with_less_of_it(seconds: int, further: int) -> None:
    for pattern in (Pattern(every_s=7, levels=[2, 5, 8]), Pattern(every_s=7, walk=Walk(seed=3))):
        longer = pattern.machines(seconds + further)
        assert longer[:seconds].tolist() == pattern.machines(seconds).tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("memory_mb: 500", "memory_mb: 50000"), "more than a host has"),
        (("[meter]", "[metre]"), "no input 'metre'; known: meter, count"),
        (("[meter]", "[meter, count]"), "round in a circle: count -> count; take"),
        (("count:", "meter:"), "is a sensor and an operator"),
        (("levels: [3]", "levels: [3], walk: {seed: 1}"), "one of both"),
        (("levels: [3]", "level: [3]"), "did you mean 'levels'?"),
        (("patterns:", "hosts: {start_up_s: {low: 9, high: 3}}\npatterns:"), "swap them"),
        (("patterns:", "hosts: {cores: 0}\npatterns:"), "greater than 0"),
        (("patterns:", "measuring: {every_s: 7}\npatterns:"), "multiple of every_s"),
        (("patterns:", "costs: {units_min: []}\npatterns:"), "units_min"),
    ],
)
def test_what_cannot_be_is_said_with_its_file(change: tuple[str, str], words: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY.replace(*change))
    with pytest.raises(SettingsError, match=r"tiny\.yaml") as raised:
        load_topology(str(path))
    assert words in str(raised.value)


def test_what_is_wrong_with_a_file_as_a_whole_is_said_without_repeating_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY.replace("patterns:", "measuring: {every_s: 7}\npatterns:"))
    with pytest.raises(SettingsError) as raised:
        load_topology(str(path))
    assert str(raised.value) == f"{path}:1: measuring: look_every_s must be a multiple of every_s"


def test_names_that_are_not_known_are_answered_with_those_that_are(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    assert load_topology("tiny", tmp_path).targets("meter") == ("count",)
    with pytest.raises(SettingsError, match=r"there is no topology 'tinny' in .*; did you mean 'tiny'"):
        load_topology("tinny", tmp_path)
    with pytest.raises(SettingsError, match="no pattern 'round'; known: flat"):
        load_topology("tiny", tmp_path).pattern("round")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (TINY + "hosts: {at_start: 5, most: 3}\n", "at_start is 5, and at most 3 may be leased"),
        (
            TINY.replace(
                "}}\npatterns", "}, sum: {duration_ms: 9, cpu_cores: 0.6, memory_mb: 9, inputs: [count]}}\npatterns"
            )
            + "hosts: {cores: 1}\n",
            "of count, sum on one host: 1.1 cores and 509 MB, more than a host has .* at_start",
        ),
        (TINY.replace("levels: [3]", "walk: {seed: 1, start: 100}"), "start 100 .* 1..8"),
        (TINY.replace("levels: [3]", "walk: {seed: 1, start: 5, lowest: 6, highest: 4}"), "start 5 .* 6..4"),
    ],
)
def test_a_topology_that_cannot_begin_is_refused(changed: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(changed)
    with pytest.raises(SettingsError, match=words):
        load_topology("tiny", tmp_path)


def test_operators_that_fit_on_the_hosts_at_the_start_are_read(tmp_path: Path) -> None:
    more = TINY.replace(
        "}}\npatterns", "}, sum: {duration_ms: 9, cpu_cores: 0.6, memory_mb: 9, inputs: [count]}}\npatterns"
    )
    (tmp_path / "tiny.yaml").write_text(more + "hosts: {cores: 1, at_start: 2}\n")
    assert load_topology("tiny", tmp_path).hosts.at_start == 2

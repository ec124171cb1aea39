"""Samples that a performance model may learn from, those that it may not, and where it has none."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.models.performance.fitted import outside
from perdix.models.performance.samples import checked, rates_of, samples_digest, sizes_of
from tests.models.sampled import sampled

# ---- samples -----------------------------------------------------------------------------------------------------


def test_samples_are_ordered_by_size_whatever_order_they_came_in() -> None:
    given_samples = sampled()
    assert checked(reversed(given_samples)) == checked(given_samples)
    assert list(sizes_of(checked(given_samples))[:, 0]) == sorted(sample.cpu_cores for sample in given_samples)
    assert rates_of(checked(given_samples)).shape == (len(given_samples),)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"per_s": math.nan}, "the sample at 0.4 cores and 1024 MB with nan records/s: a number is missing"),
        ({"per_s": math.inf}, "with inf records/s"),
        ({"cpu_cores": math.nan}, "a number is missing or infinite; sample it anew"),
        ({"per_s": -1.0}, "-1 records/s is below 0; sample it anew"),
        ({"cpu_cores": 0.0}, "cores and memory must be above 0"),
        ({"memory_mb": -5.0}, "cores and memory must be above 0"),
        (
            {"cpu_cores": 4.0, "memory_mb": 128.0, "per_s": 1.0},
            "sampled more than once: 1 and 8250 records/s at 4 cores",
        ),
    ],
)
def test_a_sample_that_cannot_be_says_which_it_is_and_what_to_do(change: dict[str, float], said: str) -> None:
    first, *others = sampled()
    with pytest.raises(ValueError, match="sample") as error:
        checked([replace(first, **change), *others])
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 samples are too few"),
        (1, "only one size was sampled, 0.4 cores and 1024 MB"),
        (3, "sample 4 sizes or more"),
    ],
)
def test_too_few_samples_say_how_many_are_needed(count: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked(sampled()[:count])


def test_a_size_at_which_nothing_is_processed_is_a_sample() -> None:
    assert len(checked([replace(sample, per_s=0.0) for sample in sampled()])) == len(sampled())


def test_a_digest_names_sizes_and_rates_and_not_their_order_or_how_long_they_took() -> None:
    one = sampled()
    assert samples_digest(one) == samples_digest([replace(item, took_s=1.0) for item in reversed(one)])
    assert samples_digest(one) != samples_digest([replace(one[0], per_s=1.0), *one[1:]])


# ---- where there are samples -------------------------------------------------------------------------------------

ALONG_BOTH = sizes_of(sampled())
SAME_MEMORY = np.array([[cores, 512.0] for cores in (0.5, 1.0, 2.0)])
RISING = np.array([[0.6, 33.2], [1.2, 33.3], [1.8, 33.5], [2.4, 33.8]])  # QEScalor's four sizes


@pytest.mark.parametrize(
    ("size", "beyond"),
    [
        ((2.0, 1_024.0), False),  # between two samples
        ((4.0, 500.0), False),
        ((3.5, 900.0), False),  # between both lines of samples
        ((4.02, 1_024.0), False),  # half a percent beyond
        ((4.5, 1_024.0), True),
        ((0.2, 1_024.0), True),
        ((2.0, 1_200.0), True),
        ((0.5, 200.0), True),  # in their box, and yet nothing like it was sampled
        ((math.nan, 500.0), True),
        ((2.0, math.inf), True),
    ],
)
def test_a_size_is_outside_of_the_convex_hull_of_the_samples_or_not(size: tuple[float, float], beyond: bool) -> None:
    assert outside(ALONG_BOTH, np.array([size])).tolist() == [beyond]


def test_where_memory_was_always_the_same_another_one_was_not_sampled() -> None:
    asked = np.array([[0.7, 512.0], [0.7, 514.0], [0.7, 600.0], [3.0, 512.0]])
    assert outside(SAME_MEMORY, asked).tolist() == [False, False, True, True]


def test_the_published_sizes_are_a_line_that_may_be_missed_by_a_percent() -> None:
    asked = np.array([[0.9, 33.25], [2.1, 33.65], [1.5, 33.2], [1.5, 64.0]])
    assert outside(RISING, asked).tolist() == [False, False, False, True]


sizes = st.tuples(st.floats(0.1, 64.0), st.floats(16.0, 65_536.0))


@given(st.lists(sizes, min_size=2, max_size=25), st.data())
def test_samples_and_what_lies_between_two_of_them_are_inside_and_twice_the_largest_is_not(
    found: list[tuple[float, float]], data: st.DataObject
) -> None:
    at = np.array(found)
    first, second = (at[data.draw(st.integers(0, len(at) - 1))] for _ in range(2))
    between = first + data.draw(st.floats(0.0, 1.0)) * (second - first)
    assert not outside(at, np.vstack([at, between])).any()
    assert outside(at, 2.0 * at.max(axis=0)[None, :]).all()

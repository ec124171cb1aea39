"""How policies write quantities: readable, whatever their size."""

import math

import pytest

from perdix.policies.wording import seconds


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (math.inf, "unlimited time"),
        (4_321.0, "4,321 s"),
        (12.4, "12 s"),
        (1.25, "1.2 s"),
        (0.1, "0.1 s"),
        (7.2e-16, "under 0.1 s"),
        (0.0, "0 s"),
    ],
)
def test_durations_are_readable(duration_s: float, text: str) -> None:
    assert seconds(duration_s) == text

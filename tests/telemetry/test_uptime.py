"""Since when a job runs, by its uptime."""

import numpy as np
import pytest

from perdix.telemetry.uptime import last_start_s, starts_s
from perdix.telemetry.window import Window

MISSED = np.nan


def seen(*uptime_s):
    times_s = 1_000.0 + 10.0 * np.arange(len(uptime_s))
    return Window("orders", 10.0, times_s, job_metrics={"uptime_s": np.array(uptime_s)})


@pytest.mark.parametrize(
    ("uptime_s", "starts"),
    [
        ((500.0, 510.0, 5.0, 15.0), (500.0, 500.0, 1_015.0, 1_015.0)),
        ((500.0, MISSED, 5.0, MISSED, 25.0), (500.0, 1_015.0, 1_015.0, 1_015.0, 1_015.0)),
        ((MISSED, 15.0, MISSED), (995.0, 995.0, np.inf)),
    ],
)
def test_the_next_known_uptime_says_since_when(uptime_s, starts):
    found = starts_s(seen(*uptime_s))
    assert found.tolist() == list(starts)
    assert last_start_s(seen(*uptime_s)) == max(start for start in starts if np.isfinite(start))


@pytest.mark.parametrize("window", [seen(MISSED, MISSED), seen(), Window("orders", 10.0, np.array([1.0, 2.0]))])
def test_without_any_nobody_knows(window):
    assert starts_s(window) is None
    assert last_start_s(window) is None

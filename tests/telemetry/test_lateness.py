"""When a job was late, sample by sample."""

import numpy as np

from perdix.telemetry.lateness import SeenLate

TIMES_S = np.array([15.0, 30.0, 45.0, 60.0])


def test_the_share_is_that_of_the_samples_since_then():
    seen = SeenLate(TIMES_S, np.array([1.0, 1.0, 0.0, 0.0]))
    assert seen.share(0.0) == 0.5
    assert seen.share(15.0) == 1.0 / 3.0
    assert seen.share(30.0) == 0.0


def test_what_was_not_measured_counts_neither_way():
    assert SeenLate(TIMES_S, np.array([np.nan, 1.0, np.nan, 0.0])).share(0.0) == 0.5
    assert SeenLate(TIMES_S, np.full(4, np.nan)).share(0.0) is None
    assert SeenLate().share(0.0) is None
    assert SeenLate(TIMES_S, np.ones(4)).share(60.0) is None

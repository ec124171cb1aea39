"""What a load keeps busy, and whether a smaller size is worth finding out about."""

import math

import pytest

from perdix.policies.finding_out import busy_workers

SATURATES = {1: 100.0, 2: 190.0, 4: 340.0, 8: 500.0, 16: 560.0}  # records/s by workers


@pytest.mark.parametrize("runs", [1, 4, 16])
@pytest.mark.parametrize(("load_per_s", "busy"), [(50.0, 0.5), (190.0, 2.0), (255.0, 3.0), (840.0, 24.0)])
def test_a_load_keeps_as_many_workers_busy_whichever_run(situate, runs, load_per_s, busy):
    situation = situate(scale_out=runs, capacities=SATURATES, bounds=(1, 16))
    assert busy_workers(situation, load_per_s) == pytest.approx(busy)


def test_a_size_of_which_nothing_is_known_is_left_out(situate):
    situation = situate(capacities={**SATURATES, 3: math.inf}, bounds=(1, 16), scale_out=4)
    assert busy_workers(situation, 250.0) == pytest.approx(4 * 250.0 / 340.0)

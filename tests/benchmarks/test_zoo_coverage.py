"""Coverage of capacity intervals: what is counted, and where."""

import numpy as np
import pytest

from benchmarks.zoo.coverage import CLASSES, EVERY, Witness, class_of, pooled
from perdix.control.state.journal import Status
from perdix.control.tick_io import TickReport
from perdix.models.capacity.contract import Estimate
from perdix.twin.job import JobTwin
from tests.control.rig import parameters

LOAD = 0.5


def report(**capacities: tuple[float, float, float]) -> TickReport:
    """A tick that believed these: per_s, low, high by scale-out ``n<workers>``."""
    known = {int(n[1:]): Estimate(int(n[1:]), *values, seen=True, basis="") for n, values in capacities.items()}
    return TickReport("job", Status.ACTING, "", capacities=known)


def test_each_utilisation_has_one_class() -> None:
    classes = [class_of(value) for value in (0.0, 0.049, 0.05, 0.119, 0.12, 0.3, 0.6, 0.9, 1.0, 7.0)]
    at = [CLASSES.index(name) for name in classes]
    assert at == [0, 0, 1, 1, 2, 3, 4, 5, 5, 5]


def test_an_interval_is_held_against_what_the_twin_can_take() -> None:
    made = parameters()
    probe = JobTwin(made, 1, scale_out=3)
    here, there = probe.current_capacity(), probe.true_capacity(5)
    twin = JobTwin(made, 1, scale_out=3, arrivals=lambda _, count: np.full(count, LOAD * here))
    witness = Witness(twin)
    believed = report(n3=(here, 0.9 * here, 1.1 * here), n5=(2 * there, 1.5 * there, 3 * there))
    for number in range(1, 2 * EVERY + 1):
        twin.step(60)
        witness.look(number)
    rows = {(row["where"], row["utilisation"]): row for row in pooled([witness.counts([believed] * 2 * EVERY)])}
    assert set(rows) == {("here", "30-60 %"), ("elsewhere", "30-60 %")}
    running, other = rows["here", "30-60 %"], rows["elsewhere", "30-60 %"]
    assert (running["intervals"], running["held"]) == (2, 1.0)
    assert running["bias"] == pytest.approx(1.0)
    assert running["width"] == pytest.approx(1.1 / 0.9)
    assert (other["held"], other["below"], other["above"]) == (0.0, 1.0, 0.0)
    assert other["bias"] == pytest.approx(2.0)


def test_a_job_that_stands_still_is_not_asked() -> None:
    twin = JobTwin(parameters(), 1, scale_out=3)
    twin.step(60)
    twin.rescale(4, "a")
    twin.step(1)
    witness = Witness(twin)
    witness.look(EVERY)
    assert witness.counts([report(n3=(1.0, 1.0, 1.0))] * EVERY) == {"here": {}, "elsewhere": {}}


def test_many_jobs_are_pooled_by_interval() -> None:
    one = {"here": {CLASSES[0]: [10.0, 1.0, 0.0, 0.0, 0.0]}}
    other = {"here": {CLASSES[0]: [30.0, 0.0, 7.0, 0.0, 0.0]}}
    (row,) = pooled([one, {}, other])
    assert (row["intervals"], row["held"], row["below"], row["above"]) == (40, 0.8, 1 / 40, 7 / 40)

"""How fast rescales are used up: in a day of many, the first hours leave some to the last."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from perdix.models.recovery.downtime import Downtimes
from perdix.policies.finding_out import RESCALE_S, rescale_s
from perdix.policies.pace import MEMORY_S, Pace
from perdix.policies.planning.policy import Perdix
from tests.policies.conftest import NOW_S, Situate


def paced(every_s: float, hours: float) -> Pace:
    """Return what is known after a rescale every so often, looked at each minute."""
    pace = Pace()
    for minute in range(int(60 * hours)):
        pace = pace.looked(NOW_S + 60.0 * minute, rescaled=60 * minute % int(every_s) == 0)
    return pace


def test_at_an_even_pace_a_rescale_weighs_what_it_did() -> None:
    assert paced(1_800.0, 24.0).dearer(48) == pytest.approx(1.0, abs=0.3)
    assert paced(3_600.0, 24.0).dearer(48) == 1.0
    assert Pace().dearer(48) == Pace().dearer(0) == 1.0


def test_the_faster_they_are_used_up_the_dearer_they_are() -> None:
    """Zoo 100003-11, in place: 48 rescales in ten hours, and then 11 to 15 workers for 14, where nine do."""
    times = [paced(every_s, 4.0).dearer(48) for every_s in (1_200.0, 900.0, 600.0, 300.0)]
    assert times == sorted(times)
    assert times[0] < 2.0
    assert times[2] > 10.0


def test_what_was_long_ago_weighs_nothing() -> None:
    busy = paced(300.0, 4.0)
    assert busy.at_s is not None
    assert busy.looked(busy.at_s + 10.0 * MEMORY_S, rescaled=False).dearer(48) == 1.0
    back = busy.looked(busy.at_s - 86_400.0, rescaled=True)
    assert back.rescales == pytest.approx(busy.rescales + 1.0), "a clock that was set back forgets nothing"
    assert back.at_s == busy.at_s - 86_400.0


@pytest.mark.parametrize("damaged", [None, 1, {}, {"rescales": "x"}, {"rescales": float("nan"), "at_s": 0.0}])
def test_a_memory_that_cannot_be_read_is_none(damaged: object) -> None:
    assert Pace.of_memory({"pace": damaged}) == Pace()
    assert Pace.of_memory({"pace": {"rescales": 1e300, "at_s": NOW_S}}).dearer(1) > 1.0
    pace = paced(600.0, 1.0)
    assert Pace.of_memory(json.loads(json.dumps({"pace": pace.to_state()}))) == pace


def test_a_rescale_weighs_at_most_as_much_as_all_of_a_day(situate: Situate) -> None:
    for used in (0, 20, 47, 60):
        for rescales in (0.0, 5.0, 20.0, 1e300):
            here = situate(rescales_today=used, memory={"pace": {"rescales": rescales, "at_s": NOW_S}})
            assert RESCALE_S <= rescale_s(here) <= 48 * RESCALE_S
    assert rescale_s(situate()) == RESCALE_S


def test_the_policy_counts_what_it_sees_rescaled_and_takes_smaller_steps_seldom(situate: Situate) -> None:
    memory: Mapping[str, Any] = {}
    counted = []
    for k, scale_out in enumerate((5, 5, 7, 7, 4)):
        decision = Perdix().decide(situate(scale_out=scale_out, now_s=NOW_S + 60.0 * k, memory=memory))
        memory = decision.memory
        counted.append(Pace.of_memory(memory).rescales)
    assert counted == pytest.approx([0.0, 0.0, 1.0, 1.0, 2.0], abs=0.02)
    given: dict[str, Any] = {
        "load": 3_300.0,
        "minutes": np.full(240, 3_300.0),
        "scale_out": 5,
        "since_rescale_s": 7_200.0,
        "checkpointed": True,
        "downtimes": Downtimes.assumed(1.0, 1.0, 30.0, 1.0),
    }
    paying = {"pace": {"rescales": 25.0, "at_s": NOW_S - 60.0}}
    assert Perdix().decide(situate(**given)).scale_out == 4
    assert Perdix().decide(situate(**given, memory=paying)).scale_out == 5

"""Champions that are trained while a replay runs: from the past only, in time, and not too often."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from perdix.models.forecasting.families import ENSEMBLE, FAMILIES
from perdix.models.forecasting.forecaster import forecaster_from_state
from perdix.models.registry import CAPACITY, FORECAST
from perdix.replay.case import START_S
from perdix.replay.training import AGAIN_S, FIRST_S, TAKES_S, TrainedOnTheWay
from perdix.twin.job import JobTwin
from perdix.twin.workloads import arrivals_from
from tests.control.rig import HIGH, LOW, constant, parameters

FAMILY = "damped-trend"


def twin(arrivals: np.ndarray) -> JobTwin:
    return JobTwin(parameters(), 5, start_s=START_S, scale_out=4, arrivals=arrivals_from(arrivals, START_S))


def rising(hours: float = 6.0) -> np.ndarray:
    return np.linspace(LOW, HIGH, round(3600 * hours))


def lived(trainer: TrainedOnTheWay, twin: JobTwin, seconds: float, *, retrain: bool = False) -> list[int]:
    """Let time pass in minutes; return the version that serves after each."""
    versions = []
    for _ in range(round(seconds / 60)):
        twin.step(60)
        trainer.consider(twin, retrain=retrain)
        versions.append(trainer.fleet(FORECAST).version)
    return versions


def test_the_first_champion_comes_when_there_is_history_enough_and_training_is_over() -> None:
    trainer, one = TrainedOnTheWay("orders", FAMILY), twin(rising())
    versions = lived(trainer, one, FIRST_S + 600)
    first = 60 * (versions.index(1) + 1)
    assert FIRST_S + TAKES_S <= first <= FIRST_S + TAKES_S + 60
    assert trainer.trained == 1
    row = trainer.fleet(FORECAST).rows["orders"]
    assert (row.family, row.version) == (FAMILY, 1)


def test_an_ensemble_is_trained_like_any_family() -> None:
    trainer, one = TrainedOnTheWay("orders", ENSEMBLE), twin(rising())
    assert lived(trainer, one, FIRST_S + TAKES_S)[-1] == 1
    row = trainer.fleet(FORECAST).rows["orders"]
    assert row.family == ENSEMBLE
    assert len(forecaster_from_state(orjson.loads(row.state)).members) > 1


def test_it_says_nothing_of_other_models_or_jobs() -> None:
    trainer, one = TrainedOnTheWay("orders", FAMILY), twin(rising())
    lived(trainer, one, FIRST_S + 600)
    assert trainer.fleet(CAPACITY).rows == {}
    assert set(trainer.fleet(FORECAST).rows) == {"orders"}


def test_what_is_to_come_is_never_trained_on() -> None:
    """Two futures that part at the training itself give the same champion, digit for digit."""
    states = []
    for future in (np.full(3_600, HIGH), np.full(3_600, 0.0)):
        past = rising()[: int(FIRST_S)]
        trainer, one = TrainedOnTheWay("orders", FAMILY), twin(np.concatenate([past, future]))
        lived(trainer, one, FIRST_S)
        assert trainer.trained == 1, "it is trained at this very moment"
        lived(trainer, one, TAKES_S)
        states.append(trainer.fleet(FORECAST).rows["orders"].state)
    assert states[0] == states[1]


def test_another_past_gives_another_champion() -> None:
    """The test above would hold for a trainer that looks at nothing; this one would not."""
    states = []
    for past in (rising(), rising()[::-1]):
        trainer = TrainedOnTheWay("orders", FAMILY)
        lived(trainer, twin(past), FIRST_S + TAKES_S)
        states.append(trainer.fleet(FORECAST).rows["orders"].state)
    assert states[0] != states[1]


def test_a_drift_that_asks_at_every_tick_is_no_storm_of_trainings() -> None:
    trainer, one = TrainedOnTheWay("orders", FAMILY), twin(rising())
    versions = lived(trainer, one, FIRST_S + 3 * AGAIN_S + TAKES_S, retrain=True)
    assert trainer.trained == 4
    assert sorted(set(versions)) == [0, 1, 2, 3, 4]
    assert versions == sorted(versions), "a newer champion is never replaced by an older one"


def test_without_a_request_there_is_one_training() -> None:
    trainer, one = TrainedOnTheWay("orders", FAMILY), twin(rising())
    lived(trainer, one, FIRST_S + 3 * AGAIN_S)
    assert trainer.trained == 1


def test_a_family_that_cannot_be_fitted_leaves_the_fallback_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(history: object, **_: object) -> object:
        asked.append(history)
        raise ValueError("nothing can be fitted to this")

    trainer, one = TrainedOnTheWay("orders", FAMILY), twin(constant(LOW, 6.0))
    monkeypatch.setattr(FAMILIES[FAMILY], "fit", refuse)
    assert set(lived(trainer, one, FIRST_S + AGAIN_S + 60)) == {0}
    assert trainer.trained == 0
    assert len(asked) == 2, "half an hour later, not at every tick"
    assert all(note.endswith("nothing can be fitted to this") for note in trainer.notes)
    assert len(trainer.notes) == 2
    monkeypatch.undo()
    assert lived(trainer, one, AGAIN_S + TAKES_S)[-1] == 1

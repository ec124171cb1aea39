"""Outcomes: what counts as an error of a prediction, and what leaves as JSON."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from perdix.replay.outcome import Outcome
from tests.replay.played import OUTCOME, course, recovery


@pytest.mark.parametrize(
    ("true_s", "predicted_s", "error"),
    [(100.0, 85.0, 0.15), (100.0, 140.0, 0.40), (50.0, 50.0, 0.0), (100.0, 0.0, 1.0)],
)
def test_an_error_is_relative_to_the_truth_in_either_direction(true_s: float, predicted_s: float, error: float) -> None:
    assert recovery(true_s, predicted_s).error == pytest.approx(error)


@pytest.mark.parametrize(("true_s", "predicted_s"), [(None, 85.0), (100.0, None), (None, None), (0.0, 10.0)])
def test_without_a_truth_or_a_prediction_there_is_no_error(true_s: float | None, predicted_s: float | None) -> None:
    assert recovery(true_s, predicted_s).error is None


def test_an_interrupted_recovery_is_held_against_no_prediction() -> None:
    """Two stops in one: neither prediction was of that."""
    assert recovery(300.0, 100.0, interrupted=True).error is None


def test_what_perdix_observed_is_not_what_predictions_are_judged_by() -> None:
    assert recovery(100.0, 90.0, observed_s=900.0).error == pytest.approx(0.1)


def test_the_figures_are_json_by_the_names_of_the_fields() -> None:
    told = OUTCOME.figures()
    assert list(told) == [field.name for field in fields(Outcome)]
    again = json.loads(json.dumps(told, allow_nan=False))
    assert again["latency_ms"] == {"mean": 700.0, "p50": 600.0, "p95": 900.0, "p99": 20_000.0}
    assert again["recoveries"] == []


def test_a_recovery_keeps_its_parts_in_the_figures() -> None:
    told = replace(OUTCOME, recoveries=(recovery(100.0, None, cause="failure"),)).figures()
    assert told["recoveries"][0]["cause"] == "failure"
    assert told["recoveries"][0]["predicted_s"] is None


def test_a_course_gives_its_columns_by_name() -> None:
    made = course(seconds=10)
    columns = made.columns()
    assert list(columns) == [field.name for field in fields(made)]
    assert all(column.shape == (10,) for column in columns.values())
    columns.clear()
    assert made.columns(), "the course itself cannot be emptied"


@pytest.mark.parametrize(
    ("late", "left", "budget", "held"),
    [
        (0.05, 0.0, 0.05, True),
        (0.0501, 0.0, 0.05, False),
        (0.0, 1.0, 0.05, False),
        (0.2, 0.0, 0.2, True),
        (0.0, 0.0, 0.0, True),
        (0.001, 0.0, 0.0, False),
    ],
)
def test_an_objective_is_held_within_its_budget_and_with_nothing_left(
    late: float, left: float, budget: float, held: bool
) -> None:
    assert replace(OUTCOME, share_above_objective=late, unprocessed=left, error_budget=budget).held is held

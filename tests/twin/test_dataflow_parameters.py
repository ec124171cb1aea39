"""Dataflows as they are read: what can be, what cannot, and that what is shipped holds what its comments say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from perdix.settings.home import conf_part
from perdix.settings.yaml_files import SettingsError, known_names
from perdix.twin.dataflow import physics
from perdix.twin.dataflow.optimum import demands, optimum, sustains
from perdix.twin.dataflow.parameters import DataflowParameters, load_dataflow

SOURCE = {"source": {"phases": [{"per_s": 100.0}]}}


def dataflow(**operators: Any) -> DataflowParameters:
    return DataflowParameters.model_validate({"name": "orders", "operators": operators})


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        ({"a": SOURCE}, "give a source and what it feeds"),
        ({"a": SOURCE, "b": {"inputs": ["a"]}}, "give 'cost_us'"),
        ({"a": SOURCE, "b": {"inputs": ["c"], "cost_us": 1}}, "its input c is not there"),
        ({"a": SOURCE, "b": {"cost_us": 1}}, "give either 'inputs', or 'source'"),
        ({"a": SOURCE, "b": {"inputs": ["a"], "cost_us": 1, "capacity_per_s": 1}}, "not both"),
        ({"a": SOURCE, "b": {"inputs": ["a", "c"], "cost_us": 1}, "c": {"inputs": ["b"], "cost_us": 1}}, "cycle"),
        ({"a": SOURCE, "b": {"inputs": ["a", "a"], "cost_us": 1}}, "an input is named twice"),
        (
            {"a": SOURCE, "b": {"inputs": {"a": 0.7}, "cost_us": 1}, "c": {"inputs": {"a": 0.7}, "cost_us": 1}},
            "sum to 1.4",
        ),
        ({"a": SOURCE, "b": {"inputs": ["a"], "cost_us": 1, "start": 9, "maximum": 8}}, "above its maximum, 8"),
        (
            {"a": SOURCE, "b": {"inputs": ["a"], "cost_us": 1, "maximum": 40, "overhead": {"coherency": 0.01}}},
            "more than 10 instances would be slower",
        ),
        (
            {"a": SOURCE, "b": {"inputs": ["a"], "cost_us": 1, "bursts": {"every_s": 10, "lasts_s": 5, "factor": 3}}},
            "lower the factor",
        ),
        (
            {"a": {"source": {"phases": [{"from_s": 5, "per_s": 1}]}}, "b": {"inputs": ["a"], "cost_us": 1}},
            "begin at 0",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_mend(operators: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        dataflow(**operators)
    assert words in str(error.value)


def test_slots_hold_the_largest_operator_where_they_are_shared_and_the_sum_where_not() -> None:
    given = {"name": "orders", "slots": 9, "operators": {"a": SOURCE, "b": {"inputs": ["a"], "cost_us": 1, "start": 8}}}
    shared = DataflowParameters.model_validate(given)
    assert shared.with_start({"b": 9}).start == {"a": 1, "b": 9}
    own = DataflowParameters.model_validate({**given, "sharing": False})
    with pytest.raises(ValueError, match="10 slots are taken, as none is shared, and there are 9"):
        own.with_start({"b": 9})
    with pytest.raises(ValueError, match="9 slots are taken, as none is shared, and there are 8"):
        DataflowParameters.model_validate({**given, "slots": 8, "sharing": False})


def test_operators_are_sorted_whatever_their_order_in_the_file() -> None:
    found = dataflow(c={"inputs": ["b"], "cost_us": 1}, b={"inputs": ["a"], "cost_us": 1}, a=SOURCE)
    assert list(found.operators) == ["a", "b", "c"]


def test_a_dataflow_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(SettingsError, match="heron-wordcount"):
        load_dataflow("heron")


def test_a_wrong_key_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("operators:\n  a:\n    source: {phases: [{per_s: 1}]}\n  b:\n    inputs: [a]\n    cost: 3\n")
    with pytest.raises(SettingsError, match=r"mine.yaml:6: unknown key"):
        load_dataflow(str(path))


def test_demands_follow_selectivity_copies_and_splits() -> None:
    found = dataflow(
        s=SOURCE,
        copy={"inputs": ["s"], "cost_us": 1, "selectivity": 3},
        left={"inputs": {"copy": 0.25}, "cost_us": 1},
        right={"inputs": {"copy": 0.75}, "cost_us": 1, "selectivity": 0.5},
        join={"inputs": ["left", "right"], "cost_us": 1},
    )
    assert demands(found, {"s": 100.0}) == {"s": 100, "copy": 100, "left": 75, "right": 225, "join": 187.5}
    with pytest.raises(ValueError, match="rate of source 's'"):
        demands(found, {})


@pytest.mark.parametrize("name", known_names(conf_part("dataflows")))
def test_shipped_dataflows_can_sustain_every_phase_and_one_less_cannot(name: str) -> None:
    parameters = load_dataflow(name)
    for second in parameters.change_times_s():
        rates = parameters.target_per_s(second)
        found = dict(optimum(parameters, rates))
        assert sustains(parameters, found, rates)
        for operator, instances in found.items():
            if instances > 1 and parameters.operators[operator].may_scale:
                assert not sustains(parameters, {**found, operator: instances - 1}, rates)


def test_the_papers_optima() -> None:
    heron, flink = load_dataflow("heron-wordcount"), load_dataflow("flink-wordcount")
    assert optimum(heron, heron.target_per_s(0)) == {"source": 1, "flatmap": 10, "count": 20}
    assert [
        (found["flatmap"], found["count"]) for found in (optimum(flink, flink.target_per_s(t)) for t in (0, 800))
    ] == [
        (19, 11),
        (7, 5),
    ]


@pytest.mark.parametrize("query", ["q1", "q2", "q3", "q5", "q8", "q11"])
def test_nexmark_needs_between_8_and_28_of_36(query: str) -> None:
    parameters = load_dataflow(f"nexmark-{query}")
    found = optimum(parameters, parameters.target_per_s(0))
    assert 8 <= found[parameters.shown] <= 28
    assert parameters.slots == 36


@pytest.mark.shared
def test_q1_scales_as_measured(shared_data: Path) -> None:
    measured = np.genfromtxt(shared_data / "nexmark" / "q1_mapper_processing_ability.csv", delimiter=",", skip_header=1)
    mapper = load_dataflow("nexmark-q1").operators["mapper"]
    said = np.array([mapper.capacity(int(n)) for n in measured[:, 0]])
    assert np.abs(said / measured[:, 2] - 1.0).mean() < 0.04
    assert mapper.capacity(26) / (26 * mapper.capacity(1)) == pytest.approx(0.54, abs=0.02)


def test_skew_takes_capacity_but_not_true_rates() -> None:
    plain = load_dataflow("flink-wordcount")
    skewed = plain.with_skew(0.5)
    one, other = plain.operators["count"], skewed.operators["count"]
    assert other.seen_cost_s(8) == one.seen_cost_s(8)
    assert other.capacity(8) == pytest.approx(one.capacity(8) / 4)
    with pytest.raises(ValueError, match="cannot take"):
        optimum(skewed, skewed.target_per_s(0))
    assert optimum(skewed, skewed.target_per_s(0), even=True) == optimum(plain, plain.target_per_s(0))
    with pytest.raises(ValueError, match="no operator 'x'"):
        plain.with_skew(0.5, ("x",))
    assert skewed.operators["flatmap"].hottest is None, "only keys make skew"
    with pytest.raises(ValueError, match="no operator is keyed"):
        load_dataflow("nexmark-q1").with_skew(0.5)


def test_shares_and_bursts_keep_their_sums() -> None:
    assert physics.shares(5, 0.4).tolist() == pytest.approx([0.4, 0.15, 0.15, 0.15, 0.15])
    assert physics.shares(2, 0.2).tolist() == [0.5, 0.5]
    assert physics.shares(1, 0.7).tolist() == [1.0]
    assert physics.burst_factors(10, 2, 1.4).mean() == pytest.approx(1.0)


def test_an_optimum_that_no_slots_hold_is_none() -> None:
    operators = {"a": SOURCE, "b": {"inputs": ["a"], "capacity_per_s": 20}}
    held = DataflowParameters.model_validate({"name": "x", "operators": operators, "slots": 6, "sharing": False})
    assert optimum(held, {"a": 100.0}) == {"a": 1, "b": 5}
    lacking = held.model_copy(update={"slots": 5})
    with pytest.raises(ValueError, match="6 slots are taken, as none is shared, and there are 5"):
        optimum(lacking, {"a": 100.0})

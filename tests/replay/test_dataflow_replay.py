"""Replays of operator-level policies: what the loop hands over, what it makes of the answers, and what it counts."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from PIL import Image

from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.replay.canvas import to_png
from perdix.replay.operators.campaign import (
    DataflowCase,
    DataflowContender,
    DataflowSetup,
    dataflow_contenders,
    play,
    run_dataflow_campaign,
)
from perdix.replay.operators.document import (
    dataflow_comparison,
    dataflow_document,
    dataflow_folder_name,
    write_dataflow_series,
)
from perdix.replay.operators.outcome import oscillations
from perdix.replay.operators.picture import dataflow_picture, draw_dataflow_campaign
from perdix.settings.yaml_files import SettingsError
from perdix.twin.dataflow.parameters import DataflowParameters, load_dataflow
from tests.replay.drawn import overlapping

Rule = Callable[[DataflowSituation], Mapping[str, int]]


class Scripted:
    """A policy that follows a rule and remembers everything that it was shown."""

    name = "scripted"

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.seen: list[DataflowSituation] = []

    def decide(self, situation: DataflowSituation) -> DataflowDecision:
        self.seen.append(situation)
        chosen = {**situation.parallelism, **self.rule(situation)}
        looks = situation.memory.get("looks", 0) + 1
        return DataflowDecision(self.name, chosen, Reason.HOLD_GOOD, "as told", memory={"looks": looks})


def case(seconds: int = 600, name: str = "flink-wordcount", seed: int = 1) -> DataflowCase:
    return DataflowCase(DataflowContender("scripted", "static"), load_dataflow(name), seed, seconds)


def played(rule: Rule, **how: Any) -> Any:
    return play(case(**how), policy=Scripted(rule)).outcome


def test_a_policy_sees_windows_rates_and_its_memory_but_nothing_while_all_stands_still() -> None:
    policy = Scripted(lambda seen: {"flatmap": 19, "count": 11} if seen.now_s >= 60 else {})
    outcome = play(case(400), policy=policy).outcome
    first = policy.seen[0]
    assert (first.now_s, first.since_rescale_s, first.memory) == (10, float("inf"), {})
    assert first.source_per_s == {"source": 2_000_000}
    assert {window.window_s for window in first.windows.values()} == {10.0}
    assert first.windows["flatmap"].instances == 10
    times = [situation.now_s for situation in policy.seen]
    after = next(situation for situation in policy.seen if situation.now_s > 60)
    assert after.now_s - 60 > 20, "the rescale at 60 s took its time, and nobody was asked meanwhile"
    assert 0 < after.since_rescale_s <= 10
    assert after.parallelism["flatmap"] == 19
    assert after.windows["flatmap"].window_s == after.since_rescale_s
    assert after.memory == {"looks": times.index(after.now_s)}
    assert len(outcome.decisions) == len(times)


def test_figures_of_a_policy_that_goes_to_the_optimum_at_once() -> None:
    outcome = played(lambda _: {"flatmap": 19, "count": 11})
    (phase,) = outcome.phases
    assert outcome.steps == 1
    assert dict(outcome.parallelism) == {"source": 8, "flatmap": 19, "count": 11} == dict(phase.optimum)
    assert set(phase.overshoot.values()) == {0}
    assert 30 < outcome.converged_s < 80
    assert phase.achieved == pytest.approx(1.0, abs=2e-3)
    assert phase.back_pressured < 0.02
    assert outcome.oscillations == 0
    assert 0.9 < outcome.instance_ratio < 1.0, "a short time below the optimum, then on it"
    assert outcome.bound_instance_s == 600 * (19 + 11)


def test_too_few_never_converge_and_too_many_overshoot() -> None:
    few, many = played(lambda _: {}), played(lambda _: {"flatmap": 30, "count": 20})
    assert few.converged_s is None
    assert few.steps == 0
    assert few.back_pressured > 0.9
    assert many.converged_s is not None
    assert dict(many.phases[-1].overshoot) == {"source": 0, "flatmap": 11, "count": 9}
    assert many.instance_ratio > 1.5


def test_queues_that_still_fill_do_not_pass_for_converged() -> None:
    outcome = played(lambda _: {"flatmap": 9, "count": 20}, name="heron-wordcount", seconds=400)
    assert outcome.phases[-1].achieved == pytest.approx(1.0), "they hold a good while"
    assert outcome.converged_s is None


def test_phases_are_judged_each_by_its_own_optimum() -> None:
    outcome = played(lambda seen: {"flatmap": 19, "count": 11} if seen.now_s < 800 else {"flatmap": 7}, seconds=1_100)
    first, second = outcome.phases
    assert (first.from_s, first.until_s, second.until_s) == (0, 800, 1_100)
    assert (first.steps, second.steps) == (1, 1)
    assert second.path[0]["flatmap"] == 19
    assert dict(second.optimum) == {"source": 8, "flatmap": 7, "count": 5}
    assert second.overshoot["count"] == 6


def test_a_phase_waits_for_the_rescale_that_it_begins_with() -> None:
    outcome = played(lambda seen: {"flatmap": 19, "count": 11} if seen.now_s >= 790 else {}, seconds=1_100)
    first, second = outcome.phases
    assert first.converged_s is None, "what was asked for 10 s before its end never ran in it"
    assert second.steps == 0
    assert 20 < second.converged_s < 70, "it still stood for a rescale that the phase before it had asked for"


def test_nobody_is_asked_at_the_very_end() -> None:
    policy = Scripted(lambda seen: {"flatmap": 19 if seen.now_s < 400 else 20})
    outcome = play(case(400), policy=policy).outcome
    assert policy.seen[-1].now_s < 400, "what is asked for at the end is never carried out, and no figure counts it"
    assert sum(decision.changed for decision in outcome.decisions) == outcome.steps == 1


def test_changes_of_direction_are_counted_per_operator() -> None:
    path = [{"a": 1, "b": 5}, {"a": 3, "b": 5}, {"a": 2, "b": 5}, {"a": 2, "b": 4}, {"a": 4, "b": 4}]
    assert oscillations(path) == 2
    assert oscillations([]) == 0


def test_skew_that_nothing_sustains_has_no_optimum_but_a_balanced_one() -> None:
    one = replace(case(200), parameters=load_dataflow("flink-wordcount").with_skew(0.5))
    phase = play(one, policy=Scripted(lambda _: {})).outcome.phases[-1]
    assert phase.optimum is None
    assert phase.overshoot is None
    assert dict(phase.balanced_optimum) == {"source": 8, "flatmap": 19, "count": 11}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"flatmap": 99}, "which can have 36"),
        ({"flatmap": 0}, "asks for 0 instances"),
        ({"flatmap": 2.5}, "asks for 2.5 instances"),
        ({"source": 9}, "not to be scaled"),
        ({"mapper": 3}, "'mapper', which is not there"),
    ],
)
def test_what_cannot_be_carried_out_is_held_and_told(answer: dict[str, Any], words: str) -> None:
    outcome = played(lambda _: answer, seconds=60)
    assert outcome.steps == 0
    assert words in outcome.problems[0]
    assert outcome.decisions[0].reason == "hold_invalid"


@pytest.mark.parametrize(("sharing", "taken"), [(True, 19), (False, 34)])
def test_slots_are_of_the_largest_operator_or_of_all(sharing: bool, taken: int) -> None:
    parameters = load_dataflow("flink-wordcount").model_copy(update={"slots": 34, "sharing": sharing})
    (who,) = dataflow_contenders("ds2")
    outcome = play(DataflowCase(who, parameters, 1, 790)).outcome
    counts = outcome.parallelism.values()
    assert (max(counts) if sharing else sum(counts)) == taken
    assert not outcome.problems
    many = play(DataflowCase(who, parameters, 1, 60), policy=Scripted(lambda _: {"flatmap": 20, "count": 20})).outcome
    assert bool(many.problems) is not sharing


def test_a_policy_that_raises_is_held_and_keeps_its_memory() -> None:
    def sometimes(seen: DataflowSituation) -> Mapping[str, int]:
        if seen.now_s == 30:
            raise ZeroDivisionError("no rate")
        return {}

    policy = Scripted(sometimes)
    outcome = play(case(60), policy=policy).outcome
    assert outcome.problems == ("at 30 s: Held: ZeroDivisionError: no rate.",)
    assert [situation.memory.get("looks", 0) for situation in policy.seen] == [0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ds3", "did you mean 'ds2'"),
        ("hpa-80", "known: "),
        ("dhalion:ticks=60", "unknown option 'ticks'; did you mean 'tick_s'?"),
        ("ds2:activation", "write activation=VALUE"),
        ("ds2:activatoin=3", "activatoin"),
        ("ds2:tick_s=0", "whole seconds"),
        ("ds2,ds2", "given twice"),
        (" , ", "no policy is named"),
    ],
)
def test_what_is_misspelt_is_answered_with_its_mend(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        dataflow_contenders(text)


def test_contenders_take_options_and_an_interval_of_their_own() -> None:
    one, two = dataflow_contenders("ds2:activation=5:tick_s=30,static:flatmap=12:count=9")
    assert (one.options, one.interval_s) == ({"activation": 5}, 30)
    assert two.options == {"parallelism": {"flatmap": 12, "count": 9}}
    assert two.build().name == "static"


@pytest.fixture(scope="module")
def campaign() -> Any:
    who = dataflow_contenders("ds2,static:flatmap=19:count=11")
    return run_dataflow_campaign(DataflowSetup(who, load_dataflow("flink-wordcount"), (1, 2), 900), processes=1)


def test_a_campaign_is_json_and_says_what_was_asked(campaign: Any) -> None:
    document = json.loads(json.dumps(dataflow_document(campaign), allow_nan=False))
    assert [(result["policy"], result["seed"]) for result in document["results"]] == [
        ("ds2", 1),
        ("static:flatmap=19:count=11", 1),
        ("ds2", 2),
        ("static:flatmap=19:count=11", 2),
    ]
    ds2, static = document["summary"]
    assert ds2["seeds"] == 2
    assert static["steps"]["mean"] == 1.0
    assert document["results"][0]["decisions"][0]["sentence"]
    assert document["results"][1]["parallelism"] == {"source": 8, "flatmap": 19, "count": 11}
    assert [policy["interval_s"] for policy in document["policies"]] == [10, 10]


def test_the_same_setup_gives_the_same_on_any_number_of_processes(campaign: Any) -> None:
    again = run_dataflow_campaign(replace(campaign.setup, seeds=(2,)), processes=2)
    for replay, other in zip(again.played, campaign.played[2:], strict=True):
        assert replace(replay.outcome, wall_s=0.0) == replace(other.outcome, wall_s=0.0)
    assert dataflow_folder_name(again.setup) != dataflow_folder_name(campaign.setup)


def test_a_replay_that_fails_does_not_take_the_others_with_it() -> None:
    broken = DataflowContender("broken", "no-such-policy")
    good = dataflow_contenders("static")[0]
    found = run_dataflow_campaign(DataflowSetup((broken, good), load_dataflow("nexmark-q1"), (1,), 60), processes=1)
    assert [replay.outcome.policy for replay in found.played] == ["static"]
    assert found.failed[0].policy == "broken"


def test_a_run_shorter_than_one_look_is_refused() -> None:
    with pytest.raises(SettingsError, match="do not cover one look"):
        DataflowSetup(dataflow_contenders("ds2"), load_dataflow("heron-wordcount"), (1,), 60)


def test_a_dataflow_of_which_nothing_may_be_scaled_is_refused() -> None:
    source = {"source": {"phases": [{"from_s": 0, "per_s": 1_000.0}]}}
    fixed = {"inputs": ["source"], "cost_us": 10.0, "scalable": False}
    for operators in ({"source": source, "other": source}, {"source": source, "work": fixed}):
        with pytest.raises(SettingsError, match="'odd': no operator may be scaled; set scalable: true of"):
            DataflowSetup(dataflow_contenders("ds2"), DataflowParameters(name="odd", operators=operators))


def test_series_are_one_table(campaign: Any, tmp_path: Path) -> None:
    paths = write_dataflow_series(campaign.played, tmp_path)
    assert len(paths) == 4
    rows = duckdb.sql(
        f"select operator, max(instances) from '{tmp_path}/static*.parquet' group by 1 order by 1"
    ).fetchall()
    assert rows == [("count", 11), ("flatmap", 19), ("source", 8)]


def test_pictures_hold_every_policy(campaign: Any, tmp_path: Path) -> None:
    (path,) = draw_dataflow_campaign(campaign, tmp_path)
    with Image.open(path) as image:
        assert image.width > 1_000
    first = campaign.played[0]
    figure = dataflow_picture([first], campaign.setup.parameters)
    assert figure.axes[0].get_title(loc="left") == f"ds2: {first.outcome.steps} steps"
    with Image.open(io.BytesIO(to_png(figure))) as image:
        assert np.asarray(image.convert("L")).std() > 5
    with pytest.raises(ValueError, match="no replay"):
        dataflow_picture([], campaign.setup.parameters)


def test_long_names_and_many_operators_fit_into_the_picture() -> None:
    """Beyond eight operators two would have the same colour: those with the most instances are shown."""
    source = {"source": {"phases": [{"from_s": 0, "per_s": 5_000.0}]}}
    work = {"inputs": ["source"], "cost_us": 10.0}
    names = [f"an operator with a rather long name, number {k}" for k in range(12)]
    operators = {name: {**work, "start": k // 2 + 1} for k, name in enumerate(names)}
    many = DataflowParameters(name="many", operators={"source": source, **operators})
    text = (
        "ds2:tick_s=30:warm_up_s=30:activation=5:rate_factor=0.1,ds2:tick_s=60:warm_up_s=30:activation=5:ignored_in=9"
    )
    setup = DataflowSetup(dataflow_contenders(text), many, (1,), 61)
    figure = dataflow_picture(run_dataflow_campaign(setup, processes=1).played, many)
    assert overlapping(figure) == []
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert [text.get_text() for text in legend.texts][:8] == names[4:]
    assert figure.get_suptitle() == "many, seed 1, 8 of 12 operators"


def test_what_mlflow_shows_of_it(campaign: Any) -> None:
    found = dataflow_comparison(campaign, 0.0, [])
    assert [item.name for item in found.compared] == ["ds2", "static:flatmap=19:count=11"]
    assert found.compared[1].metrics["steps"] == 1.0
    assert found.compared[1].series["instances/flatmap"][-1][1] == 19.0
    with pytest.raises(ValueError, match="nothing to record"):
        dataflow_comparison(replace(campaign, played=()), 0.0, [])


def test_ds2_finds_the_papers_optimum_on_heron_in_one_step() -> None:
    parameters: DataflowParameters = load_dataflow("heron-wordcount")
    (who,) = dataflow_contenders("ds2:warm_up_s=0")
    outcome = play(DataflowCase(who, parameters, 1, 900)).outcome
    assert outcome.steps == 1
    assert dict(outcome.parallelism) == {"source": 1, "flatmap": 10, "count": 20}


@pytest.mark.parametrize(
    ("label", "says"),
    [
        (
            "static:flatmpa=10",
            "policy 'static:flatmpa=10': there is no operator 'flatmpa'; known: source, flatmap, count",
        ),
        (
            "static:flatmap=99999",
            "policy 'static:flatmap=99999': operator 'flatmap': 99999 instances are outside 1..60",
        ),
    ],
)
def test_a_static_parallelism_that_the_dataflow_cannot_have_is_refused(label: str, says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        DataflowSetup(dataflow_contenders(label), load_dataflow("heron-wordcount"))

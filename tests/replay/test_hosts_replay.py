"""Replays on leased hosts: what policies are told, what is done of their answers, and what is written of it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pytest
from PIL import Image

from perdix.policies.contract import Reason
from perdix.policies.hosts.contract import (
    Action,
    HostsDecision,
    HostsSituation,
    LeaseAgain,
    LeaseHost,
    Migrate,
    ReleaseHost,
    StartInstance,
    Step,
    StopInstance,
)
from perdix.replay.canvas import to_png
from perdix.replay.hosts.document import (
    flat_means,
    hosts_comparison,
    hosts_document,
    hosts_folder_name,
    write_hosts_series,
)
from perdix.replay.hosts.picture import draw_hosts_campaign, hosts_picture
from perdix.replay.hosts.run import HostsCampaign, HostsCase, HostsSetup, hosts_contenders, play, run_hosts_campaign
from perdix.replay.hosts.situation import situation_of
from perdix.settings.yaml_files import SettingsError
from perdix.twin.hosts.parameters import load_topology
from perdix.twin.hosts.system import HostsTwin
from tests.replay.drawn import overlapping

TOPOLOGY = load_topology("manufacturing")
(BTU,) = hosts_contenders("btu:unit_min=10")


class Acting:
    """A policy that does what it is told to at each look."""

    name = "acting"

    def __init__(self, act: Callable[[HostsSituation], Any]) -> None:
        self.act = act
        self.seen: list[HostsSituation] = []

    def decide(self, situation: HostsSituation) -> Any:
        self.seen.append(situation)
        found = self.act(situation)
        if isinstance(found, list):
            steps = tuple(Step(step_s, Reason.SCALE_OUT, "told to") for step_s in found)
            return HostsDecision(self.name, steps, "as told", {"looks": len(self.seen)})
        return found


def acted(act: Callable[[HostsSituation], Any], seconds: int = 600, **case: Any) -> tuple[Any, list[HostsSituation]]:
    policy = Acting(act)
    played = play(HostsCase(replace(BTU, label="acting"), TOPOLOGY, "stepwise", 1, seconds, **case), policy=policy)
    return played.outcome, policy.seen


def at(*looks: list[Action]) -> Callable[[HostsSituation], list[Action]]:
    """Return what does these actions at the first, second, ... look."""
    return lambda situation: looks[k] if (k := int(situation.now_s) // 60 - 1) < len(looks) else []


def test_a_policy_is_told_what_is_there() -> None:
    outcome, seen = acted(
        at([LeaseHost("new"), StartInstance("oee", "new")], [], [ReleaseHost("new")]), forecaster="last-value"
    )
    first, second, third, fourth = seen[:4]
    assert (first.now_s, first.unit_s, first.check_interval_s) == (60.0, 600.0, 60.0)
    assert set(first.operators) == set(first.seen) == set(TOPOLOGY.operators)
    assert first.operators["parse"].duration_s == 1.5
    assert sorted(instance.operator for instance in first.instances.values()) == sorted(TOPOLOGY.operators)
    assert first.memory == {}
    assert second.memory == {"looks": 1}
    assert not second.hosts["new"].ready or third.hosts["new"].ready
    (mine,) = (instance for instance in second.instances.values() if instance.host_id == "new")
    assert mine.operator == "oee"
    assert second.seen["oee"].scalings == 1
    assert second.hosts["new"].paid_until_s == 660.0
    assert second.hosts["new"].images == frozenset()
    assert "oee" in third.hosts["new"].images
    assert fourth.hosts["new"].releasing
    assert len(third.seen["temperature"].durations_s) == TOPOLOGY.measuring.last
    assert (first.seen["temperature"].queue_items or 0) > 1_000, "one instance of it does not suffice"
    most = 2 * TOPOLOGY.processing.at_a_time / 0.6
    assert third.seen["temperature"].per_instance_s == pytest.approx(most, rel=0.35)
    assert first.seen["temperature"].forecast is None, "too early"
    forecast = seen[-1].seen["temperature"].forecast
    assert forecast is not None
    assert forecast.mean[0] == pytest.approx(10 * 8 / 0.48, rel=0.5)
    assert outcome.hosts_leased == 2


def test_steps_that_cannot_be_are_told_with_their_reasons_and_the_rest_goes_on() -> None:
    outcome, seen = acted(
        at([
            StartInstance("oee", "nowhere"),
            LeaseHost("new"),
            LeaseHost("new"),
            StartInstance("sum", "new"),
            StopInstance("oee-99999"),
            Migrate("oee-99999", "new"),
            StartInstance("oee", "new"),
            *[StartInstance("parse", "new")] * 7,
        ])
    )  # fmt: skip
    refused = [(step.action, step.refused) for step in outcome.steps if step.refused]
    assert [action for action, _ in refused] == [
        "StartInstance", "LeaseHost", "StartInstance", "StopInstance", "Migrate", "StartInstance", "StartInstance",
    ]  # fmt: skip
    assert "no host 'nowhere'" in refused[0][1]
    assert "parse needs 0.66" in refused[-1][1]
    assert len(outcome.steps) == 14
    there = [instance.operator for instance in seen[-1].instances.values() if instance.host_id == "new"]
    assert sorted(there) == ["oee"] + ["parse"] * 5
    assert outcome.refused == 7
    assert any("no host 'nowhere'" in problem for problem in outcome.problems)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda _: None, "no decision"),
        (lambda _: HostsDecision("x", ("go",), "", {}), "no step"),  # type: ignore[arg-type]
        (lambda _: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_policy_that_fails_or_answers_nonsense_is_held(answer: Callable[..., Any], words: str) -> None:
    outcome, seen = acted(answer, 300)
    assert len(outcome.problems) == 4
    assert words in outcome.problems[0]
    assert outcome.steps == ()
    assert len(seen[-1].instances) == len(TOPOLOGY.operators), "nothing is lost"


def test_an_action_that_nobody_knows_is_refused() -> None:
    outcome, _ = acted(at(["dance"]), 300)  # type: ignore[list-item]
    assert [step.refused for step in outcome.steps] == ["'dance' is no action"]


def test_a_host_of_which_nothing_is_said_goes_on_and_is_paid_for() -> None:
    outcome, _ = acted(lambda _: [], 700)
    assert outcome.bills[0].paid_units == 2
    assert outcome.went_on == 1
    again, _ = acted(lambda s: [LeaseAgain(n) for n, h in s.hosts.items() if h.paid_until_s - s.now_s <= 60], 700)
    assert again.bills[0].paid_units == 2
    assert again.went_on == 0


@pytest.mark.parametrize("policy", ["btu:unit_min=10", "threshold", "btu-forecast:unit_min=10"])
def test_policies_survive_hosts_that_die(policy: str) -> None:
    (who,) = hosts_contenders(policy)
    outcome = play(HostsCase(who, TOPOLOGY, "two-level", 3, 900, failures=2)).outcome
    assert outcome.dead_hosts == 2
    assert outcome.lost_instances >= len(TOPOLOGY.operators)
    assert outcome.items > 0.4 * 900 * 23.2 * 5 / 0.48, "it works on after all"
    assert not any("Error" in problem for problem in outcome.problems)


def test_the_same_case_gives_the_same_outcome_and_another_seed_another_one() -> None:
    case = HostsCase(BTU, TOPOLOGY, "random-walk-2", 4, 600)
    one, same, other = (play(case).outcome, play(case).outcome, play(replace(case, seed=5)).outcome)
    assert replace(one, wall_s=0.0) == replace(same, wall_s=0.0)
    assert one.delayed != other.delayed


def test_the_baseline_is_played_once_and_billed_by_every_unit() -> None:
    (who,) = hosts_contenders("threshold")
    outcome = play(HostsCase(who, TOPOLOGY, "stepwise", 1, 1_800)).outcome
    assert [bill.unit_min for bill in outcome.bills] == [10, 30, 60]
    costs = [bill.resource_cost for bill in outcome.bills]
    assert costs == sorted(costs)
    for bill in outcome.bills:
        assert bill.total_cost["near"] == pytest.approx(bill.resource_cost + 0.0001 * outcome.delayed["near"])
    assert outcome.compliance["real-time"] < outcome.compliance["near"] < outcome.compliance["relaxed"]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["stepwise", "two-level"])
def test_btu_complies_better_than_the_baseline_and_costs_less_at_60_min(pattern: str) -> None:
    btu, threshold = (
        play(HostsCase(contender, TOPOLOGY, pattern, 1, TOPOLOGY.duration_s)).outcome
        for contender in hosts_contenders("btu:unit_min=60,threshold")
    )
    (mine,), baseline = btu.bills, threshold.bills[-1]
    for level in TOPOLOGY.costs.levels:
        assert btu.compliance[level] > threshold.compliance[level]
        assert mine.total_cost[level] < baseline.total_cost[level]
    assert mine.resource_cost < baseline.resource_cost


def test_what_a_user_writes_of_policies() -> None:
    btu, threshold = hosts_contenders("btu:unit_min=30:tick_s=30:queue_threshold=80, threshold")
    assert (btu.unit_min, btu.interval_s, btu.options) == (30, 30, {"queue_threshold": 80})
    assert HostsCase(btu, TOPOLOGY, "stepwise", 1, 60).unit_s == 1_800
    assert HostsCase(threshold, TOPOLOGY, "stepwise", 1, 60).billed_min == (10, 30, 60)
    for text, words in (
        ("btuu", "did you mean 'btu'"),
        ("btu,btu", "given twice"),
        ("btu:unit_min=0", "whole minutes from 1 to 44,640"),
        ("btu:queue=3", "unknown option 'queue'"),
        ("btu:unit=30", "unknown option 'unit'; did you mean 'unit_min'?"),
        ("", "no policy is named"),
    ):
        with pytest.raises(SettingsError, match=words):
            hosts_contenders(text)


@pytest.fixture(scope="module")
def campaign() -> HostsCampaign:
    who = hosts_contenders("btu:unit_min=10,threshold")
    setup = HostsSetup(who, TOPOLOGY, ("stepwise", "two-level"), (1, 2), 300)
    return run_hosts_campaign(setup, processes=1)


def test_the_document_is_plain_json(campaign: HostsCampaign) -> None:
    found = hosts_document(campaign)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert len(found["results"]) == 8
    assert [(row["pattern"], row["policy"], row["seeds"]) for row in found["summary"]] == [
        (pattern, policy, 2) for pattern in ("stepwise", "two-level") for policy in ("btu:unit_min=10", "threshold")
    ]
    near = [result["compliance"]["near"] for result in found["results"][:4:2]]
    assert found["summary"][0]["compliance"]["near"]["mean"] == pytest.approx(np.mean(near))
    assert set(found["results"][1]["bills"]) == {"10", "30", "60"}
    assert hosts_folder_name(campaign.setup) == hosts_folder_name(replace(campaign.setup))
    assert hosts_folder_name(campaign.setup) != hosts_folder_name(replace(campaign.setup, failures=1))


def test_series_are_one_table(campaign: HostsCampaign, tmp_path: Path) -> None:
    paths = write_hosts_series(campaign.played, tmp_path)
    assert len(paths) == 8
    table = ds.dataset(tmp_path).to_table()
    assert table.num_rows == 8 * 300 * len(TOPOLOGY.operators)
    first = campaign.played[0].course
    assert sum(table.column("arrived").to_pylist()) == pytest.approx(
        sum(float(replay.course.arrived[-1].sum()) for replay in campaign.played)
    )
    assert first.queue.shape == (300, 9)


def named(replay: Any) -> Any:
    """Return a replay of a policy with many options."""
    label = f"btu:tick_s=30:unit_min=60:its_longest_option={replay.outcome.policy}"
    return replace(replay, outcome=replace(replay.outcome, policy=label))


def test_pictures_show_each_pattern(campaign: HostsCampaign, tmp_path: Path) -> None:
    only = replace(campaign, setup=replace(campaign.setup, patterns=("two-level",)))
    assert [path.name for path in draw_hosts_campaign(only, tmp_path)] == ["manufacturing-two-level.png"]
    figure = hosts_picture([replay for replay in campaign.played if replay.outcome.pattern == "stepwise"][:2])
    assert [axes.get_ylabel() for axes in figure.axes] == ["instances", "", "hosts", ""]
    titles = [first for first, _ in overlapping(hosts_picture([named(replay) for replay in campaign.played[:2]]))]
    assert not any("btu" in title for title in titles)
    with Image.open(io.BytesIO(to_png(figure))) as image:
        assert np.asarray(image.convert("L")).std() > 5
    with pytest.raises(ValueError, match="no replay"):
        hosts_picture([])


def test_what_mlflow_shows_of_it(campaign: HostsCampaign) -> None:
    found = hosts_comparison(campaign, 0.0, [])
    assert [item.name for item in found.compared][:2] == ["stepwise: btu:unit_min=10", "stepwise: threshold"]
    metrics = found.compared[1].metrics
    assert {"compliance_near", "resource_cost_60", "total_cost_near_60", "hosts_mean"} <= set(metrics)
    assert found.compared[0].series["machines"][-1] == (4, 5.0)
    assert "| stepwise | threshold |" in found.note
    with pytest.raises(ValueError, match="nothing to record"):
        hosts_comparison(replace(campaign, played=()), 0.0, [])
    assert flat_means({"seeds": 0}) == {}


def test_a_setup_that_cannot_be_is_refused() -> None:
    for changes, words in (
        ({"patterns": ("round",)}, "no pattern 'round'"),
        ({"patterns": ()}, "no pattern is named"),
        ({"patterns": ("stepwise", "stepwise")}, "given twice"),
        ({"seconds": 60}, "do not cover one look"),
        ({"seconds": 900, "failures": 10**9}, "1000000000 failures in 0.25 hours are more failures than one a minute"),
    ):
        with pytest.raises(SettingsError, match=words):
            HostsSetup(**{"contenders": (BTU,), "topology": TOPOLOGY, "patterns": ("stepwise",), **changes})


def test_a_billing_unit_is_a_month_at_most() -> None:
    assert hosts_contenders("btu:unit_min=44640")[0].unit_min == 44_640
    with pytest.raises(SettingsError, match="unit_min must be whole minutes from 1 to 44,640, found 100000"):
        hosts_contenders("btu:unit_min=100000")


class OnlyItsEnd(list[Any]):
    """A list that nobody goes through from its beginning."""

    def __iter__(self) -> Any:
        pytest.fail("all of it is gone through")


def test_a_look_does_not_go_through_all_that_happened_before() -> None:
    twin = HostsTwin(load_topology("manufacturing"), "stepwise", 1)
    twin.step(600)
    known = situation_of(twin, 60.0, {})
    twin.measured, twin.fleet.events = OnlyItsEnd(twin.measured), OnlyItsEnd(twin.fleet.events)
    assert situation_of(twin, 60.0, {}) == known

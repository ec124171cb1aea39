"""Policies that size operators, by name and options; and what holds for every one of them."""

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.models.dataflow.rates import InstanceWindow
from perdix.policies.contract import Reason
from perdix.policies.dataflow.build import DATAFLOW_POLICIES, build_dataflow_policy
from perdix.policies.dataflow.contract import DataflowSituation
from perdix.policies.dataflow.static import Static, StaticOptions
from perdix.policies.hosts.build import build_hosts_policy
from perdix.settings.yaml_files import SettingsError
from tests.policies.steady_dataflow import NOW_S, heron_word_count, random_dataflow, random_start

ONE_EACH = {"source": 1, "split": 1, "count": 1}
HOLDS = {reason for reason in Reason if reason.name.startswith("HOLD_")}
QUICK: dict[str, dict[str, Any]] = {
    "dhalion": {"sensor_s": 10.0, "wait_s": 0.0, "scale_in_after_s": 0.0},
    "ds2": {"warm_up_s": 0.0, "ignored_in": 0},
    "flink-autoscaler": {"window_s": 10.0, "stabilisation_s": 0.0, "scale_down_interval_s": 0.0},
    "static": {},
}


@pytest.mark.parametrize("name", DATAFLOW_POLICIES)
def test_every_policy_is_built_with_its_defaults_and_decides(name: str) -> None:
    policy = build_dataflow_policy(name)
    decision = policy.decide(heron_word_count().situation(ONE_EACH))
    assert policy.name == name == decision.policy
    assert decision.sentence.endswith(".")
    json.dumps(dict(decision.memory), allow_nan=False)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ds3", {}, "unknown policy 'ds3'; did you mean 'ds2'?"),
        ("zzz", {}, "unknown policy 'zzz'; known: dhalion, ds2, flink-autoscaler, static"),
        ("ds2", {"activations": 2}, "policy 'ds2': unknown option 'activations'; did you mean 'activation'?"),
        ("ds2", {"combine": "mean"}, "policy 'ds2': option 'combine': Input should be 'last', 'max' or 'median'"),
        ("dhalion", {"fence": 0}, "policy 'dhalion': option 'fence': Input should be greater than 0 (found 0)"),
        (
            "static",
            {"parallelism": {"count": 0}},
            "option 'parallelism.count': Input should be greater than or equal to 1",
        ),
    ],
)
def test_a_wrong_name_or_option_is_answered_with_the_mend(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        build_dataflow_policy(name, options)
    assert says in str(caught.value)


def test_static_runs_what_it_is_told_as_far_as_operators_can() -> None:
    situation = heron_word_count().situation(ONE_EACH)
    assert Static().decide(situation).reason is Reason.HOLD_GOOD
    fixed = Static(StaticOptions(parallelism={"split": 10, "count": 20, "other": 3})).decide(situation)
    assert (fixed.parallelism, fixed.reason) == ({"source": 1, "split": 10, "count": 20}, Reason.SCALE_OUT)
    assert fixed.sentence == "Fixed: source 1, split 10, count 20."
    graph = Dataflow(
        (Operator("source", scalable=False), Operator("split", ("source",), 4), Operator("count", ("split",)))
    )
    less = StaticOptions(parallelism={"source": 2, "split": 10})
    told = Static(less).decide(DataflowSituation(NOW_S, graph, ONE_EACH, {}, {}))
    assert told.sentence == "Fixed: source 1, split 4, count 1; source can run 1, not 2, split can run 4, not 10."


numbers = st.one_of(st.sampled_from([math.nan, math.inf, -1.0, 0.0]), st.floats(0.0, 20.0))


@st.composite
def situations(draw: st.DrawFn, *, blind: bool = False) -> DataflowSituation:
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    steady = random_dataflow(rng)
    runs = random_start(rng, steady)
    windows = steady.windows(runs)
    lost = draw(st.sets(st.sampled_from(steady.graph.names)))
    for name in lost if blind else ():
        kind = draw(st.sampled_from(["gone", "part", "nonsense", "no time", "empty"]))
        if kind == "gone":
            del windows[name]
            continue
        one = windows[name]
        kept = {"part": 1, "empty": 0}.get(kind, one.instances)
        spoiled = np.array([draw(numbers) for _ in range(min(kept, 3))] + [math.nan] * max(kept - 3, 0))
        useful_s = spoiled if kind == "nonsense" else one.useful_s[:kept]
        window_s = draw(st.sampled_from([0.0, math.nan, math.inf])) if kind == "no time" else one.window_s
        windows[name] = InstanceWindow(window_s, one.processed[:kept], one.produced[:kept], useful_s)
    source_per_s = dict(steady.source_per_s)
    for name in list(source_per_s):
        if blind and draw(st.booleans()):
            source_per_s[name] = draw(numbers)
    memory = draw(
        st.sampled_from([{}, {"parallelism": runs, "since_s": 0.0, "results": [[runs, None]]}, {"acted_s": "x"}])
    )
    return DataflowSituation(NOW_S, steady.graph, runs, windows, source_per_s, memory=memory)


@pytest.mark.parametrize("name", DATAFLOW_POLICIES)
@given(situation=situations(blind=True))
@settings(max_examples=60, deadline=None)
def test_whatever_is_measured_the_answer_can_be_carried_out(name: str, situation: DataflowSituation) -> None:
    policy = build_dataflow_policy(name, QUICK[name])
    before = copy.deepcopy(situation)
    decision = policy.decide(situation)
    assert set(decision.parallelism) == set(situation.graph.names)
    assert all(isinstance(count, int) and count >= 1 for count in decision.parallelism.values())
    assert (decision.reason in HOLDS) == (not decision.changes(situation))
    json.dumps(dict(decision.memory), allow_nan=False)
    assert policy.decide(before) == decision, "the same situation gives the same decision"


@pytest.mark.parametrize("name", DATAFLOW_POLICIES)
@given(situation=situations())
@settings(max_examples=25, deadline=None)
def test_an_operator_that_did_not_report_is_never_scaled_in(name: str, situation: DataflowSituation) -> None:
    silent = situation.graph.names[-1]
    windows = {k: v for k, v in situation.windows.items() if k != silent}
    blind = DataflowSituation(NOW_S, situation.graph, situation.parallelism, windows, situation.source_per_s)
    policy = build_dataflow_policy(name, QUICK[name])
    memory: dict[str, Any] = {}
    for k in range(4):
        now = DataflowSituation(
            NOW_S + 10.0 * k, blind.graph, blind.parallelism, windows, blind.source_per_s, memory=memory
        )
        decision = policy.decide(now)
        assert decision.parallelism[silent] == situation.parallelism[silent]
        memory = dict(decision.memory)


@pytest.mark.parametrize(
    ("build", "name", "options", "says"),
    [
        (build_dataflow_policy, "ds2", {"minimum": 5, "maximum": 3}, "minimum 5 is above maximum 3"),
        (
            build_hosts_policy,
            "threshold",
            {"queue_threshold": 0.0, "queue_idle": 5.0},
            "queue_idle 5 is above queue_threshold 0",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(build: Any, name: str, options: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        build(name, options)

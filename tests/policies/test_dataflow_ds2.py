"""DS2 per operator: the paper's figures, each branch of the scaling manager, and the original program's defects."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.models.dataflow.rates import InstanceWindow
from perdix.policies.contract import Reason
from perdix.policies.dataflow.asking import decided
from perdix.policies.dataflow.build import build_dataflow_policy
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.policies.dataflow.ds2.options import Ds2Options
from perdix.policies.dataflow.ds2.policy import Ds2
from perdix.policies.dataflow.scaling_manager import worthwhile
from perdix.policies.dataflow.skew import skew_of
from perdix.replay.operators.campaign import DataflowCase, DataflowContender, play
from perdix.settings.yaml_files import SettingsError
from perdix.twin.dataflow.parameters import DataflowParameters
from tests.policies.steady_dataflow import NOW_S, Steady, Truth, chain, configurations, follow, heron_word_count

ONE_EACH = {"source": 1, "split": 1, "count": 1}
W = 10.0


def ds2(**options: Any) -> Ds2:
    """DS2 without warm-up, to which every change is worth it."""
    return Ds2(Ds2Options(**{"warm_up_s": 0.0, "ignored_in": 0, **options}))


def later(situation: DataflowSituation, decision: DataflowDecision, **changes: Any) -> DataflowSituation:
    """The next interval, with what was decided running."""
    memory = json.loads(json.dumps(dict(decision.memory), allow_nan=False))
    rescaled = bool(decision.changes(situation))
    since_s = W if rescaled else situation.since_rescale_s + W
    given = {"parallelism": dict(decision.parallelism), "since_rescale_s": since_s, **changes}
    return replace(situation, now_s=situation.now_s + W, memory=memory, **given)


def instances(processed: list[float], useful_s: list[float], out: float = 1.0) -> InstanceWindow:
    return InstanceWindow(W, np.array(processed), out * np.array(processed), np.array(useful_s))


def one_operator(window: InstanceWindow | None, *, running: int, target: float, **changes: Any) -> DataflowSituation:
    """A source of ``target`` records/s that emits them all, and one operator behind it."""
    graph = Dataflow((Operator("source"), Operator("work", ("source",), **changes.pop("operator", {}))))
    windows = {"source": InstanceWindow(W, np.zeros(1), np.array([target * W]), np.array([0.1]))}
    if window is not None:
        windows["work"] = window
    given = {"source_per_s": {"source": target}, **changes}
    return DataflowSituation(NOW_S, graph, {"source": 1, "work": running}, windows, **given)


# ---- the paper ----------------------------------------------------------------------------------------------------


def test_figure_2_both_operators_in_one_decision() -> None:
    # o1 works all the time for 10/s, o2 half of it for 100/s: 40/s take 4 and 2
    steady = chain(("o1", Truth(10.0, selectivity=10.0)), ("o2", Truth(200.0)), source_per_s=40.0)
    decision = ds2().decide(steady.situation({"source": 1, "o1": 1, "o2": 1}))
    assert (decision.parallelism, decision.reason) == ({"source": 1, "o1": 4, "o2": 2}, Reason.SCALE_OUT)
    assert decision.sentence == "o1 1 to 4, o2 1 to 2 (10/s of 40/s are emitted)."
    assert [operator.why for operator in decision.operators[1:]] == ["40/s take 4", "400/s take 2"]


@pytest.mark.parametrize(
    "start", [ONE_EACH, {"source": 1, "split": 22, "count": 30}, {"source": 1, "split": 1, "count": 55}]
)
def test_the_heron_word_count_takes_one_step_to_10_and_20(start: Mapping[str, int]) -> None:
    decisions = follow(ds2(), heron_word_count(), start, intervals=5, window_s=60.0)
    assert configurations(start, decisions) == [start, {"source": 1, "split": 10, "count": 20}]
    assert decisions[-1].sentence == "What runs is what the target rates take (16,667/s of 16,667/s are emitted)."


def test_windows_that_begin_within_the_warm_up_are_ignored() -> None:
    # 5.3: 10 s interval, 30 s warm-up: the first three decisions after a reconfiguration are ignored
    decisions = follow(Ds2(), heron_word_count(), ONE_EACH, intervals=8)
    grace, out = Reason.HOLD_GRACE, Reason.SCALE_OUT
    assert [decision.reason for decision in decisions] == [
        grace,
        grace,
        grace,
        out,
        grace,
        grace,
        grace,
        Reason.HOLD_GOOD,
    ]
    in_windows = follow(ds2(warm_up=2), heron_word_count(), ONE_EACH, intervals=4)
    assert [decision.reason for decision in in_windows] == [grace, grace, out, grace]


def test_a_longer_window_than_the_time_since_the_rescale_is_ignored() -> None:
    steady = heron_word_count()
    decision = ds2().decide(steady.situation(ONE_EACH, since_rescale_s=W - 1.0))
    assert decision.reason is Reason.HOLD_GRACE
    assert ds2().decide(steady.situation(ONE_EACH, since_rescale_s=math.nan)).reason is Reason.HOLD_GRACE


@pytest.mark.parametrize(("combine", "wanted"), [("max", 8), ("median", 6), ("last", 4)])
def test_activation_combines_consecutive_results(combine: str, wanted: int) -> None:
    policy = ds2(activation=3, combine=combine, target_rate_ratio=None)
    situation = one_operator(instances([1_000.0] * 5, [10.0] * 5), running=5, target=800.0)  # 100/s each
    for target in (600.0, 400.0):
        decision = policy.decide(situation)
        assert (decision.reason, decision.parallelism["work"]) == (Reason.HOLD_GOOD, 5)
        situation = later(situation, decision, source_per_s={"source": target})
    assert policy.decide(situation).parallelism["work"] == wanted


def test_agreement_waits_until_all_results_are_the_same() -> None:
    policy = ds2(activation=2, agreement=True)
    situation = one_operator(instances([1_000.0] * 2, [10.0] * 2), running=2, target=400.0)
    situation = later(situation, policy.decide(situation), source_per_s={"source": 500.0})
    decision = policy.decide(situation)
    assert (decision.reason, decision.sentence) == (
        Reason.HOLD_GOOD,
        "The last 2 results differ; they are acted on once they agree.",
    )
    assert policy.decide(later(situation, decision)).parallelism["work"] == 5


def unseen(share: float, *, running: int, **changes: Any) -> DataflowSituation:
    """Four instances would do for 400/s at 100/s of useful time, but the source only emits ``share`` of it."""
    useful_s = 400.0 * share * W / running / 100.0
    window = instances([400.0 * share * W / running] * running, [useful_s] * running)
    situation = one_operator(window, running=running, target=400.0, **changes)
    source = InstanceWindow(W, np.zeros(1), np.array([400.0 * share * W]), np.array([0.1]))
    return replace(situation, windows={**situation.windows, "source": source})


def test_overheads_that_useful_time_does_not_show_raise_the_result() -> None:
    decision = ds2().decide(unseen(0.8, running=4))
    assert decision.parallelism["work"] == 5
    assert "raised, as 1.25 times as much should be emitted as is" in decision.sentence
    assert ds2(target_rate_ratio=1.3).decide(unseen(0.8, running=4)).parallelism["work"] == 4
    assert ds2(target_rate_ratio=None).decide(unseen(0.8, running=4)).parallelism["work"] == 4
    assert ds2().decide(unseen(0.7, running=3)).parallelism["work"] == 4, "not beside a scale-out"


def test_only_operators_with_too_little_to_spare_are_raised() -> None:
    # the first has 1 % to spare, the second 80 %, and a tenth is missing: 12 and 20, not 12 and 22
    graph = Dataflow((Operator("source"), Operator("tight", ("source",)), Operator("wide", ("source",))))
    runs, windows = {"source": 1, "tight": 11, "wide": 20}, {"source": source_of(900.0)}
    for name, needed in (("tight", 10.9), ("wide", 11.0)):
        useful_s = 900.0 / (1_000.0 / needed) / runs[name] * W
        windows[name] = instances([900.0 * W / runs[name]] * runs[name], [useful_s] * runs[name])
    situation = DataflowSituation(NOW_S, graph, runs, windows, {"source": 1_000.0})
    decision = ds2().decide(situation)
    assert decision.parallelism == {"source": 1, "tight": 13, "wide": 13}


@pytest.mark.parametrize("last", [{"maximum": 10}, {"scalable": False}])
def test_what_an_operator_holds_back_that_can_have_no_more_raises_no_other(last: dict[str, Any]) -> None:
    # the last one takes 1,000/s of 50,000/s: 500 instances are needed, 10 may be. Fifty times the others help nobody
    steady = chain(("first", Truth(100.0)), ("last", Truth(100.0)), source_per_s=50_000.0, last=last)
    start = {"source": 1, "first": 500, "last": 10}
    assert configurations(start, follow(ds2(), steady, start)) == [start]
    # and a twentieth that useful time hides, beside that, is still raised
    hides = {name: replace(window, useful_s=0.9 * window.useful_s) for name, window in steady.windows(start).items()}
    decision = ds2().decide(steady.situation(start, windows=hides))
    assert decision.parallelism["first"] == 500
    assert "raised, as 50 times" in decision.sentence


@pytest.mark.parametrize("unmeasured", [(), (1,), (0, 1)])
def test_an_instance_that_is_not_measured_hides_no_other_that_holds_all_back(unmeasured: tuple[int, ...]) -> None:
    """Its useful time, no number, compared as the greatest of all others, and all were raised that more do not help."""
    runs = {"source": 2, "work": 2, "hot": 4}
    steady = chain(("work", Truth(1_000.0)), ("hot", Truth(100.0, key=0.5)), source_per_s=300.0)
    windows = {n: replace(window, back_pressured_s=np.zeros(0)) for n, window in steady.windows(runs).items()}
    windows["hot"] = replace(windows["hot"], useful_s=0.9 * windows["hot"].useful_s)  # the rest is overhead
    windows["source"].useful_s[list(unmeasured)] = math.nan
    decision = ds2().decide(steady.situation(runs, windows=windows))
    assert "the sources fall short because hot is uneven" in decision.sentence


@pytest.mark.parametrize("other", [0.0, 5e-324, 2.2e-309, 1e-9, 1.0])
def test_an_operator_with_far_more_than_it_needs_is_not_what_holds_the_sources_back(other: float) -> None:
    # What is behind the source that falls short did not report; behind the other source there is next to nothing to do.
    graph = Dataflow((Operator("busy"), Operator("quiet"), Operator("unseen", ("busy",)), Operator("idle", ("quiet",))))
    runs = {"busy": 1, "quiet": 1, "unseen": 4, "idle": 33}
    windows = {
        "busy": source_of(900.0),
        "quiet": source_of(300.0),
        "idle": instances([300.0 * W / 33] * 33, [W / 33] * 33),
    }
    situation = DataflowSituation(NOW_S, graph, runs, windows, {"busy": 1_000.0, "quiet": other})
    decision = ds2(minimum=1).decide(situation)
    assert decision.parallelism["idle"] <= 33
    json.dumps(dict(decision.memory), allow_nan=False)


def test_what_was_raised_is_not_scaled_in_again_while_the_target_is_the_same() -> None:
    # Useful time hides a twentieth: 100 instances seem to do, 106 do. The original would go to and fro.
    policy, situation = ds2(), hidden(100)
    course = [100]
    for _ in range(6):
        decision = policy.decide(situation)
        course.append(decision.parallelism["work"])
        situation = later(situation, decision, windows=hidden(course[-1]).windows)
    assert course == [100, 106, 106, 106, 106, 106, 106]
    half = hidden(106, target=500.0)
    decision = policy.decide(replace(situation, windows=half.windows, source_per_s=half.source_per_s))
    assert decision.parallelism["work"] == 50


def hidden(running: int, target: float = 1_000.0) -> DataflowSituation:
    """An operator that needs a tenth of a second per record, of which it hides a twentieth."""
    emitted = min(target, running * 10.0 / 1.055)
    window = instances([emitted * W / running] * running, [emitted / 10.0 / running * W] * running)
    situation = one_operator(window, running=running, target=target)
    return replace(situation, windows={**situation.windows, "source": source_of(emitted)})


def test_minor_changes_are_ignored() -> None:
    running = one_operator(instances([800.0] * 5, [8.0] * 5), running=5, target=400.0)
    assert ds2().decide(running).parallelism["work"] == 4
    assert ds2(ignored_in=1).decide(running).reason is Reason.HOLD_GOOD
    many = one_operator(instances([800.0] * 20, [8.75] * 20), running=20, target=1_600.0)
    assert ds2().decide(many).parallelism["work"] == 18
    assert ds2(ignored_in=2).decide(many).reason is Reason.HOLD_GOOD
    few = one_operator(instances([800.0] * 5, [6.0] * 5), running=5, target=400.0)
    assert ds2(ignored_in=2).decide(few).parallelism["work"] == 3, "two of five are not minor"


def test_what_is_minor_grows_with_what_runs() -> None:
    # One or two of the paper's 36 are noise, and so are eleven of 200: noise is a share of what is measured
    assert [worthwhile(36, wanted, 2, 2) for wanted in (34, 33)] == [36, 33]
    assert [worthwhile(200, wanted, 2, 2) for wanted in (211, 189, 212, 188)] == [200, 200, 212, 188]
    assert worthwhile(1_000, 799, 100, 100) == 799, "more than a fifth never is"
    assert worthwhile(1_000, 999, 0, 0) == 999


@pytest.mark.parametrize("seed", [1, 2])
def test_a_large_dataflow_with_noisy_metrics_settles(seed: int) -> None:
    noisy = {"instrumentation": 0.03, "speed": 0.03}
    source = {"source": {"phases": [{"from_s": 0, "per_s": 1_997_000}], "noise": 0.03}, "start": 4}
    work = {"inputs": ["source"], "cost_us": 100.0, "start": 150, "maximum": 400}
    twin = DataflowParameters(name="large", operators={"source": source, "work": work}, noise=noisy)  # 200 do
    outcome = play(DataflowCase(DataflowContender("ds2", "ds2", {}, 60), twin, seed, 3_600)).outcome
    path = [sizes["work"] for sizes in outcome.phases[0].path]
    assert path == sorted(path), "it turned back for no other reason than noise"
    assert len(path) <= 9


def test_an_instance_that_is_needed_is_not_minor() -> None:
    # all is emitted and processed, and noise asks for one more: minor; the same where the source falls short: needed
    noisy = one_operator(instances([1_000.0] * 19 + [990.0], [10.0] * 20), running=20, target=2_000.0)
    assert ds2(ignored_out=0).decide(noisy).parallelism["work"] == 21
    assert ds2().decide(noisy).reason is Reason.HOLD_GOOD
    short = replace(noisy, source_per_s={"source": 2_050.0})
    assert ds2().decide(short).parallelism["work"] == 21
    fills = one_operator(instances([950.0] * 20, [10.0] * 20), running=20, target=2_000.0)
    assert ds2().decide(fills).parallelism["work"] == 22, "what is emitted waits in queues"


def at(running: int, emitted: float, *, useful: float = 0.8, **changes: Any) -> DataflowSituation:
    """``running`` instances that work ``useful`` of their time for what is emitted; 400/s should be."""
    each = emitted * W / running
    situation = one_operator(
        instances([each] * running, [useful * W] * running), running=running, target=400.0, **changes
    )
    return replace(situation, windows={**situation.windows, "source": source_of(emitted)})


def source_of(per_s: float) -> InstanceWindow:
    return InstanceWindow(W, np.zeros(1), np.array([per_s * W]), np.array([0.1]))


def test_a_rescale_that_made_things_worse_is_taken_back_once() -> None:
    # useful time tells that 4 do, 360/s of 400/s are emitted, so results are raised; and with 5 it becomes worse
    policy = ds2(avoid_s=100.0)
    first = at(4, 360.0)
    raised = policy.decide(first)
    assert (raised.reason, raised.parallelism["work"]) == (Reason.SCALE_OUT, 5)
    second = later(first, raised, windows=at(5, 300.0, useful=0.5).windows)
    back = policy.decide(second)
    assert (back.reason, back.parallelism["work"]) == (Reason.ROLLBACK, 4)
    assert (
        back.sentence
        == "Since work 4 to 5 the sources emit 300/s, before it was 360/s: taken back, and avoided for 100 s."
    )
    third = later(second, back, windows=first.windows)
    held = policy.decide(third)
    assert (held.reason, held.parallelism["work"]) == (Reason.HOLD_AVOIDED, 4)
    assert "work 4 to 5 would follow, but made things worse not long ago" in held.sentence
    fourth = replace(later(third, held), now_s=third.now_s + 100.0)
    again = policy.decide(fourth)
    assert again.parallelism["work"] == 5, "it is not avoided for ever"
    ahead = {**fourth.memory, "avoided": [[fourth.now_s + 86_400.0, {"source": 1, "work": 5}, 400.0]]}
    set_back = policy.decide(replace(fourth, memory=ahead))
    assert set_back.parallelism["work"] == 5, "nor for as long as a clock was ahead that has been set back"
    fifth = later(fourth, again, windows=second.windows)
    assert policy.decide(fifth).reason is not Reason.ROLLBACK, "but is not taken back twice"


def test_what_the_rule_holds_to_be_too_small_is_never_gone_back_to() -> None:
    policy, first = ds2(), at(4, 200.0, useful=1.0)
    decision = policy.decide(first)
    assert decision.parallelism["work"] == 8
    worse = at(8, 150.0, useful=0.375)  # 50/s of useful time still: 4 would not do
    assert policy.decide(later(first, decision, windows=worse.windows)).reason is not Reason.ROLLBACK


def test_rates_are_compared_once_queues_neither_fill_nor_empty() -> None:
    # before, the source emits all that it should, for a while: what is emitted waits in queues
    policy, first = ds2(), at(10, 400.0, useful=0.4)
    filling = replace(first, windows={**first.windows, "work": instances([380.0] * 10, [4.0] * 10)})
    for before, reason in ((first, Reason.ROLLBACK), (filling, Reason.SCALE_OUT)):
        decision = policy.decide(before)
        assert decision.parallelism["work"] in {4, 5}
        count = decision.parallelism["work"]
        worse = at(count, 320.0, useful=0.8 * 4 / count)
        assert policy.decide(later(before, decision, windows=worse.windows)).reason is reason


def test_skew_is_never_a_reason_to_go_back() -> None:
    policy, first = ds2(), at(10, 400.0, useful=0.4)
    decision = policy.decide(first)
    hot = instances([800.0] * 4, [9.6, 7.0, 7.0, 7.0])
    worse = {"source": source_of(320.0), "work": hot}
    found = policy.decide(later(first, decision, windows=worse))
    assert found.reason is Reason.HOLD_GOOD
    assert "because work is uneven" in found.sentence


def test_less_load_is_not_a_reason_to_take_back() -> None:
    policy, first = ds2(), at(4, 360.0)
    worse = later(first, policy.decide(first), windows=at(5, 300.0, useful=0.5).windows)
    assert policy.decide(worse).reason is Reason.ROLLBACK
    assert policy.decide(replace(worse, source_per_s={"source": 300.0})).reason is not Reason.ROLLBACK
    assert ds2(rollback_tolerance=None).decide(worse).reason is not Reason.ROLLBACK


def test_a_scale_in_that_fell_short_is_corrected_rather_than_taken_back() -> None:
    # 5.3, phase 2: scaled in to 7 and 4, then one more, although the source fell short in between
    policy = ds2()
    first = one_operator(instances([400.0] * 10, [4.0] * 10), running=10, target=400.0)
    decision = policy.decide(first)
    assert decision.parallelism["work"] == 4
    slower = {"source": source_of(320.0), "work": instances([800.0] * 4, [10.0] * 4)}  # 80/s each now
    assert policy.decide(later(first, decision, windows=slower)).parallelism["work"] == 5
    idle = {"source": source_of(320.0), "work": instances([800.0] * 4, [8.0] * 4)}  # nothing shows why
    assert policy.decide(later(first, decision, windows=idle)).reason is Reason.ROLLBACK


def test_the_number_of_vain_scale_outs_is_limited() -> None:
    policy = ds2(decision_limit=2, target_rate_ratio=1.0, skew_ratio=99.0)
    situation = stuck(4)
    rescales = 0
    for _ in range(8):
        decision = policy.decide(situation)
        rescales += bool(decision.changes(situation))
        situation = later(situation, decision, windows=stuck(decision.parallelism["work"]).windows)
    assert (rescales, decision.reason) == (2, Reason.HOLD_AVOIDED)
    assert decision.sentence == (
        "No rescale: 2 scale-outs in a row hardly raised what the sources emit (200/s of 400/s), as with skew or a "
        "straggler, which scaling does not fix."
    )
    more = replace(situation, source_per_s={"source": 800.0})
    assert policy.decide(more).reason is Reason.SCALE_OUT, "another target rate is another matter"


def test_scale_outs_that_were_in_vain_say_nothing_of_a_job_with_other_operators() -> None:
    policy = ds2(decision_limit=2, target_rate_ratio=1.0, skew_ratio=99.0)
    situation = stuck(4)
    for _ in range(8):
        decision = policy.decide(situation)
        situation = later(situation, decision, windows=stuck(decision.parallelism["work"]).windows)
    assert decision.reason is Reason.HOLD_AVOIDED
    graph = Dataflow((Operator("source"), Operator("work", ("source",)), Operator("sink", ("work",))))
    redeployed = replace(situation, graph=graph, parallelism={**situation.parallelism, "sink": 1})
    assert policy.decide(redeployed).reason is Reason.SCALE_OUT


def stuck(running: int) -> DataflowSituation:
    """200/s are emitted of 400/s whatever runs; useful time asks for one instance more than runs."""
    window = instances([200.0 * W / running] * running, [200.0 / 400.0 * (running + 0.5) * W / running] * running)
    situation = one_operator(window, running=running, target=400.0)
    return replace(situation, windows={**situation.windows, "source": source_of(200.0)})


# ---- what did not report ------------------------------------------------------------------------------------------


def test_what_did_not_report_is_held_and_named_and_holds_up_no_other() -> None:
    steady = heron_word_count()
    windows = steady.windows(ONE_EACH)
    del windows["count"]
    decision = ds2().decide(steady.situation(ONE_EACH, windows=windows))
    assert decision.parallelism == {"source": 1, "split": 10, "count": 1}
    assert "count: it did not report" in decision.sentence
    windows = steady.windows(ONE_EACH)
    del windows["split"]
    decision = ds2().decide(steady.situation(ONE_EACH, windows=windows))
    assert (decision.parallelism, decision.reason) == (ONE_EACH, Reason.HOLD_UNKNOWN)
    assert "count: what reaches it from split is not known" in decision.sentence


def test_instances_that_did_not_report_forbid_scaling_in_but_not_out() -> None:
    part = instances([800.0] * 3, [4.0] * 3)  # 3 of 6, 200/s of useful time each
    decision = ds2().decide(one_operator(part, running=6, target=600.0))
    assert decision.parallelism["work"] == 6
    assert "work is not scaled in: 3 of its 6 instances did not report what can be used" in decision.sentence
    assert ds2().decide(one_operator(part, running=6, target=2_000.0)).parallelism["work"] == 10
    lost = instances([800.0] * 3 + [math.nan] * 3, [4.0] * 3 + [math.nan] * 3)
    assert ds2().decide(one_operator(lost, running=6, target=600.0)).parallelism["work"] == 6


def test_an_unknown_source_rate_forbids_scaling_in() -> None:
    window = instances([400.0] * 6, [2.0] * 6)
    unknown = one_operator(window, running=6, target=240.0, source_per_s={})
    unknown = replace(unknown, windows={"source": replace(source_of(240.0), useful_s=np.array([W])), "work": window})
    decision = ds2().decide(unknown)
    assert decision.parallelism["work"] == 6
    assert "work is not scaled in: it is not known what source should emit" in decision.sentence


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"windows": {}}, "no operator reported"),
        ({"parallelism": {"source": 1, "split": 1}}, "it is not known how many instances of count run"),
        ({"parallelism": {"source": 1, "split": 0, "count": 1}}, "it is not known how many instances of split run"),
    ],
)
def test_blind(changes: dict[str, Any], says: str) -> None:
    decision = ds2().decide(replace(heron_word_count().situation(ONE_EACH), **changes))
    assert (decision.reason, decision.sentence) == (Reason.HOLD_BLIND, f"Blind: {says}.")


# ---- defects of the original program ------------------------------------------------------------------------------


def test_original_ignores_the_target_rate_ratio_online() -> None:
    assert ds2(target_rate_ratio=1.0).decide(unseen(0.9, running=4)).parallelism["work"] == 5


def test_original_loses_a_setting_whose_name_it_does_not_know() -> None:
    with pytest.raises(SettingsError, match="unknown option 'target_rate_ratio_threshold'; did you mean"):
        build_dataflow_policy("ds2", {"target_rate_ratio_threshold": 1.0})


def test_original_acts_on_the_last_result_whatever_the_activation_time() -> None:
    policy = ds2(activation=2)
    situation = one_operator(instances([1_000.0] * 2, [10.0] * 2), running=2, target=600.0)
    situation = later(situation, policy.decide(situation), source_per_s={"source": 400.0})
    assert policy.decide(situation).parallelism["work"] == 6


def test_original_adds_rates_of_a_new_epoch_to_those_of_an_old_one() -> None:
    policy = ds2(activation=2)
    situation = one_operator(instances([1_000.0] * 2, [10.0] * 2), running=2, target=600.0)
    decision = policy.decide(situation)
    elsewhere = replace(decision, parallelism={"source": 1, "work": 3})  # somebody else rescaled
    situation = later(
        situation, elsewhere, windows={"source": source_of(300.0), "work": instances([1e3] * 3, [1e1] * 3)}
    )
    decision = policy.decide(situation)
    assert decision.reason is Reason.HOLD_GRACE, "the window may be of before"
    decision = policy.decide(later(situation, decision))
    assert decision.sentence == "1 of 2 results until one is acted on."


def test_original_keeps_the_number_of_instances_that_it_began_with() -> None:
    steady = heron_word_count()
    decisions = follow(ds2(), steady, ONE_EACH, intervals=2)
    doubled = replace(steady, source_per_s={"source": 2 * steady.source_per_s["source"]})
    situation = doubled.situation(decisions[-1].parallelism, memory=decisions[-1].memory, now_s=NOW_S + 30.0)
    assert ds2().decide(situation).parallelism == {"source": 1, "split": 20, "count": 40}


def test_original_waits_for_ever_for_an_idle_instance() -> None:
    idle = instances([1_000.0] * 3 + [0.0], [10.0] * 3 + [0.0])
    assert ds2().decide(one_operator(idle, running=4, target=600.0)).parallelism["work"] == 6
    silent = instances([1_000.0] * 3, [10.0] * 3)
    assert ds2().decide(one_operator(silent, running=4, target=600.0)).parallelism["work"] == 6


def test_original_gives_an_idle_operator_no_instances_at_all() -> None:
    idle = instances([0.0] * 4, [0.0] * 4)
    decision = ds2().decide(one_operator(idle, running=4, target=0.0))
    assert (decision.parallelism["work"], decision.reason) == (4, Reason.HOLD_UNKNOWN)
    assert "work: it was idle" in decision.sentence


def test_original_gives_four_billion_instances_where_useful_time_is_zero() -> None:
    nonsense = instances([1_000.0] * 4, [0.0] * 4)
    assert ds2().decide(one_operator(nonsense, running=4, target=500.0)).parallelism["work"] == 4


def test_original_knows_no_bounds_and_no_slots() -> None:
    window = instances([1_000.0] * 2, [10.0] * 2)
    most = one_operator(window, running=2, target=5_000.0, operator={"maximum": 12})
    assert ds2().decide(most).parallelism["work"] == 12
    assert ds2(maximum=7).decide(most).parallelism["work"] == 7
    assert (
        ds2(minimum=3, target_rate_ratio=None).decide(one_operator(window, running=2, target=10.0)).parallelism["work"]
        == 3
    )
    few = heron_word_count().situation(ONE_EACH, slots=16)
    decision = ds2().decide(few)
    assert sum(decision.parallelism.values()) <= 16
    assert "31 slots are wanted, 16 are there" in decision.sentence
    shared = ds2().decide(replace(few, slots_shared=True))
    assert shared.parallelism == {"source": 1, "split": 8, "count": 16}


@pytest.mark.parametrize(("shared", "slots"), [(False, 16), (True, 12)])
def test_slots_bound_an_operator_too_that_is_not_scaled_in(shared: bool, slots: int) -> None:
    steady, start = heron_word_count(), {"source": 1, "split": 2, "count": 3}
    windows = steady.windows(start)
    windows["count"].useful_s[2] = math.nan  # one of its instances reports nothing that can be used
    decision = decided(ds2(), steady.situation(start, windows=windows, slots=slots, slots_shared=shared))
    taken = decision.parallelism.values()
    assert (decision.reason, (max if shared else sum)(taken)) == (Reason.SCALE_OUT, slots), decision.sentence
    wide = {"source": 1, "split": 1, "count": 14}
    windows = heron_word_count().windows(wide)
    windows["count"].useful_s[2] = math.nan
    decision = decided(ds2(), steady.situation(wide, windows=windows, slots=16))
    assert decision.parallelism["count"] == 14, "what is not measured as a whole is not scaled in for others"


def test_what_is_not_to_be_scaled_keeps_what_it_runs_though_slots_were_lost() -> None:
    steady = chain(("first", Truth(100.0)), ("fixed", Truth(100.0)), source_per_s=900.0, fixed={"scalable": False})
    situation = steady.situation({"source": 1, "first": 4, "fixed": 12}, slots=10, slots_shared=True)
    assert decided(ds2(), situation).parallelism == {"source": 1, "first": 9, "fixed": 12}


def test_original_takes_an_error_of_rounding_for_an_instance() -> None:
    each = [0.1 * W] * 3
    window = instances(each, [0.1 * W / (0.1 + 0.2) * 3 / 10] * 3)
    assert ds2(target_rate_ratio=None).decide(one_operator(window, running=3, target=3.0)).parallelism["work"] == 3


def test_original_counts_the_whole_output_for_every_branch() -> None:
    graph = Dataflow((Operator("source"), Operator("a", ("source",)), Operator("b", ("source",))))
    truth = {"a": Truth(10.0), "b": Truth(10.0)}
    steady = Steady(graph, {"source": 100.0}, truth, {"source": {"a": 0.7, "b": 0.3}})
    assert ds2().decide(steady.situation({"source": 1, "a": 1, "b": 1})).parallelism == {"source": 1, "a": 7, "b": 3}


def test_original_panics_where_an_operator_is_missing() -> None:
    assert ds2().decide(one_operator(None, running=3, target=100.0)).parallelism["work"] == 3


# ---- what perdix adds ---------------------------------------------------------------------------------------------


def test_skew_is_averaged_away_as_published_and_told() -> None:
    # 4.2.3: the configuration that would be optimal without skew, which does not meet the target
    steady = chain(("work", Truth(100.0, key=0.3)), source_per_s=500.0)
    decisions = follow(ds2(), steady, {"source": 1, "work": 2}, intervals=6)
    assert decisions[-1].parallelism["work"] == 5
    assert (
        "work: instance 1 works 100% of its time, 2.2 times the mean, which is averaged away" in decisions[-1].sentence
    )
    assert "the sources fall short because work is uneven, which more instances do not fix" in decisions[-1].sentence


def test_the_hottest_instance_keeps_up_where_more_can_help() -> None:
    # a key of 10 % of 500/s leaves an instance 50/s for its part of the other 450/s: 9 instances
    steady = chain(("work", Truth(100.0, key=0.1)), source_per_s=500.0)
    assert steady.least()["work"] == 9
    start = {"source": 1, "work": 5}
    decisions = follow(ds2(skew="hottest"), steady, start, intervals=6)
    assert configurations(start, decisions) == [start, {"source": 1, "work": 9}]
    assert "that one keeps up with 9 instances" in decisions[0].sentence
    bounded = follow(ds2(skew="hottest", skew_bound=1.5), steady, start, intervals=6)
    assert bounded[-1].parallelism["work"] == 8
    assert "of which 7.5 are allowed" in bounded[0].sentence


def test_one_key_is_more_than_an_instance_can_take() -> None:
    steady = chain(("work", Truth(100.0, key=0.3)), source_per_s=500.0)
    decisions = follow(ds2(skew="hottest"), steady, {"source": 1, "work": 2}, intervals=6)
    assert decisions[-1].parallelism["work"] == 5, "never beyond what a single key allows"
    assert "30% of its input go to one instance however many there are" in decisions[-1].sentence


def test_an_instance_that_stays_hot_whatever_runs_is_averaged_in_the_end() -> None:
    # One instance gets 25 % of 500/s however many there are, and can take 100: more seem to help, and do not.
    policy, course = ds2(skew="hottest"), [6]
    situation = fixed_share(6)
    for _ in range(8):
        decision = policy.decide(situation)
        course.append(decision.parallelism["work"])
        situation = later(situation, decision, windows=fixed_share(course[-1]).windows)
    assert course == [6, 9, 10, 5, 5, 5, 5, 5, 5]
    assert "the sources fall short because work is uneven" in decision.sentence


@pytest.mark.parametrize(("for_s", "counts"), [(-1.0, False), (50.0, True), (86_400.0, False)])
def test_a_hot_key_is_known_for_a_while_but_not_for_as_long_as_a_clock_was_ahead(for_s: float, counts: bool) -> None:
    """The clock that wrote the last was a day ahead and has been set back."""
    policy, now = ds2(skew="hottest", avoid_s=100.0), fixed_share(6)
    now = replace(now, now_s=now.now_s + 10.0 * W)
    kept = dict(policy.decide(now).memory)
    seen = kept["hot_keys"]["work"][0]
    found = policy.decide(replace(now, memory={**kept, "hot_keys": {"work": [0.9, now.now_s + for_s]}}))
    assert found.memory["hot_keys"]["work"][0] == (0.9 if counts else seen)


def fixed_share(running: int) -> DataflowSituation:
    """The first of ``running`` instances gets a quarter of all, and holds the source to 400/s of 500."""
    shares = [0.25] + [0.75 / (running - 1)] * (running - 1)
    window = instances([400.0 * W * share for share in shares], [4.0 * W * share for share in shares])
    situation = one_operator(window, running=running, target=500.0)
    return replace(situation, windows={**situation.windows, "source": source_of(400.0)})


def test_a_straggler_is_hot_without_a_key() -> None:
    window = instances([500.0] * 4, [9.0, 5.0, 5.0, 5.0])
    skew = skew_of(window, 1.2)
    assert skew is not None
    assert (skew.instance, skew.key) == (1, 0.0)
    assert skew.unrounded_for(200.0) == pytest.approx(200.0 / (500.0 / 9.0))
    assert skew_of(instances([500.0] * 4, [5.0] * 4), 1.2) is None
    assert skew_of(instances([500.0], [5.0]), 1.2) is None


def test_key_groups_are_dealt_out_evenly_on_demand() -> None:
    keyed = one_operator(instances([1_000.0] * 2, [10.0] * 2), running=2, target=450.0, operator={"key_groups": 12})
    assert ds2().decide(keyed).parallelism["work"] == 5
    assert ds2(alignment="EVENLY_SPREAD").decide(keyed).parallelism["work"] == 6


def test_what_is_not_to_be_scaled_stays() -> None:
    fixed = one_operator(instances([1_000.0] * 2, [10.0] * 2), running=2, target=450.0, operator={"scalable": False})
    assert ds2().decide(fixed).parallelism["work"] == 2


def test_head_room_is_not_passed_on() -> None:
    steady = chain(("o1", Truth(10.0, selectivity=10.0)), ("o2", Truth(200.0)), source_per_s=40.0)
    decision = ds2(rate_factor=0.3).decide(steady.situation({"source": 1, "o1": 1, "o2": 1}))
    assert decision.parallelism == {"source": 1, "o1": 6, "o2": 3}  # 5.2 and 2.6


# ---- the claims of section 3.4, and memory ------------------------------------------------------------------------


def test_what_is_remembered_is_json_and_may_be_broken() -> None:
    steady = heron_word_count()
    policy = ds2(curve="learned", activation=2)
    decision = policy.decide(steady.situation(ONE_EACH))
    good = json.loads(json.dumps(dict(decision.memory), allow_nan=False))
    fresh = policy.decide(steady.situation(ONE_EACH, memory=good, now_s=NOW_S + W)).parallelism
    assert fresh == {"source": 1, "split": 10, "count": 20}
    for key in good:
        for broken in (None, 7, "x", [], [[]], {"split": "x"}, [[1]], {"split": [[1]]}, [[None, None]]):
            memory = {**good, key: broken}
            again = policy.decide(steady.situation(ONE_EACH, memory=memory, now_s=NOW_S + W))
            assert all(count >= 1 for count in again.parallelism.values())


@pytest.mark.parametrize(
    ("running", "target", "options", "wanted"),
    [(11, 95.0, {"maximum": 10}, 10), (11, 109.0, {"maximum": 10}, 10), (3, 10.0, {"minimum": 4}, 4)],
)
def test_bounds_are_no_minor_change(running: int, target: float, options: dict[str, int], wanted: int) -> None:
    each = instances([target / running * W] * running, [target / running / 10.0 * W] * running)
    now = one_operator(each, running=running, target=target)
    assert Ds2(Ds2Options(warm_up_s=0.0, **options)).decide(now).parallelism["work"] == wanted

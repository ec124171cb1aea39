"""What a replay recommends: what each policy costs and how often it is late, against the best fixed size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.replay.recommendation import Side, Weighed, is_beaten, recommendation, weigh
from perdix.settings.stream_job import Objectives

OBJECTIVE = "the objective (p95 latency above 5 s in at most 5 % of the seconds, nothing left unprocessed)"


def side(policy: str, workers: float, late: float = 0.01, left: float = 0.0) -> Side:
    """One hour and one seed: its cost is in worker-seconds."""
    held = late <= 0.05 and left == 0
    return Side(policy, 3_600 * workers, (workers, workers, workers), late, late, left, held)


def fixed(workers: float, late: float = 0.03, left: float = 0.0) -> Side:
    return side("best-static", workers, late, left)


def names(weighed: Weighed) -> tuple[str | None, str | None, list[str]]:
    recommended, nearest = (summary and summary.policy for summary in (weighed.recommended, weighed.nearest))
    return recommended, nearest, [summary.policy for summary in weighed.beaten]


# ---- the rule -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policies", "rival", "recommended", "nearest", "beaten"),
    [
        pytest.param([side("a", 4), side("b", 5)], fixed(6), "a", None, [], id="all hold and cost less"),
        pytest.param([side("a", 4), side("b", 7)], fixed(6), "a", None, ["b"], id="one costs more"),
        pytest.param([side("a", 7), side("b", 12)], fixed(3), "best-static", None, ["a", "b"], id="all cost more"),
        pytest.param([side("a", 4, 0.2), side("b", 5)], fixed(6), "b", None, ["a"], id="the cheaper one is late"),
        pytest.param([side("a", 4, 0.2), side("b", 9)], fixed(6), "best-static", None, ["a", "b"], id="late or dearer"),
        pytest.param([side("a", 4, 0.2), side("b", 5, 0.1)], fixed(6), "best-static", "b", ["a", "b"], id="none holds"),
        pytest.param([side("a", 4, left=9)], fixed(6), "best-static", "a", ["a"], id="records are left"),
        pytest.param([side("static-6", 6, 0.03)], fixed(6), "static-6", None, [], id="equal"),
        pytest.param([side("a", 6.02)], fixed(6), "a", None, [], id="as much, as it is said"),
        pytest.param([side("a", 12.02, 0.3)], fixed(12, 0.3), "best-static", "a", [], id="none holds, as late"),
        pytest.param([side("a", 4, 0.2), side("b", 5, 0.1)], fixed(12, 0.3), "b", "b", [], id="nothing holds"),
        pytest.param([side("a", 4, 0.4)], fixed(12, 0.3), "best-static", "a", ["a"], id="the fixed size is nearest"),
        pytest.param([side("a", 14)], fixed(12, 0.3), "a", None, [], id="only a policy holds"),
        pytest.param([side("a", 4), side("b", 5)], None, "a", None, [], id="no fixed size to compare with"),
        pytest.param([side("a", 4, 0.2), side("b", 5, 0.1)], None, "b", "b", [], id="none holds, no fixed size"),
        pytest.param([], fixed(6), "best-static", None, [], id="no policy came to its end"),
        pytest.param([], None, None, None, [], id="nothing came to its end"),
    ],
)
def test_what_is_recommended(
    policies: list[Side], rival: Side | None, recommended: str | None, nearest: str | None, beaten: list[str]
) -> None:
    assert names(weigh(policies, rival)) == (recommended, nearest, beaten)


def test_a_fixed_size_that_is_late_itself_beats_only_what_is_no_less_late() -> None:
    rival = fixed(12, 0.3)
    assert is_beaten(side("a", 4, 0.4), rival)
    assert is_beaten(side("a", 13, 0.3), rival)
    assert not is_beaten(side("a", 11, 0.3), rival)
    assert not is_beaten(side("a", 13, 0.2), rival)
    assert not is_beaten(side("a", 13), rival)


sides = st.builds(
    side,
    st.sampled_from("abc"),
    st.integers(1, 12),
    st.floats(0, 1),
    st.sampled_from([0.0, 0.0, 10.0]),
)


@given(st.lists(sides, max_size=4), sides)
def test_nothing_is_recommended_that_a_number_in_a_file_beats(policies: list[Side], other: Side) -> None:
    rival = replace(other, policy="best-static")
    chosen = weigh(policies, rival).recommended
    assert chosen is not None
    assert chosen is rival or not is_beaten(chosen, rival)
    if rival.held:
        assert chosen.held
        assert chosen.cost <= rival.cost
    if any(policy.held for policy in policies):
        assert chosen.held


# ---- its words ----------------------------------------------------------------------------------------------------


def summarised(side: Side, seeds: int = 1, held: int | None = None) -> dict[str, Any]:
    def spread(mean: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
        return {"mean": mean, "sd": None, "min": mean if low is None else low, "max": mean if high is None else high}

    return {
        "policy": side.policy,
        "seeds": seeds,
        "held": (seeds if side.held else 0) if held is None else held,
        "average_workers": spread(*side.workers),
        "worker_seconds": spread(side.cost),
        "cost": spread(side.cost / 3_600 * 0.5),
        "share_above_objective": spread(side.late, high=side.late_most),
        "unprocessed": spread(side.unprocessed),
    }


def sentence(*given: Side, **how: Any) -> str:
    return str(recommendation([summarised(summary) for summary in given], Objectives(), **how)["sentence"])


def test_a_policy_that_beats_the_fixed_size_is_recommended_with_both_numbers() -> None:
    assert sentence(side("a", 4.5), side("b", 5), fixed(6)) == (
        f"Recommended: a. It held {OBJECTIVE} with 4.5 workers on average, late in 1.0 % of the seconds; that is 25 % "
        "less than the best fixed size, 6 workers (best-static, known only afterwards), late in 3.0 % of the seconds. "
        "Also held: b with 5 workers on average, 11 % more."
    )


def test_three_workers_are_recommended_where_policies_need_twelve_or_are_late() -> None:
    assert sentence(side("a", 2.4, 0.23), side("static-12", 12, 0.0), fixed(3, 0.004)) == (
        "Recommended: a fixed size. 3 workers, kept all the time (best-static, known only afterwards), held "
        f"{OBJECTIVE}: late in 0.4 % of the seconds. Beaten by best-static: a with 2.4 workers on average, 20 % less, "
        "but late in 23.0 % of the seconds; static-12 with 12 workers on average, 300 % more."
    )


def test_where_no_policy_holds_the_nearest_is_named_with_what_it_needs() -> None:
    assert sentence(side("a", 2, 0.2), side("b", 4, 0.1), fixed(5)).endswith(
        "No policy held it; the nearest is b with 4 workers on average, 20 % less than best-static, but late in 10.0 % "
        "of the seconds. Beaten by best-static: a with 2 workers on average, 60 % less, but late in 20.0 % of the "
        "seconds."
    )


def test_where_nothing_holds_the_last_word_is_not_none_of_these() -> None:
    assert sentence(side("a", 11, 0.1, left=1_234), side("b", 9, 0.2), fixed(12, 0.3)) == (
        f"Nothing held {OBJECTIVE}. a comes nearest: late in 10.0 % of the seconds, 1,234 records left, with 11 "
        "workers on average. The fixed size that is late least: 12 workers kept all the time (best-static), late in "
        "30.0 % of the seconds. Not held: b with 9 workers on average, 18 % less, but late in 20.0 % of the seconds."
    )
    assert "The best fixed size comes nearest: 12 workers kept all the time" in sentence(
        side("a", 4, 0.4), fixed(12, 0.3)
    )
    assert sentence(side("a", 4, 0.4)).endswith(
        "a comes nearest: late in 40.0 % of the seconds, with 4 workers on average."
    )


def test_a_policy_that_holds_where_no_fixed_size_does_says_so() -> None:
    assert sentence(side("a", 11), fixed(12, 0.3)).endswith(
        "No fixed size holds it: 12 workers (best-static), late in 30.0 % of the seconds."
    )


def test_a_size_that_is_the_best_one_costs_as_much() -> None:
    assert "that is as much as the best fixed size, 6 workers" in sentence(side("static-6", 6), fixed(6))


def test_money_is_compared_where_hosts_were_priced() -> None:
    cheaper = [summarised(side("a", 7)), summarised(fixed(6))]
    cheaper[0]["cost"]["mean"] = 2.0  # of 3.0: fewer leases
    found = recommendation(cheaper, Objectives(), currency="USD")
    assert found["policy"] == "a"
    assert "7 workers on average for 2 USD" in found["sentence"]
    assert "33 % less than the best fixed size, 6 workers for 3 USD" in found["sentence"]


def test_prices_of_sizes_are_in_any_currency() -> None:
    given = [summarised(side("a", 4)), summarised(side("b", 5))]
    assert "with 4 workers on average for 2, late in" in recommendation(given, Objectives(), currency="")["sentence"]


def test_what_is_dearer_and_late_is_both() -> None:
    assert "b with 12 workers on average, 100 % more, and late in 20.0 %" in sentence(
        side("b", 12, 0.2), side("a", 5), fixed(6)
    )


def test_a_policy_holds_when_it_holds_with_every_seed() -> None:
    """The fixed size has to, too."""
    mostly = replace(side("a", 4, 0.03), late_most=0.07)
    found = recommendation([summarised(mostly, 5, held=4), summarised(fixed(5), 5)], Objectives())
    assert (found["policy"], found["held"], found["beaten"]) == ("best-static", True, ["a"])
    assert "late in 3.0 % of the seconds (7.0 % with the worst seed)" in found["sentence"]


def test_a_policy_whose_replay_failed_with_a_seed_did_not_hold_with_every_seed() -> None:
    summaries = [summarised(side("a", 4), 2), summarised(side("b", 5), 3), summarised(fixed(6), 3)]
    found = recommendation(summaries, Objectives(), seeds=3)
    assert (found["policy"], found["held"], found["beaten"]) == ("b", True, ["a"])
    assert (
        "a with 4 workers on average, 33 % less, but late in 1.0 % of the seconds, failed with 1 seed"
        in (found["sentence"])
    )


def test_where_nothing_holds_what_failed_with_a_seed_is_not_the_nearest() -> None:
    summaries = [summarised(side("a", 4, 0.1), 2), summarised(side("b", 5, 0.2), 3), summarised(fixed(6, 0.3), 3)]
    assert recommendation(summaries, Objectives(), seeds=3)["policy"] == "b"


def test_an_amount_just_below_a_thousand_is_written_out() -> None:
    summary = summarised(side("a", 4))
    summary["cost"] = {"mean": 999.7}
    assert "4 workers on average for 1,000 EUR" in recommendation([summary], Objectives(), currency="EUR")["sentence"]


def test_what_costs_something_is_more_than_what_costs_nothing() -> None:
    """Workers of a size of one's own cost nothing, those of another do."""
    own, leased = summarised(side("cba-own", 9)), summarised(side("cba-leased", 4))
    own["cost"], leased["cost"] = {"mean": 0.0}, {"mean": 0.5}
    said = recommendation([own, leased], Objectives(), currency="")["sentence"]
    assert said.startswith("Recommended: cba-own.")
    assert said.endswith("Also held: cba-leased with 4 workers on average for 0.5, more.")
    leased["cost"] = {"mean": 0.0}
    assert recommendation([own, leased], Objectives(), currency="")["sentence"].endswith("for 0, as much.")


def test_sizes_that_differ_between_seeds_are_given_as_a_range() -> None:
    ranged = replace(fixed(5.5), workers=(5.5, 5.0, 6.0))
    assert "5 to 6 workers (as the seed has it), kept all the time" in sentence(side("a", 7), ranged)


def test_the_budget_and_the_objective_are_those_that_were_asked_for() -> None:
    asked = Objectives(latency_p95_ms=500, error_budget=0.001)
    found = recommendation([summarised(side("a", 4))], asked)
    assert "p95 latency above 0.5 s in at most 0.1 % of the seconds" in found["sentence"]


def test_what_did_not_come_to_its_end_takes_no_part() -> None:
    nothing = {"policy": "a", "seeds": 0, "held": 0}
    found = recommendation([nothing], Objectives())
    assert found == {"policy": None, "held": None, "beaten": [], "sentence": ""}
    assert recommendation([nothing, summarised(side("b", 4))], Objectives())["policy"] == "b"


def test_nothing_is_beaten_by_what_costs_as_much() -> None:
    said = sentence(side("a", 6.02), side("b", 6.2), fixed(6))
    assert "that is as much as the best fixed size, 6 workers" in said
    assert "Beaten by best-static: b with 6.2 workers on average, 3 % more." in said

"""Campaigns: the same arrivals for all, the same results however they are computed, and failures that stay alone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perdix.policies.build import POLICIES
from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.static import StaticOptions
from perdix.replay.best_static import best_static
from perdix.replay.campaign import Campaign, Setup, run_campaign
from perdix.replay.case import Case
from perdix.replay.contenders import contenders
from perdix.replay.labels import FORECASTER
from perdix.replay.outcome import Played
from perdix.replay.pace import Pace
from perdix.replay.run import play
from perdix.replay.side_by_side import Failed
from perdix.replay.workload import own
from perdix.settings.stream_job import Bounds
from perdix.settings.yaml_files import SettingsError
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinSize, load_twin

HOURS = 0.25
BOUNDS = Bounds(minimum=1, maximum=12)


def setup(policies: str = "hpa-80,static-12", **changes: object) -> Setup:
    parameters = load_twin("wordcount")
    trace = own(parameters, round(3600 * HOURS))
    return replace(Setup(contenders(policies), trace, parameters, BOUNDS, hours=HOURS), **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return run_campaign(setup(seeds=(1, 2)), processes=1)


def test_every_policy_is_played_with_every_seed_on_the_same_arrivals(campaign: Campaign) -> None:
    assert campaign.failed == ()
    names = [(replay.outcome.policy, replay.outcome.seed) for replay in campaign.played]
    labels = ("hpa-80", "static-12", "best-static")
    assert names == [(label, seed) for seed in (1, 2) for label in labels]
    first, second, fixed, other, *_ = (replay.course.workload_per_s for replay in campaign.played)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, fixed)
    assert not np.array_equal(first, other)
    assert all(replay.reports == () for replay in campaign.played)


def test_in_coarse_time_the_loop_never_looks_at_a_fixed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def noting(case: Case, **options: Any) -> Played:
        looked_at.append(case.contender.label)
        return play(case, **options)

    monkeypatch.setattr("perdix.replay.campaign.play", noting)
    pace = Pace(step_s=10, tick_s=300, scraped_s=30.0)
    paced = pace.paced(contenders("hpa-80,static-12"))
    coarse = run_campaign(setup(pace=pace, contenders=paced), processes=1)
    assert coarse.failed == ()
    assert looked_at == ["hpa-80"]
    assert [replay.outcome.policy for replay in coarse.played] == ["hpa-80", "static-12", "best-static"]


def test_the_peak_is_a_share_of_what_the_largest_scale_out_can_take() -> None:
    asked = setup(peak_utilisation=0.9, noise=0.0)
    capacity_per_s = JobTwin(asked.parameters, 4).true_capacity(12)
    assert asked.peak_per_s(4) == pytest.approx(0.9 * capacity_per_s)
    arriving = asked.cases(4)[0].arrivals
    assert arriving is not None
    highest = asked.trace.relative(asked.seconds).max()
    assert arriving[: asked.seconds].max() == pytest.approx(0.9 * capacity_per_s * highest)


def test_every_result_is_a_multiple_of_the_clairvoyant_bound(campaign: Campaign) -> None:
    for replay in campaign.played:
        least = campaign.clairvoyants[replay.outcome.seed]
        assert replay.outcome.clairvoyant_worker_s == least.worker_s
        assert replay.outcome.clairvoyant_ratio == pytest.approx(replay.outcome.worker_s / least.worker_s)
    assert all(
        replay.outcome.clairvoyant_ratio > 1.0 for replay in campaign.played if replay.outcome.policy == "static-12"
    )


def test_every_result_is_a_multiple_of_the_frontier_at_its_own_lateness(campaign: Campaign) -> None:
    for replay in campaign.played:
        outcome, frontier = replay.outcome, campaign.frontiers[replay.outcome.seed]
        fewest = frontier.worker_s_at(outcome.share_above_objective)
        assert outcome.frontier_worker_s == fewest
        assert outcome.of_frontier == pytest.approx(outcome.worker_s / fewest)
        assert outcome.of_frontier > 0.98, "nobody who does not know the trace is cheaper"


def test_a_case_that_is_too_large_has_no_frontier_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdix.replay.frontier.curve.LARGEST", 12 * 899)
    found = run_campaign(setup("static-12"), processes=1)
    assert found.frontiers == {}
    assert {replay.outcome.of_frontier for replay in found.played} == {None}
    assert any("the frontier is left out" in note for note in found.notes)


def test_the_best_fixed_size_of_each_seed_takes_part_without_being_asked_for(campaign: Campaign) -> None:
    for replay in campaign.played:
        if replay.outcome.policy == "best-static":
            found = best_static(campaign.setup.cases(replay.outcome.seed)[0])
            assert replay.outcome.scale_out == found.scale_out
            assert set(replay.course.workers) == {found.scale_out}
            assert replay.outcome.best_static_ratio == 1.0
        else:
            assert replay.outcome.scale_out is None
            assert replay.outcome.best_static_ratio is not None
            assert replay.outcome.best_static_ratio > 1.0, "a quarter of an hour is too short to be cheaper"


def test_all_are_played_for_the_same_seconds_however_often_they_look() -> None:
    seen: list[tuple[float, int]] = []
    asked = setup("hpa-80", bounds=Bounds(minimum=3, maximum=3), hours=1.01, peak_utilisation=0.5)
    found = run_campaign(asked, processes=1, on_progress=lambda *far: seen.append(far))
    assert {len(replay.course.times_s) for replay in found.played} == {asked.seconds} == {3_636}
    assert [replay.outcome.best_static_ratio for replay in found.played] == [1.0, 1.0]
    assert found.clairvoyants[1].worker_s == found.frontiers[1].worker_s_at(1.0) == 3 * 3_636
    assert seen[-1][0] == asked.simulated_s == 2 * 3_636


@pytest.mark.parametrize(("hours", "seconds"), [(4.1, 14_760), (65 / 60, 3_900), (6.0, 21_600), (0.25, 900)])
def test_hours_are_rounded_to_the_nearest_second(hours: float, seconds: int) -> None:
    assert setup(hours=hours).seconds == seconds


def test_where_no_fixed_size_holds_a_note_says_which_is_late_least() -> None:
    found = run_campaign(setup("static-12", peak_utilisation=2.0), processes=1)
    fixed = found.played[-1].outcome
    assert fixed.policy == "best-static"
    assert not fixed.held
    assert (
        f"seed 1: no fixed size from 1 to 12 workers holds the objective; best-static is {fixed.scale_out} workers"
        in ("\n".join(found.notes))
    )
    assert {replay.outcome.best_static_ratio for replay in found.played} == {None}


def test_where_workers_may_differ_in_size_there_is_no_best_fixed_size() -> None:
    parameters = load_twin("wordcount")
    size = {"small": TwinSize(cpu_cores=1, memory_mb=2_048, price_per_h=0.1, per_s=parameters.workers.capacity_per_s)}
    sized = parameters.model_copy(update={"workers": parameters.workers.model_copy(update={"sizes": size})})
    found = run_campaign(setup("static-12", parameters=sized), processes=1)
    assert [replay.outcome.policy for replay in found.played] == ["static-12"]
    assert found.notes == ("best-static is left out: the workers of this job may differ in size",)


def test_every_contender_forecasts_with_the_family_that_is_asked_for() -> None:
    assert {case.forecaster for case in setup().cases(1)} == {FORECASTER}
    for family in ("linear", None):
        assert [case.forecaster for case in setup(forecaster=family).cases(1)] == [family, family]


@pytest.mark.slow
def test_results_do_not_depend_on_how_many_processes_there_are(campaign: Campaign) -> None:
    seen: list[tuple[float, int]] = []
    again = run_campaign(setup(seeds=(1, 2)), processes=2, on_progress=lambda *far: seen.append(far))
    for replay, other in zip(campaign.played, again.played, strict=True):
        assert replace(replay.outcome, wall_s=0, twin_s=0) == replace(other.outcome, wall_s=0, twin_s=0)
        for name, column in replay.course.columns().items():
            np.testing.assert_array_equal(column, other.course.columns()[name])
    assert seen[-1][0] == pytest.approx(6 * 3600 * HOURS) == again.setup.simulated_s
    assert len({seconds for seconds, _ in seen}) > 4, "the bar moves with ticks, not with replays that ended"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hours": 0.001}, "0.001 hours do not cover one tick"),
        ({"hours": math.nan}, "do not cover one tick"),
        ({"bounds": Bounds(maximum=13)}, "up to 13 workers were asked for, but the twin 'wordcount' has 12"),
        ({"peak_utilisation": math.nan}, "peak utilisation must be"),
        ({"peak_utilisation": 0.0}, "peak utilisation must be"),
        ({"noise": -0.1}, "noise must be"),
        ({"slow_noise": math.inf}, "noise must be"),
        ({"failures": 901}, "more failures than"),
        ({"price_per_h": math.nan}, "price must be"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_it_begins(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        setup(**changes)
    assert words in str(caught.value)


class Rogue:
    """A policy that does something wrong at every look."""

    name = "static"
    learns = False

    def __init__(self, act: Callable[[Situation], Decision]) -> None:
        self.act = act

    def decide(self, situation: Situation) -> Decision:
        return self.act(situation)


def decision(scale_out: object) -> Decision:
    return Decision("static", scale_out, Reason.SCALE_OUT, "I know better.")  # type: ignore[arg-type]


def explode(_: Situation) -> Decision:
    raise ZeroDivisionError("a policy divides by nothing")


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(explode, id="raises"),
        pytest.param(lambda _: decision(math.nan), id="nan"),
        pytest.param(lambda _: decision(0), id="zero"),
        pytest.param(lambda _: decision(-4), id="negative"),
        pytest.param(lambda _: decision(10**9), id="huge"),
        pytest.param(lambda _: decision(4.5), id="fraction"),
        pytest.param(lambda _: decision("many"), id="word"),
        pytest.param(lambda _: replace(decision(12), recovery_s=math.nan), id="nan recovery"),
        pytest.param(lambda _: None, id="nothing"),
        pytest.param(lambda _: replace(decision(12), recovery_s="soon"), id="word for a time"),
        pytest.param(lambda _: replace(decision(12), memory={"odd": object()}), id="odd memory"),
    ],
)
def test_a_policy_that_fails_in_a_tick_is_held_and_the_replay_goes_on(
    act: Callable[[Situation], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = setup("static-5,hpa-80", noise=0.0)
    monkeypatch.setitem(POLICIES, "static", (StaticOptions, lambda _: Rogue(act)))  # type: ignore[arg-type]
    rogue = play(asked.cases(1)[0])
    assert len(rogue.reports) == 60 * HOURS
    decided = [report.decision for report in rogue.reports[2:] if report.decision is not None]  # the first are blind
    assert {look.reason for look in decided} == {"hold_invalid"}
    assert all("cannot be followed" in look.sentence for look in decided)
    assert set(rogue.course.workers) == {5.0}


def test_the_others_are_played_beside_a_policy_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = setup("static-5,hpa-80", noise=0.0)
    monkeypatch.setitem(POLICIES, "static", (StaticOptions, lambda _: Rogue(explode)))  # type: ignore[arg-type]
    assert [replay.outcome.policy for replay in run_campaign(asked, processes=1).played] == list(asked.labels)


def test_a_replay_that_cannot_go_on_is_recorded_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode_at_birth(_: object) -> Rogue:
        raise MemoryError("no room for this policy")

    asked = setup("static-12,hpa-80")
    monkeypatch.setitem(POLICIES, "hpa", (POLICIES["hpa"][0], explode_at_birth))  # type: ignore[arg-type]
    found = run_campaign(asked, processes=1)
    assert [replay.outcome.policy for replay in found.played] == ["static-12", "best-static"]
    assert found.failed == (Failed("hpa-80", 1, "MemoryError: no room for this policy"),)


def test_a_twin_that_cannot_carry_its_load_is_replayed_all_the_same() -> None:
    found = run_campaign(setup("static-12", peak_utilisation=2.0), processes=1)
    assert found.played[0].outcome.unprocessed > 0 or found.played[0].outcome.lag_maximum_records > 0


def test_where_no_scale_out_could_recover_from_a_failure_the_bound_says_so() -> None:
    """Against the strongest scale-out, which is not the largest: its part of the skew may be the worst."""
    parameters = load_twin("wordcount")
    capacities = [JobTwin(parameters, 1).true_capacity(n) for n in range(1, 13)]
    most = max(capacities) / capacities[-1]
    flat = replace(own(parameters, 900), rates=np.ones(900))
    found = run_campaign(setup("static-12", peak_utilisation=0.99 * most, noise=0.0, trace=flat), processes=1)
    assert re.match(r"seed 1: the bound allows for no failure at \d+ of its decisions", found.notes[0])
    found = run_campaign(setup("static-12", peak_utilisation=1.01 * most, noise=0.0, trace=flat), processes=1)
    assert "no plan holds the objectives" in found.notes[0]
    assert found.played[0].outcome.clairvoyant_ratio is None


def test_crashes_are_injected_into_every_policy_alike() -> None:
    found = run_campaign(setup("static-11,static-12", failures=2), processes=1)
    assert [replay.outcome.failures for replay in found.played] == [2, 2, 2]
    assert len({tuple(crash.at_s for crash in replay.outcome.recoveries) for replay in found.played}) == 1

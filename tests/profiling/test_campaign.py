"""A profiling on deployments whose truth is known: who is dropped when, what is noted, and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest

from perdix.models.profiling.profile import Profile
from perdix.profiling.campaign import Progress, profile
from perdix.profiling.deployment import DeploymentError, Measured
from perdix.profiling.plan import Plan

PER_WORKER = 10_000.0  # records/s
CALM_MS, BACKED_UP_MS = 500.0, 30_000.0
PLAN = Plan((2, 4, 8), first_per_s=10_000.0, step_per_s=15_000.0, settle_s=300, measure_s=120)
FAILS_S = 40.0


@dataclass
class Fake:
    """Works off 10,000 records/s per worker; time passes only while it is asked something."""

    scale_out: int
    now_s: float = 1_000.0
    rates_per_s: list[float] = field(default_factory=list)
    deleted: int = 0
    lag_growth_hidden: bool = False
    silent_from: float = math.inf
    silence: Measured = field(default_factory=lambda: Measured(math.nan, math.nan, math.nan))
    slow_at: float = math.inf  # a rate at which it takes seconds, although it keeps up
    breaks_at: float = math.inf
    broken_by: Exception = field(default_factory=lambda: DeploymentError("the pods were evicted"))
    comes_back: bool = True
    undeletable: bool = False

    def measure(self, rate_per_s: float, settle_s: int, measure_s: int) -> Measured:
        if rate_per_s >= self.breaks_at:
            raise self.broken_by
        self.rates_per_s.append(rate_per_s)
        self.now_s += settle_s + measure_s
        if rate_per_s >= self.silent_from:
            return self.silence
        capacity = PER_WORKER * self.scale_out
        growth = max(rate_per_s - capacity, 0.0)
        return Measured(
            min(rate_per_s, capacity),
            CALM_MS if rate_per_s <= capacity and rate_per_s != self.slow_at else BACKED_UP_MS,
            math.nan if self.lag_growth_hidden else growth,
        )

    def fail(self, within_s: int) -> float | None:
        waited_s = FAILS_S if self.comes_back else float(within_s)
        self.now_s += waited_s
        return waited_s if self.comes_back else None

    def delete(self) -> None:
        self.deleted += 1
        if self.undeletable:
            raise DeploymentError("the API server does not answer")


@dataclass
class Fakes:
    """Deployments that a test may spoil beforehand."""

    made: dict[int, Fake] = field(default_factory=dict)
    spoilt: dict[int, dict[str, object]] = field(default_factory=dict)
    refused: dict[int, Exception] = field(default_factory=dict)
    side_by_side: bool = True
    restored: int = 0
    unrestorable: bool = False

    def deploy(self, scale_out: int) -> Fake:
        if scale_out in self.refused:
            raise self.refused[scale_out]
        self.made[scale_out] = Fake(scale_out, **self.spoilt.get(scale_out, {}))  # type: ignore[arg-type]
        return self.made[scale_out]

    def restore(self) -> None:
        assert all(deployment.deleted for deployment in self.made.values()), "what was there before comes back last"
        self.restored += 1
        if self.unrestorable:
            raise DeploymentError("the API server does not answer")


@dataclass
class OneAtATime(Fakes):
    """A cluster that has room for one deployment, which the next one replaces."""

    side_by_side: bool = False

    def deploy(self, scale_out: int) -> Fake:
        assert all(deployment.deleted for deployment in self.made.values()), "no second deployment beside another"
        return super().deploy(scale_out)


def spoilt(**by_scale_out: dict[str, object]) -> Fakes:
    """Deployments of which some are spoilt, written ``of_2={...}``."""
    return Fakes(spoilt={int(name.removeprefix("of_")): change for name, change in by_scale_out.items()})


def profiled(fakes: Fakes, plan: Plan = PLAN) -> Profile:
    return profile("orders", plan, fakes)


class TestRisingRates:
    def test_each_deployment_runs_until_it_no_longer_keeps_up(self) -> None:
        fakes = Fakes()
        found = profiled(fakes)
        assert {n: deployment.rates_per_s[-1] for n, deployment in fakes.made.items()} == {
            2: 25_000.0,
            4: 55_000.0,
            8: 85_000.0,
        }
        assert [point.valid for point in found.points if point.scale_out == 4] == [True, True, True, False]

    def test_the_highest_rate_is_what_the_overloaded_run_worked_off(self) -> None:
        """The paper takes the last rate that was held: 10,000, 40,000 and 70,000 records/s here."""
        assert profiled(Fakes()).maximum_per_s == {2: 20_000.0, 4: 40_000.0, 8: 80_000.0}

    def test_a_deployment_that_holds_every_rate_has_no_highest_rate(self) -> None:
        found = profiled(Fakes(), Plan((2, 8), 10_000.0, 10_000.0, most_steps=4))
        assert found.maximum_per_s == {2: 20_000.0}
        assert found.notes == ("8 workers kept up with every rate up to 40,000/s; raise --step",)
        assert len([point for point in found.points if point.scale_out == 8]) == 4

    def test_one_earlier_point_is_enough_to_be_judged_by(self) -> None:
        """In the published program a line through one point is undefined, and drops the job."""
        found = profiled(Fakes(), Plan((2,), 10_000.0, 10_000.0))
        assert [point.valid for point in found.points] == [True, True, False]

    def test_a_growing_lag_is_an_overload_whatever_the_latency_says(self) -> None:
        class Lagging(Fake):
            def measure(self, rate_per_s: float, settle_s: int, measure_s: int) -> Measured:
                self.now_s += settle_s + measure_s
                return Measured(0.97 * rate_per_s, CALM_MS, 0.03 * rate_per_s)

        class Laggards(Fakes):
            def deploy(self, scale_out: int) -> Fake:
                return Lagging(scale_out)

        found = profiled(Laggards())
        assert [point.valid for point in found.points] == [False] * 3

    def test_without_a_measured_lag_latency_and_throughput_decide(self) -> None:
        fakes = spoilt(of_2={"lag_growth_hidden": True}, of_4={"lag_growth_hidden": True})
        assert profiled(fakes).maximum_per_s == {2: 20_000.0, 4: 40_000.0, 8: 80_000.0}

    def test_one_slow_measurement_of_who_keeps_up_is_no_highest_rate(self) -> None:
        """A pause of the garbage collector at a third of what 8 workers take, and T_max of 8 was that third."""
        found = profiled(spoilt(of_8={"slow_at": 25_000.0}))
        assert found.maximum_per_s == {2: 20_000.0, 4: 40_000.0}
        assert found.notes == (
            "8 workers at 25,000/s were slow, but kept up with far less than others lead to expect: "
            "their highest rate is not known; profile them again",
        )
        assert found.points[-1].rate_per_s == 25_000.0

    @pytest.mark.parametrize(
        "slow", [{"of_8": {"slow_at": 70_000.0}}, {f"of_{n}": {"slow_at": 10_000.0} for n in (2, 4, 8)}]
    )
    def test_who_is_slow_near_the_end_is_full_and_so_may_be_who_all_are(
        self, slow: dict[str, dict[str, object]]
    ) -> None:
        assert set(profiled(spoilt(**slow)).maximum_per_s) == {2, 4, 8}

    @pytest.mark.parametrize(
        ("scale_outs", "slow"),
        [((2, 8), {"of_8": 25_000.0}), ((2, 6, 8, 12), dict.fromkeys(("of_6", "of_8", "of_12"), 25_000.0))],
    )
    def test_who_are_slow_at_one_rate_bear_each_other_out_and_one_full_one_says_nothing(
        self, scale_outs: tuple[int, ...], slow: dict[str, float]
    ) -> None:
        """Behind a database that all of them share, T_max of the large ones is not what small ones lead to expect."""
        fakes = spoilt(**{name: {"slow_at": rate_per_s} for name, rate_per_s in slow.items()})
        found = profiled(fakes, replace(PLAN, scale_outs=scale_outs))
        assert found.maximum_per_s == {2: 20_000.0, **dict.fromkeys(scale_outs[1:], 25_000.0)}
        assert found.notes == ()

    def test_progress_is_told_in_words(self) -> None:
        told: list[Progress] = []
        profile("orders", PLAN, Fakes(), on_progress=told.append)
        assert str(told[0]) == "rate 1: 10,000/s on 3 deployments (ended: none)"
        assert str(told[2]) == "rate 3: 40,000/s on 2 deployments (ended: 2)"


class TestOneAfterTheOther:
    def test_the_same_is_found_as_side_by_side(self) -> None:
        one_by_one, beside = profiled(OneAtATime()), profiled(Fakes())
        assert one_by_one.points == beside.points
        assert one_by_one.maximum_per_s == beside.maximum_per_s

    def test_the_next_is_deployed_once_the_last_is_deleted_even_where_it_held_every_rate(self) -> None:
        cluster = OneAtATime()
        found = profiled(cluster, Plan((4, 8), 10_000.0, 10_000.0, most_steps=2))
        assert found.maximum_per_s == {}
        assert len(found.points) == 4
        assert cluster.restored == 1

    def test_one_that_is_refused_costs_the_others_nothing(self) -> None:
        found = profiled(OneAtATime(refused={4: DeploymentError("no slots")}))
        assert found.notes == ("4 workers could not be deployed: no slots",)
        assert set(found.maximum_per_s) == {2, 8}

    def test_progress_names_the_scale_out(self) -> None:
        told: list[Progress] = []
        profile("orders", PLAN, OneAtATime(), on_progress=told.append)
        assert str(told[0]) == "rate 1: 10,000/s on 2 workers (ended: none)"
        assert str(told[2]) == "rate 1: 10,000/s on 4 workers (ended: 2)"

    def test_an_interrupt_ends_it_at_once_and_restores(self) -> None:
        """In another thread, nobody could interrupt the minutes that a deployment takes to settle."""
        cluster = OneAtATime(spoilt={2: {"breaks_at": 25_000.0, "broken_by": KeyboardInterrupt()}})
        with pytest.raises(KeyboardInterrupt):
            profiled(cluster)
        assert cluster.restored == 1
        assert [deployment.deleted for deployment in cluster.made.values()] == [1]


class TestFailures:
    def test_a_failure_of_each_is_measured_after_the_first_rate(self) -> None:
        found = profiled(Fakes())
        assert found.downtimes_s == (FAILS_S,) * 3
        assert found.downtime_s == FAILS_S

    def test_who_has_no_second_rate_is_not_made_to_fail(self) -> None:
        plan = Plan((1, 8), first_per_s=15_000.0, step_per_s=15_000.0)
        assert profiled(Fakes(), plan).downtimes_s == (FAILS_S,)

    def test_none_is_made_to_fail_where_that_was_not_asked(self) -> None:
        assert profiled(Fakes(), Plan((2, 4), 10_000.0, 10_000.0, fail=False)).downtime_s is None

    def test_one_that_does_not_come_back_is_noted_and_measured_all_the_same(self) -> None:
        found = profiled(spoilt(of_4={"comes_back": False}))
        assert found.downtimes_s == (FAILS_S,) * 2
        assert found.notes == ("4 workers did not come back within 600 s of a failure",)
        assert found.maximum_per_s[4] == 40_000.0


class TestCost:
    def test_workers_count_while_they_run(self) -> None:
        found = profiled(Fakes())
        runs = {2: 2, 4: 4, 8: 6}  # rates until dropped, of 420 s each
        assert found.worker_s == sum(n * (420.0 * count + FAILS_S) for n, count in runs.items())
        assert (found.began_s, found.ended_s) == (1_000.0, 1_000.0 + 6 * 420.0 + FAILS_S)


class TestWhatGoesWrong:
    def test_one_that_cannot_be_deployed_is_noted_and_the_rest_goes_on(self) -> None:
        found = profiled(Fakes(refused={4: DeploymentError("no room in the cluster")}))
        assert found.notes == ("4 workers could not be deployed: no room in the cluster",)
        assert set(found.maximum_per_s) == {2, 8}

    def test_the_same_of_several_is_said_once_and_again_when_it_changes(self) -> None:
        refused: dict[int, Exception] = {2: DeploymentError("no answer"), 4: DeploymentError("no answer")}
        assert profiled(Fakes(refused=dict(refused))).notes == ("2, 4 workers could not be deployed: no answer",)
        refused[8] = DeploymentError("no room")
        with pytest.raises(DeploymentError) as caught:
            profiled(Fakes(refused=refused, unrestorable=True))
        assert str(caught.value).endswith(
            "measured: 2, 4 workers could not be deployed: no answer; 8 workers could not be deployed: no room; "
            "what ran before could not be restored: the API server does not answer; restore it by hand"
        )

    def test_one_that_cannot_be_measured_is_dropped_and_the_rest_goes_on(self) -> None:
        fakes = spoilt(of_4={"breaks_at": 40_000.0})
        found = profiled(fakes)
        assert found.notes == ("4 workers at 40,000/s: the pods were evicted",)
        assert set(found.maximum_per_s) == {2, 8}, "that 4 workers held 25,000/s is no highest rate"
        assert [point.rate_per_s for point in found.points if point.scale_out == 4] == [10_000.0, 25_000.0]
        assert fakes.made[4].deleted == 1

    @pytest.mark.parametrize("shown", [Measured(math.nan, math.nan, math.nan), Measured(0.0, CALM_MS, 55_000.0)])
    def test_one_that_shows_nothing_is_dropped_with_a_note(self, shown: Measured) -> None:
        """A job that stands still has a throughput, of 0."""
        found = profiled(spoilt(of_8={"silent_from": 55_000.0, "silence": shown}))
        assert found.notes == ("8 workers at 55,000/s showed no throughput",)
        assert set(found.maximum_per_s) == {2, 4}

    def test_one_worker_is_singular(self) -> None:
        silent = spoilt(of_1={"silent_from": 0.0})
        assert profiled(silent, Plan((1, 4))).notes[0] == "1 worker at 20,000/s showed no throughput"
        refused = Fakes(refused={1: DeploymentError("no slots")})
        assert profiled(refused, Plan((1, 4))).notes == ("1 worker could not be deployed: no slots",)

    def test_where_all_stand_still_nothing_was_measured(self) -> None:
        """T_max of 0 was kept, and no picture could be drawn of it: a traceback in place of a profile."""
        stands = {"silent_from": 0.0, "silence": Measured(0.0, CALM_MS, 10_000.0)}
        with pytest.raises(DeploymentError, match="2 workers at 10,000/s showed no throughput; 4 workers"):
            profiled(spoilt(of_2=stands, of_4=stands, of_8=stands))

    def test_one_that_cannot_be_deleted_is_to_be_deleted_by_hand(self) -> None:
        found = profiled(spoilt(of_2={"undeletable": True}))
        assert found.notes == (
            "2 workers could not be deleted: the API server does not answer; delete the deployment by hand",
        )
        assert set(found.maximum_per_s) == {2, 4, 8}

    def test_everything_that_goes_wrong_with_one_is_noted(self) -> None:
        found = profiled(spoilt(of_4={"comes_back": False, "breaks_at": 25_000.0, "undeletable": True}))
        assert [note.split(":")[0] for note in found.notes] == [
            "4 workers did not come back within 600 s of a failure",
            "4 workers at 25,000/s",
            "4 workers could not be deleted",
        ]

    def test_where_nothing_could_be_measured_it_says_why(self) -> None:
        refused: dict[int, Exception] = {n: DeploymentError("no room") for n in PLAN.scale_outs}
        with pytest.raises(
            DeploymentError, match="no deployment of orders could be measured: 2, 4, 8 workers could not be"
        ):
            profiled(Fakes(refused=refused))


class TestNothingIsLeftBehind:
    def test_every_deployment_is_deleted_once(self) -> None:
        fakes = Fakes()
        profiled(fakes)
        assert [deployment.deleted for deployment in fakes.made.values()] == [1, 1, 1]
        assert fakes.restored == 1

    def test_what_cannot_be_restored_is_to_be_restored_by_hand(self) -> None:
        found = profiled(Fakes(unrestorable=True))
        assert found.notes == (
            "what ran before could not be restored: the API server does not answer; restore it by hand",
        )
        assert set(found.maximum_per_s) == {2, 4, 8}

    def test_also_when_a_rate_ends_in_an_error_that_nobody_expects(self) -> None:
        fakes = spoilt(of_4={"breaks_at": 25_000.0, "broken_by": ZeroDivisionError()}, of_2={"undeletable": True})
        with pytest.raises(ZeroDivisionError):
            profiled(fakes)
        assert [deployment.deleted for deployment in fakes.made.values()] == [1, 1, 1]

    def test_also_when_the_third_of_them_cannot_be_deployed_for_no_known_reason(self) -> None:
        fakes = Fakes(refused={8: KeyboardInterrupt()})  # type: ignore[dict-item]
        with pytest.raises(KeyboardInterrupt):
            profiled(fakes)
        assert [deployment.deleted for deployment in fakes.made.values()] == [1, 1]

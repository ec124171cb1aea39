"""Profiling the running job itself: one scale-out after the other, under a load that somebody makes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from perdix.models.profiling.profile import Profile
from perdix.profiling.campaign import profile
from perdix.profiling.deployment import DeploymentError
from perdix.profiling.live.commands import CommandError, beside
from perdix.profiling.live.deployments import LiveDeployments
from perdix.profiling.plan import Plan
from perdix.targets.contract import Guard, TargetError, unguarded
from perdix.targets.contract import Running as Runs
from perdix.telemetry import metrics
from perdix.twin.job import JobTwin
from tests.control.rig import FaultyTarget, parameters
from tests.profiling.live_rig import Running

PLAN = Plan((2, 4), first_per_s=8_000.0, step_per_s=8_000.0, settle_s=180, measure_s=60, fail=False)


def unendable() -> None:
    raise CommandError("process 7 could not be ended (Operation not permitted); end it by hand")


def profiled(job: Running, plan: Plan = PLAN, fail: tuple[str, ...] = ()) -> Profile:
    return profile("orders", plan, LiveDeployments(job.live, plan.first_per_s, fail))


def test_the_highest_rates_are_the_truth_and_the_job_gets_its_workers_back() -> None:
    job = Running(scale_out=6)
    found = profiled(job)
    assert found.notes == ()
    assert set(found.maximum_per_s) == {2, 4}
    truth = JobTwin(parameters(), 4)
    for scale_out, highest_per_s in found.maximum_per_s.items():
        assert highest_per_s == pytest.approx(truth.true_capacity(scale_out), rel=0.1)
    assert (job.twin.scale_out, job.load.rate_per_s) == (6, 0.0)
    assert [scale_out for scale_out, _ in job.target.asked] == [2, 4, 6]
    assert found.ended_s - found.began_s > 0


def test_a_scale_out_begins_without_what_the_one_before_left() -> None:
    job = Running()
    deployments = LiveDeployments(job.live, 8_000.0)
    deployments.deploy(2).measure(40_000.0, 180, 60)
    assert job.lag() > 1_000_000
    job.load.stop()
    deployments.deploy(4)
    assert job.lag() <= 40_000.0


def test_a_backlog_that_does_not_end_is_said() -> None:
    job = Running()
    deployments = LiveDeployments(job.live, 8_000.0)
    deployments.deploy(2).measure(40_000.0, 180, 60)
    job.load.factor, job.load.rate_per_s = 1.0, 60_000.0  # somebody else's
    with pytest.raises(DeploymentError, match=r"records still wait after 30 min without load"):
        deployments.deploy(4)


def test_a_few_records_of_others_do_not_keep_it_from_beginning() -> None:
    job = Running()
    job.load.others_per_s = 20.0
    job.pause(60)
    assert profiled(job).maximum_per_s.keys() == {2, 4}


def test_what_was_asked_for_before_is_asked_for_again_though_less_ran() -> None:
    job = Running()
    job.target.reaching = 5
    job.target.scale(8, "before")
    job.pause(300)
    found = profiled(job)
    assert found.notes == ()
    assert [scale_out for scale_out, _ in job.target.asked] == [8, 2, 4, 8]


def test_what_an_interrupt_leaves_is_said_at_once() -> None:
    job, left = Running(scale_out=3), []

    def meanwhile() -> None:
        if job.load.rate_per_s >= 16_000.0:
            job.target.refusing = TargetError("no right to", retriable=False)
            raise KeyboardInterrupt

    job.meanwhile = meanwhile
    with pytest.raises(KeyboardInterrupt):
        profile("orders", PLAN, LiveDeployments(job.live, 8_000.0), on_left=left.append)
    assert left == ["what ran before could not be restored: no right to (it had 3 workers); restore it by hand"]


def test_nothing_is_left_to_restore_where_the_cluster_let_nothing_be_rescaled() -> None:
    job, left = Running(scale_out=3), []
    job.target.refusing = TargetError("no right to", retriable=False)
    with pytest.raises(DeploymentError) as failed:
        profile("orders", PLAN, LiveDeployments(job.live, 8_000.0), on_left=left.append)
    assert str(failed.value) == (
        "no deployment of orders could be measured: 2, 4 workers could not be deployed: no right to"
    )
    assert left == []


def test_a_load_that_was_never_begun_is_nothing_to_restore() -> None:
    job, left = Running(scale_out=3), []
    job.target.never_settling = True
    job.load.stop = unendable  # type: ignore[method-assign]
    with pytest.raises(DeploymentError, match="a rescale of the job is under way"):
        profile("orders", PLAN, LiveDeployments(job.live, 8_000.0), on_left=left.append)
    assert left == []


@dataclass
class OfOperators(FaultyTarget):
    """A target that knows operators, of which the widest has as many instances as the twin has workers."""

    operators: dict[str, int] = field(default_factory=dict)

    def requested_operators(self) -> dict[str, int]:
        return dict(self.operators)

    def scale(self, scale_out: int, idempotency_key: str, *_: object, **__: object) -> Runs:
        self.operators = dict.fromkeys(self.operators, scale_out)
        return super().scale(scale_out, idempotency_key)

    def scale_operators(self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded) -> Runs:
        guard()
        self.operators |= parallelism
        return super().scale(max(self.operators.values()), idempotency_key)


def test_each_operator_gets_its_own_instances_back() -> None:
    job = Running(scale_out=6)
    target = OfOperators(job.twin, operators={"source": 2, "count": 6, "sink": 1})
    job.live = replace(job.live, target=target)
    assert profiled(job).notes == ()
    assert target.operators == {"source": 2, "count": 6, "sink": 1}
    assert job.twin.scale_out == 6


def test_a_load_that_cannot_be_ended_keeps_no_workers_back() -> None:
    job = Running(scale_out=3)
    deployments = LiveDeployments(job.live, 8_000.0)
    deployments.deploy(2)
    job.load.stop = unendable  # type: ignore[method-assign]
    with pytest.raises(DeploymentError, match="process 7 could not be ended"):
        deployments.restore()
    assert job.twin.scale_out == 3


def test_where_the_lag_is_not_measured_nothing_is_waited_for() -> None:
    job = Running()
    job.without(metrics.LAG.name)
    assert profiled(job).maximum_per_s.keys() == {2, 4}


def test_where_no_latency_is_measured_that_is_said() -> None:
    """The first rate was kept as the highest of every scale-out, without a word."""
    job = Running()
    job.without(metrics.LATENCY.name)
    with pytest.raises(
        DeploymentError, match=r"2 workers at 8,000/s showed no latency \(latency_p95_ms\); perdix doctor"
    ):
        profiled(job)
    assert job.twin.scale_out == 4


class TestTheLoad:
    @pytest.mark.parametrize("factor", [0.8, 1.25, 0.0])
    def test_another_load_than_was_asked_for_is_no_measurement(self, factor: float) -> None:
        job = Running()
        job.load.factor = factor
        with pytest.raises(DeploymentError, match=r"arrived where the load was asked for 8,000\.0; see to it"):
            profiled(job)
        assert job.twin.scale_out == 4

    def test_where_the_workload_is_not_measured_nobody_would_see_a_load_that_misses_its_rate(self) -> None:
        job = Running()
        job.without(metrics.WORKLOAD.name)
        with pytest.raises(DeploymentError, match=r"nobody measures what arrives .*perdix doctor names the fix"):
            profiled(job)

    def test_one_that_ends_ends_the_scale_out_and_keeps_what_was_measured(self) -> None:
        job = Running()
        job.load.ends_at = 24_000.0
        found = profiled(job)
        assert [(point.scale_out, point.rate_per_s) for point in found.points] == [
            (2, 8_000.0), (2, 16_000.0), (4, 8_000.0), (4, 16_000.0)
        ]  # fmt: skip
        assert found.notes[0] == "2 workers at 24,000/s: the load ended by itself: load.sh, exit code 1"


class TestTheCluster:
    def test_a_scale_out_that_does_not_come_up_is_noted_with_what_runs(self) -> None:
        job = Running(scale_out=2)
        job.target.reaching = 3
        found = profiled(job)
        assert found.notes == ("4 workers could not be deployed: 4 workers did not run within 300 s, but 3",)
        assert set(found.maximum_per_s) == {2}
        assert job.twin.scale_out == 2

    def test_a_refusal_is_noted_and_what_runs_stays(self) -> None:
        job = Running(scale_out=3)
        job.target.refusing = TargetError("no slots", retriable=False)
        with pytest.raises(DeploymentError, match="2, 4 workers could not be deployed: no slots"):
            profiled(job)
        assert (job.twin.scale_out, job.load.rates_per_s) == (3, [])

    def test_one_that_does_not_answer_when_all_is_to_be_restored_is_asked_again(self) -> None:
        job, passed = Running(), iter(range(100_000))
        plain = job.load.stop

        def stop() -> None:
            plain()
            if len(job.load.rates_per_s) > 5:  # the last scale-out was driven
                job.target.refusing = TargetError("no answer")

        def meanwhile() -> None:
            if job.target.refusing is not None and next(passed) > 4:
                job.target.refusing = None

        job.load.stop, job.meanwhile = stop, meanwhile  # type: ignore[method-assign]
        found = profiled(job, Plan((2, 5), 8_000.0, 8_000.0, 180, 60, fail=False))
        assert found.notes == ()
        assert job.twin.scale_out == 4

    def test_a_rescale_under_way_is_not_taken_for_what_is_to_be_restored(self) -> None:
        job = Running()
        job.target.never_settling = True
        with pytest.raises(DeploymentError, match="a rescale of the job is under way"):
            profiled(job)
        assert job.target.asked == []

    def test_a_hand_that_rescales_meanwhile_ends_the_scale_out(self) -> None:
        job = Running()

        def meddle() -> None:
            if job.twin.settled and job.load.rate_per_s >= 24_000.0 and job.twin.scale_out == 4:
                job.twin.rescale(7, "by hand")

        job.meanwhile = meddle
        found = profiled(job)
        assert any("it no longer has 4 workers, but 7; let nothing else scale it" in note for note in found.notes)
        assert job.twin.scale_out == 4, "restored"

    def test_one_that_is_silent_for_some_seconds_is_asked_again(self) -> None:
        job, silent_s = Running(), iter(range(10_000))

        def meanwhile() -> None:
            job.target.unreadable = "no answer" if next(silent_s) % 300 < 20 else None

        job.meanwhile = meanwhile
        found = profiled(job)
        assert found.notes == ()
        assert set(found.maximum_per_s) == {2, 4}


class TestMetrics:
    def test_a_server_that_is_away_for_seconds_costs_nothing(self) -> None:
        job, passed = Running(), iter(range(100_000))

        def meanwhile() -> None:
            job.source.error = "no answer" if next(passed) % 100 < 10 else None

        job.meanwhile = meanwhile
        assert profiled(job).notes == ()

    def test_one_that_stays_away_ends_the_scale_out_with_its_words(self) -> None:
        job = Running()
        job.source.error = "http://in.process does not answer; start it"
        with pytest.raises(
            DeploymentError, match=r"2, 4 workers could not be deployed: http://in\.process does not answer"
        ):
            profiled(job)
        assert job.twin.scale_out == 4


class TestFailures:
    def failing(self, job: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
        """A command that a twin's worker fails by: time, which stands still until then, notices the file it writes."""
        flag = tmp_path / "failed"

        @contextmanager
        def at_once(words: Sequence[str], within_s: float) -> Iterator[Callable[[], None]]:
            with beside(words, within_s) as check:
                while not flag.exists():
                    check()
                yield check

        monkeypatch.setattr("perdix.profiling.live.deployments.beside", at_once)

        def meanwhile() -> None:
            if flag.exists():
                flag.unlink()
                job.twin.fail(0)

        job.meanwhile = meanwhile
        return (sys.executable, "-c", f"open({str(flag)!r}, 'w').close()")

    def test_the_downtime_is_measured_from_the_failure_until_the_job_works(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = Running()
        plan = Plan((2, 4), 8_000.0, 8_000.0, 180, 60)
        found = profiled(job, plan, self.failing(job, tmp_path, monkeypatch))
        restart = parameters().restart
        median_s = restart.failure.median_s + restart.detection.median_s
        assert len(found.downtimes_s) == 2
        assert all(0.5 * median_s < downtime_s < 2.0 * median_s for downtime_s in found.downtimes_s)

    def test_a_command_that_also_brings_the_worker_back_hides_no_failure(self, tmp_path: Path) -> None:
        """It ends once the job works again; by then there is nothing more to be noticed."""
        job = Running()
        flag, back = tmp_path / "failed", tmp_path / "back"

        def meanwhile() -> None:
            if flag.exists() and job.twin.settled:
                flag.unlink()
                job.twin.fail(0)
            elif not flag.exists() and not job.twin.settled:
                back.touch()

        job.meanwhile = meanwhile
        text = (
            "import pathlib, time\n"
            f"pathlib.Path({str(flag)!r}).touch()\n"
            f"while not pathlib.Path({str(back)!r}).exists(): time.sleep(0.01)"
        )
        found = profiled(job, Plan((2,), 8_000.0, 8_000.0, 180, 60), (sys.executable, "-c", text))
        assert found.notes == ()
        assert len(found.downtimes_s) == 1

    def test_a_command_that_fails_or_does_nothing_is_noted_and_the_rest_goes_on(self) -> None:
        plan = Plan((2,), 8_000.0, 8_000.0, 180, 60)
        nothing = profiled(Running(), plan, (sys.executable, "-c", ""))
        assert nothing.notes[0].startswith(
            "2 workers could not be made to fail: the cluster noticed no failure within 600 s"
        )
        assert set(nothing.maximum_per_s) == {2}
        broken = profiled(Running(), plan, (sys.executable, "-c", "import sys; sys.exit('no such pod')"))
        assert broken.notes[0].endswith("failed with exit code 1: no such pod")
        assert set(broken.maximum_per_s) == {2}

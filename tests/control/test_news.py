"""What a log says of a tick: what was done to targets, and which jobs stand otherwise than before."""

from collections.abc import Mapping
from typing import Any

from perdix.control import news
from perdix.control.fleet_report import FleetReport
from perdix.control.news import News, Stand, stands_of
from perdix.control.reconcile import Event
from perdix.control.state.journal import JobStatus, Status
from perdix.control.tick_io import TickReport
from perdix.policies.contract import Decision, Reason


def news_of(report: FleetReport, before: Mapping[str, Stand]) -> tuple[News, ...]:
    return news.news_of(report, stands_of(report, before), before)


def stood(status: Status = Status.ACTING, sentence: str = "4 workers do.", **more: Any) -> TickReport:
    return TickReport("any", status, sentence, **more)


def after(**jobs: TickReport) -> FleetReport:
    return FleetReport(jobs, started_s=0.0, finished_s=1.0)


def test_news_are_what_was_done_and_who_stands_otherwise_than_before() -> None:
    blind = stood(Status.BLIND, "Blind: no lag.")
    first = after(ads=stood(), dark=blind, new=stood(Status.PAUSED, "Paused: a move."))
    assert [str(each) for each in news_of(first, {})] == [
        "dark (blind): Blind: no lag.",
        "new (paused): Paused: a move.",
    ]
    assert news_of(after(ads=stood(), dark=blind), stands_of(first, {})) == ()
    then = after(ads=stood(sentence="5 workers, as 3 are late.", event=Event.APPLIED), dark=stood())
    assert [str(each) for each in news_of(then, stands_of(first, {}))] == [
        "ads (applied): 5 workers, as 3 are late.",
        "dark (acting): 4 workers do.",
    ]
    away = after(ads=stood(Status.UNREACHABLE, "No answer.", event=Event.UNREACHABLE))
    assert [str(each) for each in news_of(away, stands_of(then, {}))] == ["ads (unreachable): No answer."]
    assert news_of(away, stands_of(away, {})) == ()


def test_a_job_that_a_tick_had_no_time_for_is_no_news() -> None:
    late = JobStatus("ads", Status.LATE, 0.0, "Not served in time.")
    first = stands_of(after(ads=stood(), dark=stood(Status.BLIND, "Blind.")), {})
    hurried = FleetReport({"dark": stood(Status.BLIND, "Blind.")}, {"ads": late}, started_s=0.0, finished_s=1.0)
    assert news_of(hurried, first) == ()
    assert stands_of(hurried, first) == first
    assert news_of(after(ads=stood(), dark=stood(Status.BLIND, "Blind.")), stands_of(hurried, first)) == ()


def test_another_fault_of_the_same_file_is_news() -> None:
    def broken(why: str) -> FleetReport:
        return FleetReport(others={"ads": JobStatus("ads", Status.BROKEN, 0.0, why)}, started_s=0.0, finished_s=1.0)

    assert news_of(broken("Not served: ads.yaml:2."), stands_of(broken("Not served: ads.yaml:2."), {})) == ()
    assert len(news_of(broken("Not served: ads.yaml:5."), stands_of(broken("Not served: ads.yaml:2."), {}))) == 1


def test_of_many_jobs_of_which_the_same_is_new_few_are_named() -> None:
    blind = {f"job-{k}": stood(Status.BLIND, "Blind: Prometheus is away.") for k in range(9)}
    (new,) = news_of(after(**blind), {})
    assert new.jobs == tuple(sorted(blind))
    assert str(new) == "job-0, job-1, job-2 and 6 more (blind): Blind: Prometheus is away."


def test_another_advice_is_news_and_the_same_again_is_none() -> None:
    def advising(wanted: int, runs: int = 3) -> FleetReport:
        decision = Decision("perdix", wanted, Reason.SCALE_OUT, f"{wanted} workers would do.")
        return after(ads=stood(Status.ADVISE, decision.sentence, decision=decision, running=runs))

    assert news_of(advising(3), {}) == ()
    (new,) = news_of(advising(5), {})
    assert str(new) == "ads (advise 5 workers): 5 workers would do."
    assert news_of(advising(5), stands_of(advising(5), {})) == ()
    assert (
        len(news_of(advising(6), stands_of(advising(5), {})))
        == len(news_of(advising(3), stands_of(advising(5), {})))
        == 1
    )

"""Processes that serve a fleet: real ones, as they are started, killed and replaced."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.control import crew as crews
from perdix.control.crew import JOBS_EACH, Crew, Lost, processes_for
from perdix.control.fleet import tick_fleet
from perdix.control.fleet_report import LoopFault
from perdix.control.serving import serve_elsewhere
from perdix.control.state.journal import Status
from perdix.settings.home import PROJECT
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.settings.targets import TwinSettings
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.prometheus_face import PrometheusFace
from perdix.twin.workloads import arrivals_from
from tests.control.crew_opening import opened
from tests.control.crew_turns import FIRST, JOBS, SECOND, nothing, obey
from tests.control.rig import HIGH, START_S, a_job, constant, parameters

NAMES = {job.name for job in JOBS}


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew[str, tuple[int | str, set[str]]]]:
    with closing(Crew(nothing, obey, at_most=2)) as made:
        made._man(2)
        yield made


def served(crew: Crew, turn: str) -> dict[int | str, set[str]]:
    return dict(answer for answer in crew.turn(JOBS, turn) if not isinstance(answer, Lost))


def test_every_job_is_served_by_the_same_process_turn_after_turn(crew: Crew) -> None:
    first, second = served(crew, "serve"), served(crew, "serve")
    assert first == second
    assert len(first) == 2
    assert os.getpid() not in first
    assert sorted(name for names in first.values() for name in names) == sorted(NAMES)


@pytest.mark.parametrize(
    ("what", "why"),
    [("die", "killed, or out of memory"), ("hang", "did not answer"), ("raise", "RecursionError: deep")],
)
def test_jobs_whose_process_fails_are_named_and_served_the_next_time(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, what: str, why: str
) -> None:
    monkeypatch.setattr(crews, "LONGEST_S", 3.0)
    found = list(crew.turn(JOBS, what))
    (lost,) = [answer for answer in found if isinstance(answer, Lost)]
    assert why in lost.why
    assert JOBS[0] in lost.jobs
    (others,) = [names for answer in found if not isinstance(answer, Lost) for names in answer[1:]]
    assert {job.name for job in lost.jobs} | others == NAMES
    monkeypatch.undo()
    assert set.union(*served(crew, "serve").values()) == NAMES


def test_a_turn_that_nobody_waited_for_to_its_end_leaves_no_answer_to_the_next(crew: Crew) -> None:
    abandoned = crew.turn(JOBS, FIRST)
    assert next(abandoned)[0] == FIRST
    abandoned.close()
    assert {answer[0] for answer in crew.turn(JOBS, SECOND)} == {SECOND}


def test_turns_that_overlap_as_those_of_a_sensor_may_get_their_own_answers(crew: Crew) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = crew.turn(JOBS, FIRST)
        answers = [next(first)]
        second = pool.submit(lambda: list(crew.turn(JOBS, SECOND)))
        assert wait([second], 1.0).not_done, "it waits until the first has ended"
        answers += first
    for turn, given_by in ((FIRST, answers), (SECOND, second.result())):
        assert [turn_given[0] for turn_given in given_by] == [turn, turn]
        assert set.union(*(turn_given[1] for turn_given in given_by)) == NAMES


ORPHANS = """
import sys, time
from perdix.control.crew import Crew
from tests.control.crew_turns import JOBS, nothing, obey
if __name__ == "__main__":
    crew = Crew(nothing, obey, at_most=2)
    crew._man(2)
    print(*(one[0] for one in crew.turn(JOBS, "serve")), flush=True)
    time.sleep(60)
"""


def test_processes_end_with_the_first_one_even_where_that_is_killed(tmp_path) -> None:
    script = tmp_path / "crew.py"
    script.write_text(ORPHANS, encoding="utf-8")
    where = {**os.environ, "PYTHONPATH": str(PROJECT)}
    first = subprocess.Popen([sys.executable, str(script)], cwd=PROJECT, env=where, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    members = [int(pid) for pid in first.stdout.readline().split()]
    assert len(members) == 2
    first.kill()
    first.wait()
    until = time.monotonic() + 10.0
    while any(Path(f"/proc/{pid}").exists() for pid in members):
        assert time.monotonic() < until, "they outlive it"
        time.sleep(0.1)


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_there_are_as_many_processes_as_jobs_need_and_no_more_than_allowed(jobs: int, at_most: int) -> None:
    found = processes_for(jobs, at_most)
    assert 1 <= found <= at_most
    assert found == at_most or found * JOBS_EACH >= jobs


def test_more_jobs_never_need_fewer_processes() -> None:
    found = [processes_for(jobs, 4) for jobs in range(0, 2_000, 50)]
    assert all(before <= after for before, after in pairwise(found))
    assert processes_for(JOBS_EACH, 4) == 1, "a small fleet is served by the process that is there"


def test_a_fleet_is_served_by_a_crew_as_by_one_process_and_outlives_one_that_is_killed(tmp_path) -> None:
    urls = [f"sqlite:///{tmp_path / name}.db" for name in ("alone", "together")]
    clock = SimulatedClock(START_S + 1_800)
    with ExitStack() as stack:
        jobs = [stack.enter_context(_living(f"job-{number}", clock)) for number in range(5)]
        alone, together = (stack.enter_context(opened(url)) for url in urls)
        crew = stack.enter_context(closing(Crew(partial(opened, urls[1]), serve_elsewhere, at_most=2)))
        crew._man(2)
        one = tick_fleet(jobs, alone, clock, holder="a")
        many = tick_fleet(jobs, replace(together, crew=crew), clock, holder="a")
        assert {name: _as_stored(status) for name, status in many.statuses.items()} == {
            name: _as_stored(status) for name, status in one.statuses.items()
        }
        assert many.summary()["reasons"] == one.summary()["reasons"]
        assert set(many.reports) == {job.name for job in jobs}
        assert set(together.store.journal.statuses()) == {job.name for job in jobs}
        clock.advance(60.0)
        crew._members[0].process.kill()
        hurt = tick_fleet(jobs, replace(together, crew=crew), clock, holder="a")
        assert hurt.faults == (LoopFault.PROCESS,)
        assert {status.status for status in hurt.others.values()} == {Status.BROKEN}
        assert hurt.reports, "the other process has served its jobs"
        clock.advance(60.0)
        assert set(tick_fleet(jobs, replace(together, crew=crew), clock, holder="a").reports) == set(many.reports)


def _as_stored(status):
    """Return a status without what differs between two stores; means over a minute may be means of means."""
    details = {**status.details, "decision_id": None}
    means = [round(value) for path in ("mean_per_s", "upper_per_s") for value in details["forecast"][path].values()]
    return status.status, status.sentence, {**details, "forecast": means}


@contextmanager
def _living(name: str, clock: SimulatedClock) -> Iterator[StreamJob]:
    arrivals = arrivals_from(constant(HIGH), START_S)
    twin = JobTwin(parameters().model_copy(update={"name": name}), 3, start_s=START_S, scale_out=2, arrivals=arrivals)
    living = LivingTwin({name: twin}, clock, scraping=Scraping(interval_s=5.0))
    with PrometheusFace(living) as face:
        selector = {"namespace": name, "job_name": name, "topic": name}
        prometheus = PrometheusSource(url=face.url, selector=selector, scrape_interval_s=5.0)
        yield a_job(name=name, prometheus=prometheus, target=TwinSettings(url=face.url), mode="advise")

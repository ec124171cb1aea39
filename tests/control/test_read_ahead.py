"""A fleet whose servers are asked for many jobs at once: real HTTP, real clients, as in the live loop."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import pytest

from perdix.control.champions import GivenChampions
from perdix.control.fleet import tick_fleet
from perdix.control.live import Targets
from perdix.control.read_ahead import JOBS_AT_ONCE, Hanging, ReadAhead, Watched, batches
from perdix.control.reconcile import Event
from perdix.control.sources import LiveSource
from perdix.control.state.journal import Status
from perdix.control.state.ledger import State
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO
from perdix.settings.stream_job import PolicySettings, PrometheusSource, StreamJob
from perdix.settings.targets import AdvisorySettings, TwinSettings
from perdix.targets.contract import Running, Target, TargetError
from perdix.telemetry.metrics import CANONICAL
from perdix.telemetry.prometheus import Prometheus
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.workloads import arrivals_from
from tests.control.rig import HIGH, START_S, a_job, constant, parameters
from tests.twin.troubled_face import PrometheusFace, Trouble

NAMES = ("orders", "clicks", "bills")
HANGS_S = 3.0  # longer than a busy machine takes to serve all others: with half a second one of them came after it


@dataclass
class Fleet:
    """Jobs of living twins behind HTTP, each face a Prometheus and a target."""

    store: StateStore
    clock: SimulatedClock
    stack: ExitStack
    faces: dict[str, PrometheusFace] = field(default_factory=dict)
    jobs: list[StreamJob] = field(default_factory=list)
    queries: Counter = field(default_factory=Counter)
    hanging: set[str] = field(default_factory=set)  # servers that are not waited for as long

    def __post_init__(self) -> None:
        self.source, self.targets = LiveSource(connect=self._connect), Targets()
        self.stack.callback(self.source.close)
        self.stack.callback(self.targets.close)
        serial = TickIO(self.source, self.store, GivenChampions(), self.targets)
        self.io = replace(serial, ahead=ReadAhead(self.source, Hanging()))

    def _connect(self, source: PrometheusSource) -> Prometheus:
        fleet = self

        class Counting(Prometheus):
            def _ask(self, asked):
                fleet.queries[str(source.url)] += 1
                return super()._ask(asked)

        timeout_s = HANGS_S if str(source.url) in self.hanging else 2.0 * HANGS_S
        return Counting(source, timeout_s=timeout_s, deadline_s=timeout_s + 1.0, attempts=1)

    def add(self, *names: str) -> PrometheusFace:
        arrivals = arrivals_from(constant(HIGH), START_S)
        twins = {
            name: JobTwin(
                parameters().model_copy(update={"name": name}), 3, start_s=START_S, scale_out=2, arrivals=arrivals
            )
            for name in names
        }
        living = LivingTwin(twins, self.clock, scraping=Scraping(interval_s=5.0))
        face = self.stack.enter_context(PrometheusFace(living))
        for name in names:
            selector = {"namespace": name, "job_name": name, "topic": name}
            prometheus = PrometheusSource(url=face.url, selector=selector, scrape_interval_s=5.0)
            self.jobs.append(a_job(name=name, prometheus=prometheus, target=TwinSettings(url=face.url)))
            self.faces[name] = face
        return face

    def tick(self, **changes):
        self.clock.advance(60.0)
        return tick_fleet(self.jobs, replace(self.io, **changes), self.clock, holder="a")


@pytest.fixture
def fleet(store: StateStore) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(store, SimulatedClock(START_S + 1_800), stack)


def test_jobs_of_one_server_are_read_with_the_queries_of_one(fleet: Fleet) -> None:
    fleet.add(*NAMES)
    report = fleet.tick()
    assert set(report.reports) == set(NAMES)
    assert {served.status for served in report.reports.values()} == {Status.ACTING}
    assert max(fleet.queries.values()) <= len(CANONICAL) + 1, "one for each metric, and for the hours before"
    fleet.queries.clear()
    fleet.tick()
    assert max(fleet.queries.values()) <= len(CANONICAL), "one for each metric"


def test_what_is_decided_is_what_each_job_would_have_decided_by_itself(fleet: Fleet) -> None:
    fleet.add(*NAMES)
    fleet.jobs = [job.model_copy(update={"mode": "advise"}) for job in fleet.jobs]
    together = fleet.tick()
    alone = TickIO(fleet.source, StateStore("sqlite://"), GivenChampions(), fleet.targets)
    report = tick_fleet(fleet.jobs, alone, fleet.clock, holder="b")
    alone.store.close()
    assert {name: told(tick) for name, tick in together.reports.items()} == {
        name: told(tick) for name, tick in report.reports.items()
    }


def told(report):
    return report.decision.scale_out, report.decision.sentence, report.forecast.mean.tolist(), report.capacities


def test_a_hanging_prometheus_of_one_job_delays_no_other(fleet: Fleet) -> None:
    fleet.add("hung").trouble = Trouble(delay_s=60.0)
    fleet.hanging.add(str(fleet.jobs[0].prometheus.url))
    fleet.jobs[0] = fleet.jobs[0].model_copy(update={"target": AdvisorySettings()})
    fleet.add(*NAMES)
    report = fleet.tick()
    assert list(report.reports)[-1] == "hung"
    assert report.reports["hung"].status is Status.BLIND
    assert {report.reports[name].status for name in NAMES} == {Status.ACTING}


def test_a_hanging_target_of_one_job_delays_no_other(fleet: Fleet) -> None:
    fleet.add("hung")
    fleet.add(*NAMES)
    hanging = fleet.stack.enter_context(PrometheusFace(fleet.faces["hung"].living))
    hanging.trouble = Trouble(delay_s=HANGS_S)
    fleet.jobs[0] = fleet.jobs[0].model_copy(update={"target": TwinSettings(url=hanging.url)})
    report = fleet.tick()
    assert list(report.reports)[-1] == "hung"
    assert report.reports["hung"].status is Status.ACTING


def test_a_target_whose_server_hung_for_one_job_is_not_waited_for_by_the_next() -> None:
    clock, asked = SimulatedClock(START_S), []

    class Slow:
        def read(self) -> Running:
            asked.append("read")
            clock.advance(5.0)
            raise TargetError("it did not answer in time")

    hanging = Hanging()
    for _ in range(3):
        with pytest.raises(TargetError, match=r"in time|did not answer another job"):
            Watched(Slow(), "server", hanging, clock).read()
    assert asked == ["read"]
    clock.advance(31.0)
    with pytest.raises(TargetError, match="in time"):
        Watched(Slow(), "server", hanging, clock).read()


def test_rescales_that_take_their_time_are_asked_for_side_by_side(fleet: Fleet) -> None:
    """Flink's checkpoint before a rescale may take ten seconds: with twenty jobs that was minutes."""
    fleet.add(*NAMES)
    fleet.jobs = [
        job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 4})}) for job in fleet.jobs
    ]
    everyone_asks = threading.Barrier(len(NAMES), timeout=5.0)

    class Dawdling(Watched):
        def __init__(self, target: Target) -> None:
            super().__init__(target, "server", Hanging(), fleet.clock)

        def scale(self, *asked, **more) -> Running:
            everyone_asks.wait()
            return super().scale(*asked, **more)

    report = fleet.tick(target_of=lambda job: Dawdling(fleet.targets(job)))
    assert {served.event for served in report.reports.values()} == {Event.APPLIED}
    assert [fleet.store.ledger.desired(name).decision.state for name in NAMES] == [State.APPLIED] * len(NAMES)


def test_a_rescale_that_cannot_be_asked_for_breaks_its_job_alone(fleet: Fleet) -> None:
    fleet.add(*NAMES)
    fleet.jobs = [
        job.model_copy(update={"policy": PolicySettings(name="static", options={"scale_out": 4})}) for job in fleet.jobs
    ]

    class Deep(Watched):
        def scale(self, *asked, **more) -> Running:
            raise RecursionError("deep")

    def target_of(job: StreamJob) -> Target:
        target = fleet.targets(job)
        return Deep(target, "server", Hanging(), fleet.clock) if job.name == "clicks" else target

    report = fleet.tick(target_of=target_of)
    assert report.others["clicks"].status is Status.BROKEN
    assert {name: tick.event for name, tick in report.reports.items()} == {
        "orders": Event.APPLIED,
        "bills": Event.APPLIED,
    }


def test_a_job_that_cannot_even_be_asked_for_is_broken_alone(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.add(*NAMES)
    real = LiveSource.read_jobs

    def read_jobs(self, jobs, now_s):
        asked = list(jobs)
        if any(job.name == "clicks" for job, _ in asked):
            raise RecursionError("deep")
        return real(self, asked, now_s)

    monkeypatch.setattr(LiveSource, "read_jobs", read_jobs)
    report = fleet.tick()
    assert report.others["clicks"].status is Status.BROKEN
    assert set(report.reports) == {"orders", "bills"}


def test_what_another_controller_holds_is_not_read(fleet: Fleet) -> None:
    fleet.add(*NAMES)
    fleet.tick()
    asked = sum(fleet.queries.values())
    report = tick_fleet(fleet.jobs, fleet.io, fleet.clock, holder="b")
    assert {other.status for other in report.others.values()} == {Status.OBSERVING}
    assert sum(fleet.queries.values()) == asked


def test_what_the_deadline_cuts_off_is_late_and_comes_first_the_next_time(fleet: Fleet) -> None:
    fleet.add(*NAMES)
    fleet.clock.advance(60.0)
    report = tick_fleet(fleet.jobs, fleet.io, fleet.clock, holder="a", soft_deadline_s=-1.0)
    assert {other.status for other in report.others.values()} == {Status.LATE}


def test_advisory_jobs_ask_no_target(fleet: Fleet) -> None:
    fleet.add("orders")
    fleet.jobs[0] = fleet.jobs[0].model_copy(update={"target": AdvisorySettings()})
    assert fleet.tick().reports["orders"].status is Status.ADVISE


def test_batches_are_of_one_server_and_take_turns() -> None:
    sources = [PrometheusSource(url=f"http://p{number}", selector={}, scrape_interval_s=5.0) for number in range(2)]
    jobs = [a_job(name=f"j{n:03}", prometheus=sources[n % 2]) for n in range(3 * JOBS_AT_ONCE)]
    found = list(batches(jobs))
    assert [len(batch) for batch in found] == [64, 64, 32, 32]
    assert sorted(job.name for batch in found for job in batch) == [job.name for job in jobs]
    assert all(len({str(job.prometheus.url) for job in batch}) == 1 for batch in found)
    assert str(found[0][0].prometheus.url) != str(found[1][0].prometheus.url)

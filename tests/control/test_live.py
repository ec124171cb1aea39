"""The live loop over real HTTP: a living twin's Prometheus face, its scale resource, and how they fail."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from perdix.control.champions import GivenChampions
from perdix.control.fleet import tick_fleet
from perdix.control.job_memory import recall
from perdix.control.live import Targets, live_io
from perdix.control.reconcile import Event
from perdix.control.sources import LONGEST_READ_S, LiveSource, SourceError, since_s
from perdix.control.state.journal import Status
from perdix.control.state.store import StateStore
from perdix.control.tick import tick
from perdix.control.tick_io import TickIO
from perdix.policies.contract import Reason
from perdix.settings.home import Home
from perdix.settings.product import ControlSettings
from perdix.settings.stream_job import Objectives, PolicySettings, PrometheusSource, StreamJob
from perdix.settings.targets import AdvisorySettings, FlinkSettings, TwinSettings
from perdix.targets.contract import TargetError
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.queries import EngineQueries, load_queries, queries_file
from perdix.telemetry.window import Window
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.workloads import arrivals_from
from tests.control.rig import HIGH, LOW, START_S, a_job, constant, parameters
from tests.twin.troubled_face import PrometheusFace, Trouble

UNUSABLE = "The target cannot be read: ca_file gone.pem: [Errno 2] No such file or directory."
SELECTOR = {"namespace": "orders", "job_name": "orders", "topic": "orders"}


class Live:
    """One job of a living twin behind HTTP, and the loop that reads and scales it there."""

    def __init__(self, face: PrometheusFace, clock: SimulatedClock, store: StateStore) -> None:
        self.face, self.clock = face, clock
        self.job = a_job(
            prometheus=PrometheusSource(url=face.url, selector=SELECTOR, scrape_interval_s=5.0),
            target=TwinSettings(url=face.url),
        )
        self.source, self.targets = LiveSource(connect=_at_once), Targets()
        self.io = TickIO(self.source, store, GivenChampions(), self.targets)

    def minutes(self, count: int):
        reports = []
        for _ in range(count):
            self.clock.advance(60.0)
            reports.append(tick(self.job, self.io, self.clock.now_s()))
        return reports

    @property
    def twin(self) -> JobTwin:
        return self.face.living.job("orders")


def _at_once(source: PrometheusSource) -> Prometheus:
    return Prometheus(source, timeout_s=0.5, deadline_s=2.0, attempts=2, sleep=lambda _: None)


@pytest.fixture(params=[HIGH], ids=["overloaded"])
def live(request: pytest.FixtureRequest, store: StateStore) -> Iterator[Live]:
    clock = SimulatedClock(START_S + 1_800)
    arrivals = arrivals_from(constant(request.param), START_S)
    twin = JobTwin(parameters(), 3, start_s=START_S, scale_out=2, arrivals=arrivals)
    living = LivingTwin({"orders": twin}, clock, scraping=Scraping(interval_s=5.0))
    with PrometheusFace(living) as face:
        made = Live(face, clock, store)
        try:
            yield made
        finally:
            made.source.close()
            made.targets.close()


def test_it_reads_through_the_engines_promql_and_scales_over_http(live: Live) -> None:
    first, *_, last = live.minutes(8)
    assert first.status is Status.ACTING
    assert first.event is Event.APPLIED
    assert first.decision is not None
    assert first.decision.reason in (Reason.SCALE_OUT, Reason.SCALE_MAXIMUM)
    assert live.twin.scale_out > 2
    assert last.running == live.twin.scale_out


HOURS = 8


@pytest.fixture
def old(store: StateStore) -> Iterator[Live]:
    """A job that ran for hours before perdix came: low, high for an hour, low."""

    def arrivals(second: int, count: int) -> np.ndarray:
        hour = (second + np.arange(count) - START_S) // 3_600
        return np.where(hour == 4, HIGH, LOW).astype(np.float64)

    clock = SimulatedClock(START_S + 3_600.0 * HOURS)
    twin = JobTwin(parameters(), 3, start_s=START_S, scale_out=8, arrivals=arrivals)
    living = LivingTwin({"orders": twin}, clock, scraping=Scraping(interval_s=5.0))
    with PrometheusFace(living) as face, closing(LiveSource(connect=_at_once)) as source, closing(Targets()) as targets:
        made = Live(face, clock, store)
        made.source, made.targets = source, targets
        made.io = TickIO(source, store, GivenChampions(), targets)
        yield made


def test_the_first_tick_knows_the_load_of_the_hours_before_by_minutes(old: Live, store: StateStore) -> None:
    old.minutes(1)
    minutes = recall(store, old.job.name).memory.minutes
    assert minutes is not None
    assert len(minutes.per_s) == pytest.approx(60 * HOURS, abs=3)
    assert minutes.per_s[4 * 60 + 5 : 5 * 60 - 5] == pytest.approx(HIGH, rel=0.05)
    assert minutes.per_s[5 * 60 + 5 :] == pytest.approx(LOW, rel=0.05)
    old.minutes(2)
    later = recall(store, old.job.name).memory.minutes
    assert later is not None
    assert len(later.per_s) == len(minutes.per_s) + 2


def test_between_the_hours_before_and_the_first_hour_no_minute_is_missing(old: Live, store: StateStore) -> None:
    old.clock.advance(17.0)
    old.minutes(1)
    minutes = recall(store, old.job.name).memory.minutes
    assert minutes is not None
    assert np.isfinite(minutes.per_s[:-1]).all()


def test_the_hours_before_are_not_asked_for_with_each_first_reading_of_a_job_that_nothing_is_learnt_of(
    old: Live,
) -> None:
    def past(minutes: float) -> Window | None:
        now_s = old.clock.now_s() + 60.0 * minutes
        return old.source.read(old.job, now_s, now_s - LONGEST_READ_S).past

    first = past(-20.0)
    assert first is not None
    old.face.trouble = Trouble(oldest_s=old.clock.now_s() - 1.5 * LONGEST_READ_S)
    assert past(-15.0) is first
    assert past(-9.0) is None


def test_who_reads_hours_is_not_given_those_before_them(old: Live) -> None:
    now_s = old.clock.now_s()
    assert old.source.read(old.job, now_s, now_s - LONGEST_READ_S).past is not None
    assert old.source.read(old.job, now_s, now_s - 2.0 * LONGEST_READ_S).past is None


def test_the_first_tick_goes_on_where_the_hours_before_cannot_be_read(old: Live, store: StateStore) -> None:
    old.face.trouble = Trouble(oldest_s=old.clock.now_s() - 1.5 * LONGEST_READ_S)
    assert old.minutes(1)[-1].status is Status.ACTING
    old.face.trouble = Trouble()
    reading = old.source.read(old.job, old.clock.now_s(), old.clock.now_s() - LONGEST_READ_S)
    assert reading.past is None  # not asked again at once
    minutes = recall(store, old.job.name).memory.minutes
    assert minutes is not None
    assert len(minutes.per_s) == pytest.approx(60, abs=3)


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (Trouble(down=True), "503"),
        (Trouble(delay_s=1.5), "did not answer in time"),
        (Trouble(newest_s=START_S + 1_500), "old"),
    ],
    ids=["down", "hanging", "stale"],
)
def test_a_failing_prometheus_leaves_the_job_blind_and_unscaled(live: Live, trouble: Trouble, sentence: str) -> None:
    live.face.trouble = trouble
    report = live.minutes(1)[-1]
    assert report.status in (Status.BLIND, Status.UNREACHABLE)
    assert live.twin.requested == 2
    assert sentence in report.sentence
    live.face.trouble = Trouble()
    live.clock.advance(60.0)
    assert live.minutes(1)[-1].status is Status.ACTING


def test_a_target_that_refuses_is_asked_again(live: Live) -> None:
    live.face.trouble = Trouble(refuse_scaling=True)
    assert live.minutes(1)[-1].event is Event.REFUSED
    live.face.trouble = Trouble()
    events = [report.event for report in live.minutes(3)]
    assert Event.APPLIED in events
    assert Event.CONFIRMED in events
    assert len(live.twin.outages) == 1


def test_a_dead_server_is_asked_once_for_a_whole_fleet(live: Live) -> None:
    live.face.trouble = Trouble(down=True)
    now_s = live.clock.now_s()
    with pytest.raises(SourceError, match="503"):
        live.source.read(live.job, now_s, now_s - 180)
    live.face.trouble = Trouble()
    with pytest.raises(SourceError, match="not asked again for 30 s"):
        live.source.read(live.job, now_s + 5, now_s - 180)
    assert len(live.source.read(live.job, now_s + 31, now_s - 180).window)


def test_who_asks_with_another_token_is_another_reader(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tenants of one address: neither sees the other's metrics."""
    asked: list[str | None] = []

    def connect(source: PrometheusSource) -> Prometheus:
        asked.append(source.token_env)
        return _at_once(source)

    now_s, source = live.clock.now_s(), LiveSource(connect=connect)
    for token in ("TENANT_A", "TENANT_B"):
        monkeypatch.setenv(token, token)
    tenants = [
        live.job.model_copy(
            update={"name": token, "prometheus": live.job.prometheus.model_copy(update={"token_env": token})}
        )
        for token in ("TENANT_A", "TENANT_B")
    ]
    source.read_jobs([(job, now_s - 180) for job in tenants], now_s)
    source.close()
    assert asked == ["TENANT_A", "TENANT_B"]


def test_what_the_selector_lacks_is_told(live: Live) -> None:
    source = live.job.prometheus.model_copy(update={"selector": {"namespace": "orders", "job_name": "orders"}})
    live.job = live.job.model_copy(update={"prometheus": source})
    report = live.minutes(1)[-1]
    assert report.status is Status.BLIND
    assert "workload_per_s is absent" in report.sentence
    assert "topic" in report.sentence


def test_a_target_is_asked_again_after_an_edit_that_could_not_be_used_is_taken_back(live: Live) -> None:
    flink = FlinkSettings(url=live.face.url)
    jobs = [
        live.job.model_copy(update={"target": target})
        for target in (flink, flink.model_copy(update={"ca_file": Path("gone.pem")}), flink)
    ]
    answers = []
    for job in jobs:
        with pytest.raises(TargetError) as failure:  # it is a Prometheus
            live.targets(job).read()
        answers.append(str(failure.value))
    assert "gone.pem" in answers[1]
    assert answers[2] == answers[0]


def test_a_target_that_cannot_be_made_of_its_settings_is_unreachable_and_needs_none_for_advice(live: Live) -> None:
    target = FlinkSettings(url=live.face.url, ca_file=Path("gone.pem"))
    live.job = live.job.model_copy(update={"target": target})
    (report,) = live.minutes(1)
    assert (report.status, report.sentence) == (Status.UNREACHABLE, UNUSABLE)
    live.job = live.job.model_copy(update={"mode": "advise"})
    assert live.minutes(1)[-1].decision is not None


def test_queries_that_are_edited_count_from_the_next_read_on(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, now_s = queries_file("flink").read_text(), live.clock.now_s()
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
    file = tmp_path / "queries" / "flink.yaml"
    file.parent.mkdir()
    file.write_text(good)
    assert len(live.source.read(live.job, now_s, now_s - 180).window)
    file.write_text(good + "oops: 1\n")
    with pytest.raises(SourceError, match="oops"):
        live.source.read(live.job, now_s, now_s - 180)


def test_queries_that_cannot_be_used_are_read_once_and_not_for_each_batch_of_jobs(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, now_s, reads = queries_file("flink").read_text(), live.clock.now_s(), []

    def counting(engine: str) -> EngineQueries:
        reads.append(engine)
        return load_queries(engine)

    monkeypatch.setenv("PERDIX_CONF", str(tmp_path))
    file = tmp_path / "queries" / "flink.yaml"
    file.parent.mkdir()
    file.write_text(good + "oops: 1\n")
    with closing(LiveSource(queries_of=counting)) as source:
        for since_s in (60, 120, 180):
            with pytest.raises(SourceError, match="oops"):
                source.read(live.job, now_s, now_s - since_s)
        assert reads == ["flink"]
        file.write_text(good)
        assert len(source.read(live.job, now_s, now_s - 180).window)


def test_a_job_without_prometheus_is_told_how_to_mend(live: Live) -> None:
    with pytest.raises(SourceError, match="has no 'prometheus' in its file"):
        live.source.read(live.job.model_copy(update={"prometheus": None}), 0.0, 0.0)


def test_an_advisory_job_is_advised_from_its_metrics_alone(live: Live) -> None:
    live.job = live.job.model_copy(update={"target": AdvisorySettings(), "mode": "act"})
    report = live.minutes(1)[-1]
    assert report.status is Status.ADVISE
    assert report.running == 2
    assert report.decision is not None
    assert report.decision.scale_out > 2
    assert report.job_status(0.0).details["advised"] == report.decision.scale_out
    assert live.twin.requested == 2


def test_targets_are_kept_until_their_settings_change(live: Live) -> None:
    first = live.targets(live.job)
    assert live.targets(live.job) is first
    moved = live.job.model_copy(update={"target": TwinSettings(url="http://127.0.0.1:9")})
    assert live.targets(moved) is not first


def test_the_connection_of_a_job_whose_file_is_gone_is_closed(store: StateStore) -> None:
    closed: list[str] = []

    def build(job: StreamJob) -> Mock:
        return Mock(**{"close.side_effect": lambda: closed.append(job.name), "read.side_effect": TargetError("away")})

    targets = Targets(build)
    io = TickIO(Mock(), store, GivenChampions(), targets, keep_targets=targets.keep_only)
    clock = SimulatedClock(START_S)
    both = [a_job(name="ads"), a_job(name="orders")]
    tick_fleet(both, io, clock, holder="a")
    assert closed == []
    clock.advance(60.0)
    tick_fleet(both[1:], io, clock, holder="a")
    assert closed == ["ads"]
    targets.close()
    assert closed == ["ads", "orders"]


def test_the_whole_live_loop_opens_and_ticks(live: Live, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with live_io(home, ControlSettings()) as io:
        live.clock.advance(60.0)
        report = tick_fleet([live.job], io, live.clock, holder="a", heartbeat=home.heartbeat)
    assert "orders" in report.reports
    assert report.notes == ()
    assert home.heartbeat.exists()


def test_how_far_back_a_tick_reads() -> None:
    now_s, job = 10_000.0, a_job(objectives=Objectives(checkpoint_interval_s=10.0))
    assert since_s(job, now_s, None, 60.0) == now_s - LONGEST_READ_S
    assert since_s(job, now_s, now_s - 60.0, 60.0) == now_s - 180.0
    assert since_s(job, now_s, now_s - 600.0, 60.0) == now_s - 600.0
    assert since_s(job, now_s, now_s - 90_000.0, 60.0) == now_s - LONGEST_READ_S
    seldom = a_job(objectives=Objectives(checkpoint_interval_s=300.0))
    assert since_s(seldom, now_s, now_s - 60.0, 60.0) == now_s - 360.0
    scraped = a_job(prometheus=PrometheusSource(url="http://in.process", scrape_interval_s=300.0))
    assert since_s(scraped, now_s, now_s - 60.0, 60.0) == now_s - 660.0, "two whole steps"


def test_a_job_of_an_unknown_policy_option_is_broken_alone(live: Live) -> None:
    wrong: StreamJob = live.job.model_copy(update={"policy": PolicySettings(name="hpa", options={"target": 0.8})})
    live.clock.advance(60.0)
    report = tick_fleet([wrong], replace(live.io), live.clock, holder="a")
    assert report.others["orders"].status is Status.BROKEN
    assert "did you mean 'target_cpu'" in report.others["orders"].sentence


def test_low_load_is_scaled_in_over_http(store: StateStore) -> None:
    clock = SimulatedClock(START_S + 1_800)
    twin = JobTwin(parameters(), 3, start_s=START_S, scale_out=6, arrivals=arrivals_from(constant(LOW), START_S))
    living = LivingTwin({"orders": twin}, clock, scraping=Scraping(interval_s=5.0))
    with PrometheusFace(living) as face:
        live = Live(face, clock, store)
        live.minutes(4)
        assert live.twin.scale_out < 6
        live.source.close()
        live.targets.close()

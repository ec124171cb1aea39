"""What is published: the same from any process, never a scale-in for want of metrics, never a stale number."""

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from perdix.control.explain_text import _planned
from perdix.control.fleet import _retrains, tick_fleet
from perdix.control.fleet_report import FleetReport, LoopFault
from perdix.control.job_files import FollowedFiles
from perdix.control.operators.naming import on_record
from perdix.control.publish.metrics import Freshness, PublishedCollector, TickCounts, registry_of, serving
from perdix.control.publish.names import BUDGET_LEFT, METRICS, Shown
from perdix.control.publish.standing import PublishedState, TickRow
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.ledger import Intent
from perdix.control.state.schema import SCHEMA
from perdix.control.state.store import DAY_S, StateStore
from perdix.models.drift import POOR_TICKS, DriftState
from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.policies.dataflow.holding import hold
from perdix.policies.planning.budget import MEMORY_S
from perdix.settings.stream_job import Objectives, PolicySettings
from perdix.settings.targets import AdvisorySettings
from perdix.targets.advisory import AdvisoryTarget
from perdix.targets.contract import Fault, TargetError
from perdix.twin.living import SimulatedClock
from tests.control.operators_rig import Job, Wishes, acting, looking
from tests.control.rig import HIGH, LOW, Rig, champion, constant
from tests.deploy.promql import promtool

DOCS = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
NOW_S = 1_790_000_000.0
Labels = frozenset[tuple[str, str]]


@dataclass
class Scrape:
    """The samples of one scrape, asked for by name and labels."""

    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.samples.get((f"perdix_{name}", frozenset(labels.items())))

    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    def label(self, name: str, label: str, job: str = "orders") -> str | None:
        """The label of the one series that a metric has for a job."""
        found = [
            dict(labels)[label]
            for (sample, labels) in self.samples
            if sample == f"perdix_{name}" and ("stream_job", job) in labels
        ]
        assert len(found) <= 1, found
        return found[0] if found else None


def scrape(collector: PublishedCollector) -> Scrape:
    return Scrape(
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in collector.collect()
            for sample in family.samples
        }
    )


@dataclass
class Loop:
    """A rig under the fleet's tick, and a collector beside it that sees the store only."""

    rig: Rig
    clock: SimulatedClock
    collector: PublishedCollector

    @classmethod
    def of(cls, store: StateStore, folder: Path, per_s: Any = 15_000.0, **options: Any) -> "Loop":
        rig = Rig.of(store, per_s, **options)
        clock = SimulatedClock(rig.now_s)
        (folder / "orders.yaml").write_text(
            "bounds: {minimum: 1, maximum: 8}\nmode: act\n" + ("" if rig.job.mode == "advise" else TWIN)
        )
        url = store.database.url.render_as_string(hide_password=False)
        return cls(rig, clock, PublishedCollector(PublishedState(url), FollowedFiles((folder,)), clock))

    def minute(self, minutes: int = 1) -> FleetReport:
        report = None
        for _ in range(minutes):
            self.clock.advance(60.0)
            self.rig.twin.step(60)
            report = tick_fleet([self.rig.job], self.rig.io, self.clock, holder="a")
        assert report is not None
        return report

    def scrape(self) -> Scrape:
        return scrape(self.collector)


TWIN = "target: {kind: twin, url: 'http://127.0.0.1:1'}\n"
ADVISED: dict[str, Any] = {"mode": "advise", "target": AdvisorySettings()}


def test_what_is_wanted_what_runs_and_why_come_from_the_store(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    loop.minute()
    seen = loop.scrape()
    desired = store.ledger.desired("orders")
    assert desired is not None
    assert desired.scale_out > 2
    assert seen("desired_scale_out", stream_job="orders") == desired.scale_out
    assert seen("current_scale_out", stream_job="orders") == 2
    assert seen("desired_timestamp_seconds", stream_job="orders") == desired.decision.intent.made_s
    assert seen("desired_valid_until_timestamp_seconds", stream_job="orders") == desired.decision.intent.valid_until_s
    assert seen("status_info", stream_job="orders", status="acting") == 1
    assert seen.label("decision_info", "reason") in {Reason.SCALE_OUT, Reason.SCALE_MAXIMUM}
    assert seen("workload_records_per_second", stream_job="orders") == pytest.approx(HIGH, rel=0.05)
    assert seen("latency_p95_seconds", stream_job="orders") > 0
    assert seen("rescales_per_day", stream_job="orders") == 1
    assert seen("rescale_budget_per_day", stream_job="orders") == 48
    assert seen("lease_held", stream_job="orders") == 1
    assert seen("up") == 1


@pytest.mark.parametrize("policy", ["daedalus", "hpa"])
def test_the_recovery_that_is_expected_is_the_one_on_record(store: StateStore, tmp_path: Path, policy: str) -> None:
    champions = champion(constant(30_000.0, hours=1), Rig.of(store, 30_000.0).now_s)
    options = {"scale_out": 6, "policy": PolicySettings(name=policy), "champions": champions}
    loop = Loop.of(store, tmp_path, 30_000.0, **options)
    for _ in range(10):
        report = loop.minute().reports["orders"]
        intent = store.ledger.decisions("orders")[0].intent
        if intent.rescales:
            break
    assert intent.rescales
    assert intent.predicted_recovery_s is not None
    assert loop.scrape()("predicted_recovery_seconds", stream_job="orders") == intent.predicted_recovery_s
    assert report.to_dict()["predicted_recovery_s"] == intent.predicted_recovery_s


def test_rescales_that_others_carry_out_use_up_the_budget(store: StateStore, tmp_path: Path) -> None:
    settings = {**ADVISED, "mode": "act", "objectives": Objectives(rescales_per_day=2)}
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2, **settings)
    loop.rig.target = AdvisoryTarget()
    for workers in (3, 4, 5):
        loop.minute(3)
        loop.rig.twin.rescale(workers, f"to {workers}", None)
    loop.minute(3)
    assert loop.scrape()("rescales_per_day", stream_job="orders") == 3
    loop.rig.source.error = "connection refused"
    loop.minute()
    assert loop.scrape()("rescales_per_day", stream_job="orders") == 3, "also while nobody sees"


def test_a_grace_period_takes_no_advice_back(store: StateStore, tmp_path: Path) -> None:
    """Half of the advised workers are there already: what is only waited for stays wanted."""
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2, **ADVISED)
    loop.rig.target = AdvisoryTarget()
    loop.minute(2)
    wanted = loop.scrape()("desired_scale_out", stream_job="orders")
    assert wanted is not None
    loop.rig.twin.rescale(4, "half of them", None)
    loop.minute(2)
    seen = loop.scrape()
    assert seen.label("decision_info", "reason") == Reason.HOLD_GRACE
    assert seen("desired_scale_out", stream_job="orders") == wanted


def test_operators_of_a_job_are_published_under_their_own_name(store: StateStore, tmp_path: Path) -> None:
    """Also those that stay as they are, of which a decision to change others says nothing."""
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    loop.minute()
    name, job = on_record("orders"), Job(200.0, {"source": 8, "count": 1}, now_s=loop.clock.now_s(), obeys=False)
    sized = looking(job, Wishes({}, {"count": 3}), carry_out=acting(job, store).carry_out)
    for count in (1, 3):
        next(sized)
        loop.clock.advance(30.0)
        seen = loop.scrape()
        assert seen("desired_scale_out", stream_job=name) == seen("current_scale_out", stream_job=name) == 8
        assert seen("desired_workers", stream_job=name, size="source") == 8
        assert seen("desired_workers", stream_job=name, size="count") == count
        assert seen("current_workers", stream_job=name, size="count") == 1
    assert seen("status_info", stream_job=name, status="acting") == 1
    assert seen("rescales_per_day", stream_job=name) == 1
    assert seen("current_scale_out", stream_job="orders") == 2
    job.broken = "503"
    next(sized)
    assert loop.scrape()("desired_scale_out", stream_job=name) == 8, "also while Flink cannot be read"


def test_of_operators_flink_says_what_runs_also_where_their_policy_is_blind(store: StateStore, tmp_path: Path) -> None:
    class Blind(Wishes):
        def decide(self, situation: DataflowSituation) -> DataflowDecision:
            return hold(self.name, situation, Reason.HOLD_BLIND, "Blind: no rates.")

    loop = Loop.of(store, tmp_path)
    loop.minute()
    job = Job(200.0, {"source": 2, "count": 3}, now_s=loop.clock.now_s())
    next(looking(job, Blind(), carry_out=acting(job, store).carry_out))
    seen, name = loop.scrape(), on_record("orders")
    assert seen("status_info", stream_job=name, status="blind") == 1
    assert seen("current_scale_out", stream_job=name) == 3
    assert seen("current_workers", stream_job=name, size="source") == 2


def test_a_loop_that_sizes_operators_is_alive_until_its_lease_is_over(store: StateStore, tmp_path: Path) -> None:
    """However seldom it looks; and one that ended is no loop that died."""
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    name, job = on_record("orders"), Job(200.0, now_s=loop.clock.now_s())
    executor = acting(job, store)
    executor.interval_s = 600.0
    sized = looking(job, Wishes({}), carry_out=executor.carry_out)
    next(sized)
    held = []
    for minutes in (0, 20, 20):
        loop.clock.advance(60.0 * minutes)
        seen = loop.scrape()
        held.append((seen("lease_held", stream_job=name), seen.label("status_info", "status", name)))
    assert held == [(1, "acting"), (1, "acting"), (0, "silent")]
    job.now_s = loop.clock.now_s()
    next(sized)
    executor.close()
    seen = loop.scrape()
    assert (seen("lease_held", stream_job=name), seen("desired_scale_out", stream_job=name)) == (None, 2)


def test_a_retraining_is_unanswered_from_the_first_request_of_a_drift_on(store: StateStore, tmp_path: Path) -> None:
    """Attempts are an hour, four, sixteen and a day apart, and a day has three: none of that is an answer."""
    loop = Loop.of(store, tmp_path)
    loop.minute()
    began_s, drift, asked, oldest = loop.clock.now_s(), DriftState(), 0, set[float | None]()
    for at_s in np.arange(began_s, began_s + 3 * DAY_S, 600.0).tolist():
        due = drift.observe(0.5, origin_s=at_s)
        key = store.journal.request_retrain("orders", at_s, "poor") if due.retrain_due else None
        asked += key is not None
        drift = due if key else drift.observe(0.5, origin_s=at_s, asking=False)
        if asked:
            _retrains(store.journal, at_s)
            oldest.add(loop.scrape()("retrain_oldest_request_timestamp_seconds", stream_job="orders"))
    assert asked == 5
    assert oldest == {began_s + 600.0 * (POOR_TICKS - 1)}
    newest = store.journal.open_retrains()
    assert [request.attempt for request in newest] == [1], "of the third day"
    store.journal.close_retrain(newest[0].run_key, at_s)
    assert store.journal.request_retrain("orders", at_s + DAY_S, "another drift")
    assert loop.scrape()("retrain_oldest_request_timestamp_seconds", stream_job="orders") == at_s + DAY_S


def test_ticks_of_many_controllers_are_counted_however_many_they_are(store: StateStore) -> None:
    state = PublishedState(store.database.url.render_as_string(hide_password=False))
    ticks = TickCounts(since_s=NOW_S)
    for first in (1, 1_201):  # five a second
        for number in range(first, first + 1_200):
            store.journal.record_tick(Tick(NOW_S + 0.2 * number, NOW_S + 0.2 * number, "a"), [])
        now_s = NOW_S + 0.2 * (first + 1_200)
        ticks.take(state.read(now_s, ticks.since_s).ticks, now_s)
    assert ticks.outcomes["empty"] == 2_400


def test_ticks_are_counted_on_after_a_clock_that_was_ahead_is_set_back() -> None:
    ticks = TickCounts(since_s=NOW_S + 80_000.0)
    for now_s in (NOW_S + 86_400.0, NOW_S, NOW_S + 60.0):
        rows = [TickRow(at_s, "a", at_s + 1.0, {}) for at_s in (NOW_S + 86_400.0, now_s) if at_s > ticks.since_s]
        ticks.take(rows, now_s)
    assert ticks.outcomes["empty"] == 2, "but for that of the first look back"


def test_forecasts_are_told_with_their_horizon_and_an_upper_bound(store: StateStore, tmp_path: Path) -> None:
    champions = champion(constant(15_000.0, hours=1), Rig.of(store, 15_000.0).now_s)
    loop = Loop.of(store, tmp_path, 15_000.0, champions=champions)
    loop.minute(3)
    seen = loop.scrape()
    for horizon in ("60s", "300s", "900s"):
        mean = seen("forecast_mean_records_per_second", stream_job="orders", horizon=horizon)
        upper = seen("forecast_p95_records_per_second", stream_job="orders", horizon=horizon)
        assert mean == pytest.approx(15_000.0, rel=0.1)
        assert upper >= mean
    assert seen("forecast_wape_ratio", stream_job="orders") < 0.1
    assert loop.clock.now_s() - seen("forecast_origin_timestamp_seconds", stream_job="orders") < 60
    low, per_s, high = (seen(f"capacity{end}_records_per_second", stream_job="orders") for end in ("_low", "", "_high"))
    assert low <= per_s <= high
    assert seen("failure_recovery_seconds", stream_job="orders") > 0


def test_a_blind_job_keeps_the_wish_of_when_it_could_see_and_its_time(store: StateStore, tmp_path: Path) -> None:
    """Advice that nobody has followed yet: a hold on missing metrics must not be taken for a wish to run less."""
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2, **ADVISED)
    loop.rig.target = AdvisoryTarget()
    loop.minute()
    before = loop.scrape()
    wanted = before("desired_scale_out", stream_job="orders")
    assert wanted > 2
    loop.rig.source.error = "connection refused"
    report = loop.minute(5)
    assert report.reports["orders"].decision.scale_out == 2, "the hold itself names what was last seen running"
    after = loop.scrape()
    assert after("desired_scale_out", stream_job="orders") == wanted
    assert after("desired_timestamp_seconds", stream_job="orders") == before(
        "desired_timestamp_seconds", stream_job="orders"
    )
    assert after("status_info", stream_job="orders", status="blind") == 1
    assert after.label("decision_info", "reason") == Reason.HOLD_BLIND
    for gone in ("current_scale_out", "workload_records_per_second", "capacity_records_per_second"):
        assert after(gone, stream_job="orders") is None, f"{gone} of a job that nobody sees"


def test_a_wish_outlasts_the_retention_of_a_job_that_nobody_sees(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2, **ADVISED)
    loop.rig.target = AdvisoryTarget()
    loop.minute()
    before = loop.scrape()
    loop.rig.source.error = "connection refused"
    loop.minute(2)
    loop.clock.advance(15 * 86_400.0)
    loop.minute()
    store.prune(loop.clock.now_s())
    after = loop.scrape()
    for name in ("desired_scale_out", "desired_timestamp_seconds", "desired_valid_until_timestamp_seconds"):
        assert after(name, stream_job="orders") == before(name, stream_job="orders") is not None


def test_a_pause_freezes_the_wish(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2, **ADVISED)
    loop.rig.target = AdvisoryTarget()
    loop.minute()
    wanted = loop.scrape()("desired_scale_out", stream_job="orders")
    store.journal.pause("orders", loop.clock.now_s() + 3_600, loop.clock.now_s())
    loop.minute(2)
    seen = loop.scrape()
    assert seen("status_info", stream_job="orders", status="paused") == 1
    assert seen("desired_scale_out", stream_job="orders") == wanted > 2


def test_what_the_target_refused_for_good_is_no_longer_wanted(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    loop.rig.target.refusing = TargetError("quota exceeded", retriable=False)
    loop.minute()
    assert store.ledger.desired("orders") is None
    assert loop.scrape()("desired_scale_out", stream_job="orders") == 2


def test_a_target_that_refuses_for_hours_is_published_for_hours(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    loop.rig.target.refusing = TargetError("403: forbidden", fault=Fault.LASTING)
    for minutes in (20, 120):
        loop.minute(minutes)
        failures = loop.scrape()("target_failures", stream_job="orders")
        assert failures is not None
        assert failures > 3
    loop.rig.target.refusing = None
    loop.minute(35)
    assert loop.scrape()("target_failures", stream_job="orders") == 0


def test_a_job_that_never_could_be_seen_wants_what_its_target_runs_and_says_no_time(
    store: StateStore, tmp_path: Path
) -> None:
    loop = Loop.of(store, tmp_path, LOW, scale_out=3)
    loop.rig.source.error = "connection refused"
    loop.minute()
    seen = loop.scrape()
    assert seen("desired_scale_out", stream_job="orders") == 3
    assert seen("desired_timestamp_seconds", stream_job="orders") is None
    assert seen("desired_valid_until_timestamp_seconds", stream_job="orders") is None
    assert seen("current_scale_out", stream_job="orders") == 3, "the target tells it"


def test_a_job_that_was_never_judged_wants_what_it_runs_and_says_no_time(store: StateStore, tmp_path: Path) -> None:
    """Phoebe without a profile: who follows a fresh number would keep an overloaded job from growing."""
    loop = Loop.of(
        store, tmp_path, HIGH, scale_out=2, **{**ADVISED, "mode": "act", "policy": PolicySettings(name="phoebe")}
    )
    loop.rig.target = AdvisoryTarget()
    loop.minute(5)
    seen = loop.scrape()
    assert seen.label("decision_info", "reason") == Reason.HOLD_UNKNOWN
    assert seen("desired_scale_out", stream_job="orders") == 2
    assert seen("desired_timestamp_seconds", stream_job="orders") is None
    assert seen("desired_valid_until_timestamp_seconds", stream_job="orders") is None


def test_without_ticks_only_what_stays_true_is_published(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    loop.minute()
    fresh = loop.scrape()
    loop.clock.advance(181.0)
    stale = loop.scrape()
    assert stale("desired_scale_out", stream_job="orders") == fresh("desired_scale_out", stream_job="orders")
    assert stale.label("status_info", "status") == "silent"
    lasting = {metric.name for metric in METRICS if metric.shown is Shown.ALWAYS}
    of_job = {name for name, labels in stale.samples if any(key == "stream_job" for key, _ in labels)}
    assert of_job <= lasting
    assert of_job >= {"perdix_desired_scale_out", "perdix_last_tick_timestamp_seconds", "perdix_rescale_budget_per_day"}


def test_between_the_ticks_of_a_short_interval_nothing_is_stale(store: StateStore, tmp_path: Path) -> None:
    """A tick that rescales keeps its lease for most of a minute."""
    assert Freshness(5.0).is_fresh(0.0, 60.0)
    assert not Freshness(60.0).is_fresh(0.0, 181.0)


def test_ticks_are_counted_once_however_often_they_are_scraped(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    assert loop.scrape()("up") == 1
    loop.minute()
    loop.scrape()
    assert loop.scrape()("ticks_total", outcome="complete") == 1
    loop.minute(2)
    store.journal.record_tick(Tick(loop.clock.now_s() - 70.0, loop.clock.now_s(), "b", {"statuses": {"late": 1}}), [])
    seen = loop.scrape()
    assert seen("ticks_total", outcome="complete") == 3
    assert seen("ticks_total", outcome="late") == 1, "another controller's, journalled after later ones"
    assert seen("tick_duration_seconds_count") == 4
    assert seen("tick_duration_seconds_bucket", le="+Inf") == 4
    assert seen("tick_duration_seconds_bucket", le="60.0") == 3
    assert seen("tick_duration_seconds_sum") >= 70.0
    assert seen("target_events_total", event="applied") == 1


def test_faults_of_the_loop_are_counted_whoever_ticks_each_once(store: StateStore, tmp_path: Path) -> None:
    """A controller hears of its own ticks, too; what they could not write down only it can count."""
    loop = Loop.of(store, tmp_path)
    now_s, faults = loop.clock.now_s() + 1.0, (LoopFault.CHAMPIONS, LoopFault.HEARTBEAT)
    store.journal.record_tick(Tick(now_s, now_s, "sensor", {"faults": [LoopFault.CHAMPIONS]}), [])
    assert loop.scrape()("loop_faults_total", what="champions") == 1
    loop.collector.note(faults)
    seen = loop.scrape()
    assert (seen("loop_faults_total", what="champions"), seen("loop_faults_total", what="heartbeat")) == (1, 1)
    loop.collector.note((LoopFault.CHAMPIONS, LoopFault.JOURNAL))
    seen = loop.scrape()
    assert (seen("loop_faults_total", what="champions"), seen("loop_faults_total", what="journal")) == (2, 1)


def test_ticks_from_before_this_process_are_not_counted(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, LOW)
    loop.minute(3)
    late = PublishedCollector(loop.collector._state, FollowedFiles((tmp_path,)), loop.clock)
    assert scrape(late)("ticks_total", outcome="complete") == 0


def test_two_processes_publish_the_same_of_each_job(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    loop.minute(2)
    url = store.database.url.render_as_string(hide_password=False)
    other = PublishedCollector(PublishedState(url), FollowedFiles((tmp_path,)), loop.clock, holder="a")
    process = {metric.name for metric in METRICS if metric.shown is Shown.PROCESS}
    mine, theirs = loop.scrape(), scrape(other)
    of_jobs = {key: value for key, value in mine.samples.items() if key[0] not in process and "tick_dur" not in key[0]}
    assert len(of_jobs) > 20
    assert {key: theirs.samples.get(key) for key in of_jobs} == of_jobs
    assert (mine("process_leases"), theirs("process_leases")) == (0, 1), "but whose lease it is differs"


def test_every_metric_of_the_list_is_really_published(store: StateStore, tmp_path: Path) -> None:
    champions = champion(constant(LOW, hours=1), Rig.of(store, LOW).now_s)
    loop = Loop.of(store, tmp_path, LOW, champions=champions, scale_out=4)
    loop.minute(18)
    names = loop.scrape().names()
    store.journal.request_retrain("orders", loop.clock.now_s(), "for the test")
    details = {"scale_out": 3, "predicted_recovery_s": 60.0, "error_budget_left": 0.5, "rejected": {"cpu_load": 2}}
    a_status(store, loop.clock.now_s(), "mixed", mix={"small": 2, "large": 1}, **details)
    an_intent(store, loop.clock.now_s(), "mixed", 3, mix={"small": 2, "large": 1})
    (tmp_path / "mixed.yaml").write_text("sizes:\n  small: {cpu_cores: 1, memory_mb: 1024, price_per_h: 1}\n")
    names |= loop.scrape().names()
    exposed = {name.removesuffix("_bucket") for name in names if not name.endswith(("_count", "_sum"))}
    assert exposed == {metric.name for metric in METRICS}


def test_the_table_in_the_docs_is_the_list() -> None:
    rows = ["| metric | type | labels | published | meaning |", "|---|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.shown} | {metric.help} |")
    assert "\n".join(rows) in DOCS.read_text()


def test_an_error_budget_is_said_to_be_of_the_hours_that_it_is_of() -> None:
    of_hours = f"of the last hours, fading over {MEMORY_S / 3_600.0:.0f} h"
    dashboard = DOCS.parents[1] / "deploy" / "grafana" / "perdix.json"
    assert of_hours in BUDGET_LEFT.help
    assert f"{of_hours}; below 0 overspent" in dashboard.read_text()
    assert of_hours in "\n".join(_planned({"error_budget_left": 0.4}))


def test_prometheus_can_read_it(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path, HIGH, scale_out=2)
    loop.minute()
    text = generate_latest(registry_of(loop.collector)).decode()
    assert 'perdix_desired_scale_out{stream_job="orders"}' in text
    families = list(text_string_to_metric_families(openmetrics_text(registry_of(loop.collector)).decode()))
    assert len(families) == len(METRICS)
    checked = promtool("check", "metrics", given=text)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


class TestAStoreThatCannotBeRead:
    """A scrape answers all the same, writes nothing, and goes on to publish what it knew."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "not yet, 100 %?" / "state.db"

    @pytest.fixture
    def collector(self, path: Path, tmp_path: Path) -> PublishedCollector:
        return PublishedCollector(
            PublishedState(sqlite_url(path)), FollowedFiles((tmp_path / "none",)), SimulatedClock(NOW_S + 1)
        )

    @pytest.fixture
    def filled(self, path: Path) -> Iterator[StateStore]:
        opened = StateStore(sqlite_url(path))
        an_intent(opened, NOW_S, "ads", 7)
        a_status(opened, NOW_S, "ads", scale_out=4)
        yield opened
        opened.close()

    def test_an_absent_store_is_told_and_not_made(self, collector: PublishedCollector, path: Path) -> None:
        seen = scrape(collector)
        assert (seen("up"), seen("scrape_errors_total", cause="absent")) == (0, 1)
        assert scrape(collector)("scrape_errors_total", cause="absent") == 2
        assert not path.parent.exists()
        assert "there is none yet" in collector.problem
        with contextlib.closing(StateStore(sqlite_url(path))):
            assert scrape(collector)("up") == 1
        assert collector.problem == ""

    def test_an_empty_file_is_no_store(self, collector: PublishedCollector, path: Path) -> None:
        path.parent.mkdir()
        path.touch()
        assert scrape(collector)("scrape_errors_total", cause="absent") == 1

    def test_a_file_that_is_no_database_is_told(self, collector: PublishedCollector, path: Path) -> None:
        path.parent.mkdir()
        path.write_text("<!doctype html>" * 100)
        assert scrape(collector)("scrape_errors_total", cause="other") == 1

    def test_a_locked_store_freezes_what_was_known(
        self, collector: PublishedCollector, path: Path, filled: StateStore
    ) -> None:
        assert scrape(collector)("desired_scale_out", stream_job="ads") == 7
        filled.close()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            other.execute("UPDATE desired_scales SET scale_out = 1")
            seen = scrape(collector)
        assert (seen("up"), seen("scrape_errors_total", cause="locked")) == (0, 1)
        assert seen("scrape_duration_seconds") < 5.0
        assert seen("desired_scale_out", stream_job="ads") == 7
        assert seen("desired_timestamp_seconds", stream_job="ads") == NOW_S
        assert seen("state_read_timestamp_seconds") == NOW_S + 1
        assert scrape(collector)("up") == 1, "and it recovers by itself"

    def test_a_writer_keeps_no_scrape_waiting(self, collector: PublishedCollector, filled: StateStore) -> None:
        with filled.together() as once:
            once.journal.pause("ads", NOW_S + 60, NOW_S)
            assert scrape(collector)("up") == 1

    def test_another_schema_is_told(self, collector: PublishedCollector, filled: StateStore) -> None:
        with filled.database.writing() as connection:
            connection.execute(sa.text(f"UPDATE state_version SET number = {SCHEMA + 1}"))
        assert scrape(collector)("scrape_errors_total", cause="schema") == 1

    def test_a_scrape_writes_nothing(self, collector: PublishedCollector, path: Path, filled: StateStore) -> None:
        filled.close()
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = hashlib.sha256(path.read_bytes()).hexdigest()
        assert scrape(collector)("up") == 1
        assert hashlib.sha256(path.read_bytes()).hexdigest() == before
        wal = path.with_name("state.db-wal")
        assert not wal.exists() or wal.stat().st_size == 0

    def test_rows_of_an_older_perdix_are_published_as_far_as_they_go(
        self, collector: PublishedCollector, filled: StateStore
    ) -> None:
        old = {"event": "nothing", "scale_out": 4, "wanted": None, "wape": 0.2, "notes": [], "reason": "hold_good"}
        filled.journal.record_tick(Tick(NOW_S, NOW_S, "a"), [JobStatus("ads", Status.ACTING, NOW_S, "", old)])
        seen = scrape(collector)
        assert seen("current_scale_out", stream_job="ads") == 4
        assert seen("forecast_wape_ratio", stream_job="ads") == 0.2
        assert seen("capacity_records_per_second", stream_job="ads") is None

    def test_words_that_are_not_known_do_not_become_labels(
        self, collector: PublishedCollector, filled: StateStore
    ) -> None:
        a_status(filled, NOW_S, "ads", scale_out=4, reason="hold_by_moonlight")
        with filled.database.writing() as connection:
            connection.execute(sa.text("UPDATE statuses SET status = 'dreaming'"))
        seen = scrape(collector)
        assert seen.label("decision_info", "reason", "ads") == "other"
        assert seen.label("status_info", "status", "ads") == "other"

    def test_a_row_that_makes_no_sense_takes_no_other_job_with_it(
        self, collector: PublishedCollector, filled: StateStore
    ) -> None:
        an_intent(filled, NOW_S, "odd", 3)
        a_status(filled, NOW_S, "odd", scale_out="four", capacity=[1])
        seen = scrape(collector)
        assert seen("desired_scale_out", stream_job="ads") == 7
        assert seen("desired_scale_out", stream_job="odd") == 3
        assert seen("up") == 1
        assert seen("scrape_errors_total", cause="other") == 1

    def test_numbers_that_are_none_are_left_out(self, collector: PublishedCollector, filled: StateStore) -> None:
        a_status(filled, NOW_S, "ads", scale_out=None, failure_recovery_s=float("inf"), wape=float("nan"))
        seen = scrape(collector)
        for name in ("current_scale_out", "failure_recovery_seconds", "forecast_wape_ratio"):
            assert seen(name, stream_job="ads") is None

    def test_a_fleet_costs_as_many_queries_as_a_job(self, collector: PublishedCollector, filled: StateStore) -> None:
        def queries() -> int:
            count = 0

            def counted(*_: Any) -> None:
                nonlocal count
                count += 1

            sa.event.listen(sa.Engine, "before_cursor_execute", counted)
            try:
                assert scrape(collector)("up") == 1
            finally:
                sa.event.remove(sa.Engine, "before_cursor_execute", counted)
            return count

        one = queries()
        for number in range(30):
            an_intent(filled, NOW_S, f"job{number}", 3)
            a_status(filled, NOW_S, f"job{number}", scale_out=3)
        assert queries() == one


def sqlite_url(path: Path) -> str:
    return sa.URL.create("sqlite", database=str(path)).render_as_string()


class TestJobFiles:
    """Which jobs are published, and what their files say."""

    def test_a_size_that_is_not_wanted_is_0_and_not_absent(self, store: StateStore, tmp_path: Path) -> None:
        """A series that vanished would leave those workers running."""
        (tmp_path / "mixed.yaml").write_text(
            "sizes:\n  small: {cpu_cores: 1, memory_mb: 1024, price_per_h: 1}\n"
            "  large: {cpu_cores: 4, memory_mb: 4096, price_per_h: 3}\n"
        )
        an_intent(store, NOW_S, "mixed", 2, mix={"small": 2})
        a_status(store, NOW_S, "mixed", scale_out=3, mix={"small": 1, "large": 2})
        seen = scrape(self.collector(store, tmp_path))
        assert seen("desired_workers", stream_job="mixed", size="small") == 2
        assert seen("desired_workers", stream_job="mixed", size="large") == 0
        assert seen("current_workers", stream_job="mixed", size="large") == 2

    def test_the_last_job_file_removed_is_a_job_removed(self, store: StateStore, tmp_path: Path) -> None:
        an_intent(store, NOW_S, "gone", 3)
        a_status(store, NOW_S, "gone", scale_out=3)
        (tmp_path / "gone.yaml").write_text("mode: act\n")
        collector = self.collector(store, tmp_path)
        assert scrape(collector)("desired_scale_out", stream_job="gone") == 3
        (tmp_path / "gone.yaml").unlink()
        assert scrape(collector)("desired_scale_out", stream_job="gone") is None

    def test_a_job_whose_file_was_removed_is_published_no_more(self, store: StateStore, tmp_path: Path) -> None:
        for name in ("gone", "here"):
            an_intent(store, NOW_S, name, 3)
            a_status(store, NOW_S, name, scale_out=3)
            (tmp_path / f"{name}.yaml").write_text("mode: act\n")
        collector = self.collector(store, tmp_path)
        assert scrape(collector)("desired_scale_out", stream_job="gone") == 3
        (tmp_path / "gone.yaml").unlink()
        seen = scrape(collector)
        assert seen("desired_scale_out", stream_job="gone") is None
        assert seen("desired_scale_out", stream_job="here") == 3
        assert (
            seen("job_info", stream_job="gone", engine="flink", mode="act", policy="daedalus", target="advisory")
            is None
        )

    def test_where_there_are_no_job_files_every_job_of_the_store_is_published(
        self, store: StateStore, tmp_path: Path
    ) -> None:
        an_intent(store, NOW_S, "elsewhere", 3)
        a_status(store, NOW_S, "elsewhere", scale_out=3)
        assert scrape(self.collector(store, tmp_path / "absent"))("desired_scale_out", stream_job="elsewhere") == 3

    def test_a_file_with_a_typo_is_counted_and_its_job_still_published(self, store: StateStore, tmp_path: Path) -> None:
        an_intent(store, NOW_S, "typo", 3)
        a_status(store, NOW_S, "typo", scale_out=3)
        (tmp_path / "typo.yaml").write_text("mod: act\n")
        seen = scrape(self.collector(store, tmp_path))
        assert seen("job_files_unreadable") == 1
        assert seen("desired_scale_out", stream_job="typo") == 3

    def test_a_change_is_seen_by_the_next_scrape(self, store: StateStore, tmp_path: Path) -> None:
        path = tmp_path / "ads.yaml"
        path.write_text("bounds: {minimum: 1, maximum: 8}\n")
        collector = self.collector(store, tmp_path)
        assert scrape(collector)("scale_out_maximum", stream_job="ads") == 8
        path.write_text("bounds: {minimum: 1, maximum: 16}\n")
        assert scrape(collector)("scale_out_maximum", stream_job="ads") == 16

    def test_many_changes_at_once_are_read_over_several_scrapes(self, tmp_path: Path) -> None:
        for number in range(5):
            (tmp_path / f"job{number}.yaml").write_text("mode: act\n")
        ticking = iter(range(100))
        files = FollowedFiles((tmp_path,), stopwatch_s=lambda: float(next(ticking)))
        assert len(files.look(budget_s=2.5).jobs) == 2
        assert len(files.look(budget_s=2.5).names) == 5, "and none is forgotten meanwhile"
        assert len(files.look(float("inf")).jobs) == 5

    @staticmethod
    def collector(store: StateStore, folder: Path) -> PublishedCollector:
        url = store.database.url.render_as_string(hide_password=False)
        return PublishedCollector(PublishedState(url), FollowedFiles((folder,)), SimulatedClock(NOW_S + 1))


def test_a_collector_answers_over_http_and_lets_go_of_the_port(store: StateStore, tmp_path: Path) -> None:
    import httpx  # noqa: PLC0415

    collector = TestJobFiles.collector(store, tmp_path)
    with serving(collector, "127.0.0.1", 0) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
        assert answer.status_code == 200
        assert "perdix_up 1.0" in answer.text
        with pytest.raises(OSError, match="in use"), serving(collector, "127.0.0.1", port):
            pass
    with serving(collector, "127.0.0.1", port):
        assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 200


def an_intent(store: StateStore, now_s: float, job: str, scale_out: int, mix: dict[str, int] | None = None) -> None:
    store.ledger.record(
        Intent(
            job=job,
            window_end_s=now_s,
            made_s=now_s,
            from_scale_out=4,
            scale_out=scale_out,
            policy="daedalus",
            reason=Reason.of_change(4, scale_out),
            sentence="for the test",
            valid_until_s=now_s + 900.0,
            versions={},
            explanation={"seen": {"workload_per_s": 1_000.0}},
            mix=mix or {},
        )
    )


def a_status(store: StateStore, now_s: float, job: str, **details: Any) -> None:
    given = {"reason": "scale_out", "event": "nothing", "wape": None, **details}
    status = JobStatus(job, Status.ACTING, now_s, "for the test", given)
    store.journal.record_tick(Tick(now_s, now_s, "a", {"statuses": {"acting": 1}}), [replace(status)])


def test_values_that_cannot_be_are_counted_by_metric_for_as_long_as_the_job_is_known(
    store: StateStore, tmp_path: Path
) -> None:
    loop = Loop.of(store, tmp_path)
    loop.minute(2)
    assert loop.scrape().label("rejected_samples_total", "metric") is None
    loop.rig.source.change = lambda window: replace(
        window, job_metrics={**window.job_metrics, "scale_out": np.full(len(window), 1e6)}
    )
    loop.minute(2)
    loop.rig.source.change = None
    loop.minute(20)
    assert loop.scrape()("rejected_samples_total", stream_job="orders", metric="scale_out") == 48.0

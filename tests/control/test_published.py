"""What is published: the same from any process, each tick and fault counted once, every metric that the page lists."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from perdix.control.explain_text import _planned
from perdix.control.fleet import _retrains
from perdix.control.fleet_report import LoopFault
from perdix.control.job_files import FollowedFiles
from perdix.control.operators.naming import on_record
from perdix.control.publish.metrics import PublishedCollector, TickCounts, registry_of
from perdix.control.publish.names import BUDGET_LEFT, METRICS, Shown
from perdix.control.publish.standing import PublishedState
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.store import StateStore
from perdix.models.drift import POOR_TICKS, DriftState
from perdix.policies.contract import Reason
from perdix.policies.dataflow.contract import DataflowDecision, DataflowSituation
from perdix.policies.dataflow.holding import hold
from perdix.policies.planning.budget import MEMORY_S
from perdix.settings.durations import DAY_S
from perdix.settings.stream_job import Objectives, PolicySettings
from perdix.targets.advisory import AdvisoryTarget
from perdix.targets.contract import Fault, TargetError
from tests.control.operators_rig import Job, Wishes, acting, looking
from tests.control.published import ADVISED, NOW_S, Loop, a_status, an_intent, scrape
from tests.control.rig import HIGH, LOW, Rig, champion, constant
from tests.deploy.promql import promtool

DOCS = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


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
    (newest,) = store.journal.open_retrains()
    assert newest.run_key.endswith(":1"), "of the third day"
    store.journal.close_retrain(newest.run_key, at_s)
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
        rows = [Tick(at_s, at_s + 1.0, "a", {}) for at_s in (NOW_S + 86_400.0, now_s) if at_s > ticks.since_s]
        ticks.take(rows, now_s)
    assert ticks.outcomes["empty"] == 2, "but for that of the first look back"


def test_what_was_seen_before_the_clock_was_set_back_is_not_published_as_seen_now(
    store: StateStore, tmp_path: Path
) -> None:
    loop = Loop.of(store, tmp_path, 15_000.0)
    an_intent(store, loop.clock.now_s() + 5 * 3_600.0, "orders", 6)  # of 1,000 records/s
    loop.minute(2)
    assert loop.scrape()("workload_records_per_second", stream_job="orders") == pytest.approx(15_000.0, rel=0.1)


def test_no_tick_is_counted_twice_where_the_clock_is_set_back() -> None:
    ticks, kept = TickCounts(since_s=NOW_S), list[Tick]()

    def minute(at_s: float) -> float:
        kept.append(Tick(at_s, at_s + 1.0, "a", {"faults": ["journal"]}))
        ticks.take([row for row in kept if row.started_s > ticks.since_s], at_s + 5.0)
        return ticks.outcomes["empty"]

    assert [minute(NOW_S + 60.0 * number) for number in range(1, 101)][-1] == 100
    back_s = NOW_S + 2_407.0
    assert [minute(back_s + 60.0 * number) for number in range(100)] == [100, *range(102, 201)]
    assert ticks.faults["journal"] == 200


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


def test_what_is_counted_and_wished_stays_while_perdix_fails_on_a_job(store: StateStore, tmp_path: Path) -> None:
    loop = Loop.of(store, tmp_path)
    loop.minute()
    now_s = loop.clock.now_s()
    an_intent(store, now_s, "orders", 8)
    store.ledger.withdraw("orders", now_s, "others have scaled it to 6")
    a_status(store, now_s, "orders", scale_out=6, rejected={"cpu_load": 3}, wape=0.1)
    loop.clock.advance(60.0)
    broken = JobStatus("orders", Status.BROKEN, loop.clock.now_s(), "ValueError: a defect")
    store.journal.record_tick(Tick(loop.clock.now_s(), loop.clock.now_s(), "a", {}), [broken])
    found = loop.scrape()
    assert found.label("status_info", "status") == "broken"
    assert found("rejected_samples_total", stream_job="orders", metric="cpu_load") == 3.0
    assert found("desired_scale_out", stream_job="orders") == 6.0
    assert not {"perdix_current_scale_out", "perdix_forecast_wape_ratio", "perdix_decision_info"} & found.names()

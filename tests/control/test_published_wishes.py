"""What is published as wanted: never a scale-in for want of metrics, never a stale number."""

from dataclasses import replace
from pathlib import Path

import pytest

from perdix.control import tick
from perdix.control.freshness import Freshness
from perdix.control.operators.naming import on_record
from perdix.control.publish.names import METRICS, Shown
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.stream_job import PolicySettings
from perdix.targets.advisory import AdvisoryTarget
from perdix.targets.contract import TargetError
from tests.control.operators_rig import Job, Refusing, Wishes, acting, looking
from tests.control.published import ADVISED, Loop
from tests.control.rig import HIGH, LOW, Rig


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


@pytest.mark.parametrize(("interval_s", "fresh_s"), [(60.0, 900.0), (3_600.0, 7_200.0)])
def test_a_wish_is_fresh_until_the_tick_after_the_next(store: StateStore, interval_s: float, fresh_s: float) -> None:
    rig = Rig.of(store, LOW, scale_out=2)
    tick.tick(rig.job, replace(rig.io, tick_interval_s=interval_s), rig.now_s)
    made = store.ledger.decisions("orders", limit=1)[0].intent
    assert made.valid_until_s == rig.now_s + fresh_s


@pytest.mark.parametrize(("interval_s", "fresh_s"), [(30.0, 900.0), (1_200.0, 2_400.0)])
def test_a_wish_for_operators_is_fresh_until_the_look_after_the_next(
    store: StateStore, interval_s: float, fresh_s: float
) -> None:
    job = Refusing(150.0)
    executor = replace(acting(job, store), interval_s=interval_s)
    looks = looking(job, Wishes({"count": 2}), interval_s=interval_s, carry_out=executor.carry_out)
    assert next(looks).problem == "503: busy; tried again later"
    (decided,) = store.ledger.decisions(on_record("orders"))
    assert decided.intent.valid_until_s == decided.intent.made_s + fresh_s
    next(looks)
    assert job.keys == [decided.decision_id]  # the second try of the same decision


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

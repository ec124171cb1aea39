"""Ticks, statuses, pauses and retrain requests."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from perdix.control.state.journal import RETRAIN_EXPIRES_S, JobStatus, Status, Tick
from perdix.control.state.store import StateStore

NOW_S = 1_700_000_000.0  # 2023-11-14T22:13:20Z
HOUR_S = 3_600.0


def test_a_tick_keeps_the_status_of_every_job_and_since_when(store: StateStore) -> None:
    store.journal.record_tick(
        Tick(NOW_S, NOW_S + 0.4, "host:1", {"jobs": 2}),
        [JobStatus("a", Status.ACTING, NOW_S), JobStatus("b", Status.BLIND, NOW_S, "no samples")],
    )
    store.journal.record_tick(
        Tick(NOW_S + 60, NOW_S + 60.4, "host:1"),
        [
            JobStatus("a", Status.BLIND, NOW_S + 60, "stale", {"age_s": 95.0}),
            JobStatus("b", Status.BLIND, NOW_S + 60, "no samples"),
        ],
    )
    found = store.journal.statuses()
    assert list(found) == ["a", "b"]
    assert (found["a"].status, found["a"].since_s, found["a"].details) == (Status.BLIND, NOW_S + 60, {"age_s": 95.0})
    assert (found["b"].since_s, found["b"].updated_s, found["b"].sentence) == (NOW_S, NOW_S + 60, "no samples")
    assert [tick.started_s for tick in store.journal.ticks()] == [NOW_S + 60, NOW_S]
    assert store.journal.ticks(limit=5)[1].summary == {"jobs": 2}


def test_the_same_tick_recorded_twice_is_one(store: StateStore) -> None:
    for jobs in (1, 2):
        store.journal.record_tick(Tick(NOW_S, NOW_S + 1, "host:1", {"jobs": jobs}), [])
    assert [tick.summary for tick in store.journal.ticks()] == [{"jobs": 2}]


def test_controllers_that_journal_at_once_in_other_orders_wait_for_each_other_and_no_longer(store: StateStore) -> None:
    jobs = [JobStatus(f"job-{number}", Status.BROKEN, NOW_S) for number in range(60)]

    def journal(holder: str, seen: list[JobStatus]) -> None:
        for number in range(40):
            store.journal.record_tick(Tick(NOW_S + number, NOW_S + number, holder), seen)

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(journal, "host:1", jobs), pool.submit(journal, "host:2", jobs[::-1])]:
            done.result()  # PostgreSQL ends a transaction of those that wait for each other's rows


def test_a_pause_ends_by_itself_survives_a_restart_and_can_be_replaced(store: StateStore, state_url: str) -> None:
    store.journal.pause("wordcount", NOW_S + 600, NOW_S, "deployment")
    store.journal.pause("wordcount", NOW_S + 1_200, NOW_S + 10, "longer deployment")
    again = StateStore(state_url)
    assert again.journal.pauses(NOW_S + 1_199)["wordcount"].why == "longer deployment"
    assert again.journal.pauses(NOW_S + 1_200) == {}
    assert again.journal.resume("wordcount")
    assert not again.journal.resume("wordcount")
    assert store.journal.pauses(NOW_S) == {}
    again.close()


def test_a_pause_that_has_already_ended_is_refused(store: StateStore) -> None:
    with pytest.raises(ValueError, match="must end in the future"):
        store.journal.pause("wordcount", NOW_S, NOW_S)


def test_a_retrain_is_requested_once_until_it_is_answered(store: StateStore) -> None:
    ask = store.journal.request_retrain
    assert ask("wordcount", NOW_S, "WAPE 31 %") == "wordcount:2023-11-14:1"
    assert ask("wordcount", NOW_S + 60, "WAPE 32 %") is None, "one is open"
    assert ask("wordcount", NOW_S + RETRAIN_EXPIRES_S - 60, "WAPE 32 %") is None, "still open, for six hours"
    assert ask("ysb", NOW_S + 61, "WAPE 40 %") == "ysb:2023-11-14:1"
    assert [item.run_key for item in store.journal.open_retrains()] == [
        "wordcount:2023-11-14:1",
        "ysb:2023-11-14:1",
    ]
    assert store.journal.close_retrain("wordcount:2023-11-14:1", NOW_S + 300)
    assert not store.journal.close_retrain("wordcount:2023-11-14:1", NOW_S + 300)
    assert [item.job for item in store.journal.open_retrains()] == ["ysb"]


def test_when_a_drift_began_is_known_also_after_it_was_answered(store: StateStore) -> None:
    for day in (0.0, 1.0):
        at_s = NOW_S + 24 * day * HOUR_S
        key = store.journal.request_retrain("wordcount", at_s, "poor", since_s=at_s - 900)
        assert store.journal.open_retrains()[0].since_s == at_s - 900
        assert key
        store.journal.close_retrain(key, at_s)
    store.journal.request_retrain("ysb", NOW_S, "poor")
    assert store.journal.drifts(NOW_S + 25 * HOUR_S) == {"wordcount": NOW_S + 24 * HOUR_S - 900}


def test_retrains_cool_down_get_a_new_key_and_run_out_for_the_day(store: StateStore) -> None:
    midnight_s = NOW_S - 22 * HOUR_S

    def ask(hour: float) -> str | None:
        now_s = midnight_s + hour * HOUR_S
        key = store.journal.request_retrain("w", now_s, "poor", cooldown_s=HOUR_S, most_per_day=2)
        if key:
            store.journal.close_retrain(key, now_s + 60)
        return key

    assert ask(1) == "w:2023-11-14:1"
    assert ask(1.9) is None, "within the cool-down"
    assert ask(2) == "w:2023-11-14:2"
    assert ask(5) is None, "the day's are used up"
    assert ask(24) == "w:2023-11-15:1"


def test_pruning_forgets_the_old_and_keeps_what_is_open(store: StateStore) -> None:
    for at_s in (NOW_S, NOW_S + HOUR_S):
        store.journal.record_tick(Tick(at_s, at_s, "h"), [JobStatus(f"job at {at_s}", Status.ACTING, at_s)])
    store.journal.request_retrain("w", NOW_S, "poor")
    store.journal.pause("w", NOW_S + 60, NOW_S)
    store.journal.pause("x", NOW_S + 9 * HOUR_S, NOW_S)
    assert store.journal.prune(NOW_S + HOUR_S) == 3  # a tick, a status, a pause
    assert len(store.journal.ticks()) == 1
    assert list(store.journal.statuses()) == [f"job at {NOW_S + HOUR_S}"]
    assert len(store.journal.open_retrains()) == 1
    assert list(store.journal.pauses(NOW_S)) == ["x"]

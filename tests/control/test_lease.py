"""Of several controllers exactly one acts, and one that was overtaken writes nothing more."""

import itertools
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control.lease import Lease, StaleLease, acquire, holder_of, release, renew
from control.state import StateStore
from control.state_journal import Tick
from control.state_learned import Kind
from control.state_ledger import Intent

SPAWN = multiprocessing.get_context("spawn")


def intent(window_end_s: float = 0.0) -> Intent:
    return Intent("w", window_end_s, 0.0, 3, 5, "daedalus", "scale_out", "why", 900.0, {}, {})


def test_a_lease_is_held_by_one_until_it_expires_and_tokens_grow(store: StateStore) -> None:
    first = acquire(store, "controller", "a", now_s=0.0, ttl_s=55.0)
    assert first == Lease("controller", "a", 1, 55.0)
    assert acquire(store, "controller", "b", now_s=54.9, ttl_s=55.0) is None
    assert acquire(store, "controller", "a", now_s=54.9, ttl_s=55.0) is None, "not even by the same name"
    assert acquire(store, "another", "b", now_s=1.0, ttl_s=55.0) == Lease("another", "b", 1, 56.0)
    assert holder_of(store, "controller", 10.0) == first
    assert holder_of(store, "controller", 55.0) is None
    assert acquire(store, "controller", "b", now_s=55.0, ttl_s=55.0) == Lease("controller", "b", 2, 110.0)


def test_a_released_lease_is_free_at_once_and_its_token_never_returns(store: StateStore) -> None:
    first = acquire(store, "controller", "a", 0.0, 55.0)
    assert first is not None
    assert release(store, first)
    assert not release(store, first)
    assert holder_of(store, "controller", 1.0) is None
    second = acquire(store, "controller", "b", 1.0, 55.0)
    assert second is not None
    assert second.token == 2


def test_renewing_extends_and_is_refused_to_one_that_was_overtaken(store: StateStore) -> None:
    first = acquire(store, "controller", "a", 0.0, 55.0)
    assert first is not None
    renewed = renew(store, first, 50.0, 55.0)
    assert (renewed.token, renewed.expires_s) == (1, 105.0)
    assert acquire(store, "controller", "b", 60.0, 55.0) is None
    late = renew(store, renewed, 200.0, 55.0)
    assert late.expires_s == 255.0, "expired, but nobody had taken it"
    assert acquire(store, "controller", "b", 300.0, 55.0) is not None
    with pytest.raises(StaleLease, match="overtaken or released"):
        renew(store, late, 301.0, 55.0)
    assert not release(store, late), "a late release must not take the lease from its new holder"


def test_every_write_of_a_stale_holder_is_refused_and_leaves_nothing(store: StateStore) -> None:
    first = acquire(store, "controller", "a", 0.0, 55.0)
    assert first is not None
    stale = store.under(first)
    assert stale.ledger.record(intent()), "still the newest"
    second = acquire(store, "controller", "b", 60.0, 55.0)
    assert second is not None
    key = intent().decision_id
    for write in (
        lambda: stale.ledger.record(intent(60.0)),
        lambda: stale.ledger.applied(key, 61.0),
        lambda: stale.ledger.withdraw("w", 61.0, "x"),
        lambda: stale.learned.learn("w", 61.0, {Kind("k"): {"a": 1}}),
        lambda: stale.journal.record_tick(Tick(61.0, 62.0, "a"), []),
        lambda: stale.journal.request_retrain("w", 61.0, "x"),
        lambda: stale.prune(1e12),
        lambda: stale.together().__enter__(),
    ):
        with pytest.raises(StaleLease):
            write()
    assert [entry.decision_id for entry in store.ledger.decisions()] == [key]
    assert stale.ledger.desired("w") is not None, "reading stays allowed: the other one only observes"
    assert store.under(second).ledger.applied(key, 62.0)


def test_a_holder_that_released_writes_nothing_more(store: StateStore) -> None:
    lease = acquire(store, "controller", "a", 0.0, 55.0)
    assert lease is not None
    release(store, lease)
    with pytest.raises(StaleLease):
        store.under(lease).ledger.record(intent())


def test_a_lease_overtaken_between_two_writes_stops_the_second(store: StateStore) -> None:
    lease = acquire(store, "controller", "a", 0.0, 55.0)
    assert lease is not None
    fenced = store.under(lease)
    fenced.ledger.record(intent())
    assert acquire(store, "controller", "b", 100.0, 55.0) is not None
    with pytest.raises(StaleLease):
        fenced.ledger.applied(intent().decision_id, 101.0)
    entry = store.ledger.decision(intent().decision_id)
    assert entry is not None
    assert entry.applied_s is None


@pytest.mark.parametrize("ttl_s", [0.0, -1.0])
def test_a_lease_without_a_life_is_refused(store: StateStore, ttl_s: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        acquire(store, "controller", "a", 0.0, ttl_s)


@pytest.mark.parametrize("held_before", [False, True])
def test_of_many_threads_exactly_one_wins_each_round(store: StateStore, held_before: bool) -> None:
    threads = 6
    if held_before:
        assert acquire(store, "controller", "before", -100.0, 55.0) is not None
    start = threading.Barrier(threads)

    def race(number: int) -> list[Lease | None]:
        won = []
        for turn in range(10):
            start.wait()
            won.append(acquire(store, "controller", f"thread {number}", turn * 60.0, 55.0))
        return won

    with ThreadPoolExecutor(threads) as pool:
        turns = list(zip(*pool.map(race, range(threads)), strict=True))
    winners = [[lease for lease in turn if lease is not None] for turn in turns]
    assert [len(turn) for turn in winners] == [1] * 10
    tokens = [turn[0].token for turn in winners]
    assert tokens == list(range(tokens[0], tokens[0] + 10))


def race_in_a_process(url: str, number: int, results: "multiprocessing.Queue[tuple[int, int]]") -> None:
    store = StateStore(url)
    for turn in range(40):
        lease = acquire(store, "controller", f"process {number}", turn * 60.0, 55.0)
        if lease is not None:
            results.put((turn, lease.token))
    store.close()


def test_of_several_processes_no_two_hold_the_same_token(state_url: str) -> None:
    results = SPAWN.Queue()
    processes = [SPAWN.Process(target=race_in_a_process, args=(state_url, number, results)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(180)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    won = []
    while not results.empty():
        won.append(results.get())
    # A slower process finds a turn taken, or one whose lease already belongs to a later turn: never a second winner.
    assert len({turn for turn, _ in won}) == len(won)
    assert sorted(token for _, token in won) == list(range(1, len(won) + 1))
    assert [token for _, token in sorted(won)] == sorted(token for _, token in won)
    assert max(turn for turn, _ in won) == 39


example = itertools.count()
steps = st.lists(
    st.tuples(st.sampled_from(["acquire", "release", "renew", "write", "wait"]), st.integers(0, 2)), max_size=40
)


@given(steps)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_order_only_the_newest_holder_writes(store: StateStore, steps: list[tuple[str, int]]) -> None:
    name = f"lease {next(example)}"
    now_s, newest, held = 0.0, 0, dict[int, Lease]()
    released: set[int] = set()
    for step, who in steps:
        now_s += 20.0
        if step == "acquire":
            lease = acquire(store, name, f"holder {who}", now_s, 55.0)
            if lease is not None:
                assert lease.token == newest + 1
                newest, held[who] = lease.token, lease
        elif step == "wait" or who not in held:
            now_s += 60.0
        elif held[who].token == newest and newest not in released:
            if step == "release":
                assert release(store, held[who])
                released.add(newest)
            elif step == "renew":
                held[who] = renew(store, held[who], now_s, 55.0)
            else:
                store.under(held[who]).learned.learn("w", now_s, {Kind("k"): {"by": who}})
        else:
            with pytest.raises(StaleLease):
                store.under(held[who]).learned.learn("w", now_s, {Kind("k"): {"by": who}})

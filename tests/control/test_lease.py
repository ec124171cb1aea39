"""Of several controllers exactly one acts, and one that was overtaken writes nothing more."""

import itertools
import multiprocessing
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.control.clock import Moment, WallClock
from perdix.control.lease import Lease, StaleLease, acquire, holder_of, release, renew
from perdix.control.state.journal import Tick
from perdix.control.state.learned import Kind
from perdix.control.state.ledger import Intent
from perdix.control.state.schema import lease_watches, leases
from perdix.control.state.store import StateStore

BOOT = "kernel:one"
SPAWN = multiprocessing.get_context("spawn")


def at(elapsed_s: float, boot: str = BOOT, *, clock_is_off_by_s: float = 0.0) -> Moment:
    return Moment(1_700_000_000.0 + elapsed_s + clock_is_off_by_s, elapsed_s, boot)


def intent(window_end_s: float = 0.0) -> Intent:
    return Intent("w", window_end_s, 0.0, 3, 5, "daedalus", "scale_out", "why", 900.0, {}, {})


def test_a_lease_is_held_by_one_until_it_expires_and_tokens_grow(store: StateStore) -> None:
    first = acquire(store, "controller", "a", at(0.0), 55.0)
    assert first == Lease("controller", "a", 1, 55.0, BOOT)
    assert acquire(store, "controller", "b", at(54.9), 55.0) is None
    assert acquire(store, "controller", "a", at(54.9), 55.0) is None, "not even by the same name"
    assert acquire(store, "another", "b", at(1.0), 55.0) == Lease("another", "b", 1, 56.0, BOOT)
    assert holder_of(store, "controller", at(10.0)) == first
    assert holder_of(store, "controller", at(55.0)) is None
    assert acquire(store, "controller", "b", at(55.0), 55.0) == Lease("controller", "b", 2, 110.0, BOOT)


def test_a_released_lease_is_free_at_once_and_its_token_never_returns(store: StateStore) -> None:
    first = acquire(store, "controller", "a", at(0.0), 55.0)
    assert first is not None
    assert release(store, first)
    assert not release(store, first)
    assert holder_of(store, "controller", at(1.0)) is None
    second = acquire(store, "controller", "b", at(1.0), 55.0)
    assert second is not None
    assert second.token == 2


def test_renewing_extends_and_is_refused_to_one_that_was_overtaken(store: StateStore) -> None:
    first = acquire(store, "controller", "a", at(0.0), 55.0)
    assert first is not None
    renewed = renew(store, first, at(50.0), 55.0)
    assert (renewed.token, renewed.deadline_s) == (1, 105.0)
    assert acquire(store, "controller", "b", at(60.0), 55.0) is None
    late = renew(store, renewed, at(200.0), 55.0)
    assert late.deadline_s == 255.0, "expired, but nobody had taken it"
    assert acquire(store, "controller", "b", at(300.0), 55.0) is not None
    with pytest.raises(StaleLease, match="overtaken or released"):
        renew(store, late, at(301.0), 55.0)
    assert not release(store, late), "a late release must not take the lease from its new holder"


def test_every_write_of_a_stale_holder_is_refused_and_leaves_nothing(store: StateStore) -> None:
    first = acquire(store, "controller", "a", at(0.0), 55.0)
    assert first is not None
    stale = store.under(first)
    assert stale.ledger.record(intent()), "still the newest"
    second = acquire(store, "controller", "b", at(60.0), 55.0)
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
    lease = acquire(store, "controller", "a", at(0.0), 55.0)
    assert lease is not None
    release(store, lease)
    with pytest.raises(StaleLease):
        store.under(lease).ledger.record(intent())


def test_a_lease_overtaken_between_two_writes_stops_the_second(store: StateStore) -> None:
    lease = acquire(store, "controller", "a", at(0.0), 55.0)
    assert lease is not None
    fenced = store.under(lease)
    fenced.ledger.record(intent())
    assert acquire(store, "controller", "b", at(100.0), 55.0) is not None
    with pytest.raises(StaleLease):
        fenced.ledger.applied(intent().decision_id, 101.0)
    entry = store.ledger.decision(intent().decision_id)
    assert entry is not None
    assert entry.applied_s is None


@pytest.mark.parametrize("ttl_s", [0.0, -1.0])
def test_a_lease_without_a_life_is_refused(store: StateStore, ttl_s: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        acquire(store, "controller", "a", at(0.0), ttl_s)


@pytest.mark.parametrize("held_before", [False, True])
def test_of_many_threads_exactly_one_wins_each_round(store: StateStore, held_before: bool) -> None:
    threads = 6
    if held_before:
        assert acquire(store, "controller", "before", at(-100.0), 55.0) is not None
    start = threading.Barrier(threads)

    def race(number: int) -> list[Lease | None]:
        won = []
        for turn in range(10):
            start.wait()
            won.append(acquire(store, "controller", f"thread {number}", at(turn * 60.0), 55.0))
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
        lease = acquire(store, "controller", f"process {number}", at(turn * 60.0), 55.0)
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
acts = st.sampled_from(["acquire", "acquire", "acquire", "release", "renew", "write", "wait"])


@pytest.mark.hypothesis
def test_whatever_the_order_only_the_newest_holder_writes(store: StateStore) -> None:
    met = Counter[str]()

    @given(st.lists(st.tuples(acts, st.integers(0, 1)), min_size=20, max_size=60))
    @settings(max_examples=25, deadline=None)
    def whatever_the_order(steps: list[tuple[str, int]]) -> None:
        name = f"lease {next(example)}"
        now_s, newest, held = 0.0, 0, dict[int, Lease]()
        released: set[int] = set()
        for step, who in steps:
            now_s += 20.0
            if step == "acquire":
                lease = acquire(store, name, f"holder {who}", at(now_s), 55.0)
                if lease is not None:
                    assert lease.token == newest + 1
                    newest, held[who] = lease.token, lease
            elif step == "wait" or who not in held:
                now_s += 60.0
            elif held[who].token == newest and newest not in released:
                met[step] += 1
                if step == "release":
                    assert release(store, held[who])
                    released.add(newest)
                elif step == "renew":
                    held[who] = renew(store, held[who], at(now_s), 55.0)
                else:
                    store.under(held[who]).learned.learn("w", now_s, {Kind("k"): {"by": who}})
            else:
                met["late"] += 1
                with pytest.raises(StaleLease):
                    store.under(held[who]).learned.learn("w", now_s, {Kind("k"): {"by": who}})

    whatever_the_order()
    assert met.keys() == {"release", "renew", "write", "late"}, met


# ---- clocks that are set ---------------------------------------------------------------------------------------------

STEPS_S = [-86_400.0, -3_600.0, -30.0, 30.0, 86_400.0]


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_clock_that_is_set_neither_shortens_nor_lengthens_a_lease(store: StateStore, step_s: float) -> None:
    assert acquire(store, "controller", "a", at(0.0), 55.0) is not None
    assert acquire(store, "controller", "b", at(54.9, clock_is_off_by_s=step_s), 55.0) is None
    assert acquire(store, "controller", "b", at(55.0, clock_is_off_by_s=step_s), 55.0) is not None


@pytest.fixture
def shared(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> StateStore:
    """A store that several machines share, as only PostgreSQL can be."""
    monkeypatch.setattr("perdix.control.state.schema.Database.one_machine", False)
    return store


@pytest.mark.parametrize("step_s", STEPS_S)
def test_another_machine_takes_over_once_it_has_seen_no_renewal_for_as_long_as_the_lease_lasts(
    shared: StateStore, step_s: float
) -> None:
    assert acquire(shared, "controller", "a", at(1_000.0), 55.0) is not None

    def tried(elapsed_s: float) -> Lease | None:
        return acquire(shared, "controller", "b", at(elapsed_s, "kernel:two", clock_is_off_by_s=step_s), 55.0)

    assert tried(7.0) is None, "seen for the first time"
    assert tried(61.9) is None
    taken = tried(62.0)
    assert taken is not None
    assert taken.token == 2


def test_a_renewal_begins_the_watch_anew(shared: StateStore) -> None:
    first = acquire(shared, "controller", "a", at(0.0), 55.0)
    assert first is not None
    assert acquire(shared, "controller", "b", at(0.0, "kernel:two"), 55.0) is None
    renew(shared, first, at(50.0), 55.0)
    assert acquire(shared, "controller", "b", at(60.0, "kernel:two"), 55.0) is None
    assert acquire(shared, "controller", "b", at(114.0, "kernel:two"), 55.0) is None
    assert acquire(shared, "controller", "b", at(115.0, "kernel:two"), 55.0) is not None


def test_each_machine_watches_for_itself_and_a_single_tick_goes_on_where_the_last_one_of_its_machine_was(
    shared: StateStore, state_url: str
) -> None:
    assert acquire(shared, "controller", "a", at(0.0), 55.0) is not None
    for boot in ("kernel:two", "kernel:three"):
        assert acquire(shared, "controller", "b", at(0.0, boot), 55.0) is None
    process = StateStore(state_url)  # of its own: perdix tick in a crontab
    assert acquire(process, "controller", "c", at(55.0, "kernel:three"), 55.0) is not None
    process.close()
    assert acquire(shared, "controller", "b", at(56.0, "kernel:two"), 55.0) is None, "of the new holder it is the first"


def test_watches_of_machines_that_are_gone_are_forgotten(shared: StateStore) -> None:
    def watched() -> set[str]:
        with shared.database.reading() as connection:
            return set(connection.execute(sa.select(lease_watches.c.boot)).scalars())

    for day in range(3):
        assert acquire(shared, "controller", "a", at(60.0 * day), 55.0) is not None
        assert acquire(shared, "controller", "b", at(10.0, f"kernel:{day}"), 55.0) is None
    assert watched() == {"kernel:0", "kernel:1", "kernel:2"}
    shared.prune(at(180.0).wall_s)
    assert watched() == {"kernel:2"}, "that of the present round goes on"
    assert acquire(shared, "controller", "b", at(65.0, "kernel:2"), 55.0) is not None


def test_after_a_reboot_nobody_waits_for_a_holder_that_cannot_be_alive(tmp_path: Path) -> None:
    store = StateStore(f"sqlite:///{tmp_path / 'state.db'}")
    assert acquire(store, "controller", "a", at(9_000.0), 55.0) is not None
    assert acquire(store, "controller", "b", at(3.0, "kernel:two"), 55.0) is not None
    store.close()


def test_a_kernel_that_names_no_boot_proves_no_reboot(tmp_path: Path) -> None:
    store = StateStore(f"sqlite:///{tmp_path / 'state.db'}")
    assert acquire(store, "controller", "a", at(9_000.0, "process:one"), 55.0) is not None
    assert acquire(store, "controller", "b", at(3.0, "process:two"), 55.0) is None
    assert acquire(store, "controller", "b", at(58.0, "process:two"), 55.0) is not None
    store.close()


def test_a_lease_of_an_older_perdix_is_watched_for_a_minute(store: StateStore) -> None:
    assert acquire(store, "controller", "a", at(0.0), 55.0) is not None
    unknown = dict.fromkeys(("boot", "deadline_s", "ttl_s", "renewals"))
    with store.database.writing() as connection:
        connection.execute(leases.update().values(**unknown))
    assert acquire(store, "controller", "b", at(0.0), 55.0) is None
    assert acquire(store, "controller", "b", at(59.0), 55.0) is None
    assert acquire(store, "controller", "b", at(60.0), 55.0) is not None


def test_the_machine_s_elapsed_time_is_that_of_every_process_on_it() -> None:
    clock = WallClock()
    before_s = clock.elapsed_s()
    asked = "from perdix.control.clock import WallClock; print(WallClock().boot, WallClock().elapsed_s())"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    boot, elapsed_s = said.rsplit(maxsplit=1)
    if not boot.startswith("process:"):
        assert boot == clock.boot
        assert before_s <= float(elapsed_s) <= clock.elapsed_s()

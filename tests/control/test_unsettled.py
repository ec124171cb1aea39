"""How long a target is not at what it was asked for, while perdix waits for nothing."""

import pytest

from perdix.control.job_memory import UNSETTLED, JobMemory, changed, recall
from perdix.control.reconcile import SETTLE_S, Progress
from perdix.control.state.ledger import Desired, Entry, Intent, State
from perdix.control.state.store import StateStore
from perdix.control.unsettled import Unsettled
from perdix.settings.stored import restored
from perdix.targets.contract import Running

SHORT = Running(5, 6, settled=False)


def an_open_decision(reason="scale_out", state=State.APPLIED):
    intent = Intent("orders", 0.0, 0.0, 5, 6, "static", reason, "so it is", 900.0, {}, {})
    return Desired("orders", 6, 0.0, Entry("d", intent, state))


def after(*reviews, interval_s=60.0):
    """Return what is remembered after (seconds, what runs), and the last review as it counts."""
    unsettled, counted = Unsettled(), None
    for at_s, running in reviews:
        progress = running if isinstance(running, Progress) else Progress(running)
        unsettled = restored(Unsettled, unsettled.to_state()) if unsettled.to_state() else unsettled
        unsettled = unsettled.seen(progress, at_s, interval_s)
        counted = unsettled.taken_for_settled(progress)
    return unsettled, counted


def test_what_runs_counts_once_it_has_lasted_for_longer_than_a_rescale_may():
    _, counted = after((0.0, SHORT), (SETTLE_S, SHORT))
    assert counted.running == SHORT
    _, counted = after((0.0, SHORT), (SETTLE_S, SHORT), (SETTLE_S + 1.0, SHORT))
    assert counted.running == Running(5, 6, settled=True)
    assert counted.sentence == "asked for 6 workers, got 5 workers for 601 s; perdix goes on from there"


def test_more_than_is_asked_for_counts_too():
    _, counted = after((0.0, Running(6, 5, settled=False)), (601.0, Running(6, 5, settled=False)))
    assert counted.running == Running(6, 5, settled=True)


@pytest.mark.parametrize(
    ("between", "since_s"),
    [
        ((300.0, Running(6, 6, settled=True)), 590.0),
        ((300.0, Running(5, 7, settled=False)), 590.0),
        ((300.0, Progress(SHORT, an_open_decision())), 590.0),
        ((-60.0, SHORT), -60.0),
    ],
    ids=["settled", "other request", "decision open", "clock set back"],
)
def test_it_is_waited_anew(between, since_s):
    unsettled, _ = after((0.0, SHORT), between, (590.0, SHORT))
    assert unsettled == Unsettled(6, since_s, 590.0)


def test_a_rollback_that_stays_short_of_what_it_asked_for_counts():
    short = Progress(SHORT, an_open_decision("rollback"))
    assert after((0.0, short), (601.0, short))[1].running.settled


@pytest.mark.parametrize(
    ("running", "reason", "state"),
    [
        (SHORT, "scale_out", State.APPLIED),
        (SHORT, "rollback", State.INTENT),
        (Running(7, 6, settled=False), "rollback", State.APPLIED),
    ],
    ids=["no rollback", "refused", "more run"],
)
def test_no_other_open_decision_does(running, reason, state):
    progress = Progress(running, an_open_decision(reason, state))
    assert not after((0.0, progress), (601.0, progress))[1].running.settled


@pytest.mark.parametrize("running", [Running(6, 6, settled=False), Running(0, 6, settled=False)])
def test_what_restarts_or_is_replaced_as_a_whole_never_counts(running):
    unsettled, counted = after(*((60.0 * minute, running) for minute in range(60)))
    assert (unsettled, counted.running.settled) == (Unsettled(), False)


def test_a_target_that_cannot_be_read_changes_nothing_and_one_that_nobody_looked_at_is_waited_for_anew():
    assert after((0.0, SHORT), (300.0, None), (601.0, SHORT))[1].running.settled
    assert not after((0.0, SHORT), (3_600.0, SHORT))[1].running.settled
    assert after((0.0, SHORT), (3_600.0, SHORT), interval_s=3_600.0)[1].running.settled


def test_it_is_stored_while_there_is_something_to_remember(tmp_path):
    store = StateStore(f"sqlite:///{tmp_path / 'state.db'}")
    assert UNSETTLED not in changed("orders", JobMemory(), {})
    memory = JobMemory(unsettled=Unsettled(6, 1.0, 2.0))
    store.learned.learn("orders", 2.0, changed("orders", memory, {}))
    found = recall(store, "orders")
    assert found.memory.unsettled == memory.unsettled
    assert changed("orders", JobMemory(), found.documents)[UNSETTLED] == {}
    store.close()

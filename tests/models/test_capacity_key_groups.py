"""What the subtasks of some scale-outs tell of the key groups, and these of scale-outs that never ran."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdix.control.state.schema import to_text
from perdix.models.capacity.key_groups import GROUPS, KeyGroups, Subtasks, begins
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.telemetry.window import Window
from perdix.twin.physics import key_group_loads, key_group_shares
from tests.models.capacity_stays import IDLE, STEP_S

NOISE = 0.02  # relative sd of a measured share


def loads_of(seed):
    """Keys of a stranger's job on 128 key groups: 200 to 160,000 of them, even to Zipf 1.1."""
    rng = np.random.default_rng([7, seed])
    return key_group_loads(GROUPS, int(10 ** rng.uniform(2.3, 5.2)), rng.uniform(0.0, 1.1), rng)


def shares_at(loads, scale_out):
    return key_group_shares(loads, scale_out, 1.0)


def after(loads, sizes, seed=0):
    rng, known = np.random.default_rng([8, seed]), KeyGroups()
    for n in sizes:
        shares = shares_at(loads, n) * np.exp(rng.normal(0.0, NOISE, n))
        known = known.after(n, shares, judged=True)
    return known


def tried(known, loads, most):
    """Return how far the logarithm of the hottest share is off at each scale-out that never ran, and in its sds."""
    logs, variances = known.hottest(most)
    sizes = np.array([n for n in range(1, most + 1) if n not in known.seen])
    off = logs[sizes - 1] - np.log([shares_at(loads, n).max() for n in sizes])
    return off, off / np.sqrt(variances[sizes - 1] + NOISE**2)


def drawn(count, seed=0):
    rng = np.random.default_rng([9, seed])
    for number in range(60):
        most = int(rng.integers(8, 60))
        yield loads_of(number), most, rng.choice(np.arange(2, most + 1), size=count, replace=False).tolist()


def test_the_hottest_subtask_of_other_scale_outs_is_foreseen_after_three():
    """The figure that is asked for: within 8 %. That work is shared evenly is off by 30 % and more."""
    off = np.concatenate([tried(after(loads, sizes), loads, most)[0] for loads, most, sizes in drawn(3)])
    assert np.median(np.abs(off)) < 0.04
    assert np.mean(np.abs(off) < 0.08) > 0.75


@pytest.mark.parametrize("count", [1, 2, 4])
def test_how_well_that_is_known_is_known(count):
    sds = np.concatenate([tried(after(loads, sizes), loads, most)[1] for loads, most, sizes in drawn(count)])
    assert 0.85 < np.mean(np.abs(sds) < 1.645) < 0.99


def test_key_groups_are_told_from_keys_that_are_dealt_anew():
    rng, likely, unlikely = np.random.default_rng(1), [], []
    for loads, _, sizes in drawn(4):
        likely.append(after(loads, sizes).likely)
        anew = KeyGroups()
        for n in sizes:
            anew = anew.after(n, np.exp(rng.normal(0.0, 0.12, n)), judged=True)
        unlikely.append(anew.likely)
    assert np.mean(np.array(likely) > 0.9) > 0.75
    assert np.mean(np.array(unlikely) < 0.1) > 0.75
    assert np.mean(np.array(unlikely) > 0.9) < 0.05


def test_the_same_scale_out_again_speaks_against_key_groups_and_never_for_them():
    """Zoo 59001-3: hosts that were slow at 28 workers were so again, and what that said of 21 was wrong."""
    loads = loads_of(3)
    once = after(loads, [6])
    assert once.likely < 0.3
    assert once.after(6, shares_at(loads, 6), judged=True).likely == once.likely
    assert once.after(6, shares_at(loads, 6)[::-1], judged=True).likely < 0.1
    assert once.after(6, shares_at(loads, 6)[::-1], judged=False).likely == once.likely


def test_shares_that_belong_to_a_scale_out_are_not_taken_for_key_groups():
    unlikely = []
    for number, (_, _, sizes) in enumerate(drawn(4)):
        known = KeyGroups()
        for n in sizes * 3:
            own = np.exp(np.random.default_rng([number, n]).normal(0.0, 0.12, n))
            known = known.after(n, own, judged=True)
        unlikely.append(known.likely)
    assert np.mean(np.array(unlikely) < 0.1) > 0.75
    assert np.mean(np.array(unlikely) > 0.5) < 0.1


def test_what_was_seen_is_foreseen_as_it_was():
    loads = loads_of(5)
    logs, _ = after(loads, [4, 9, 30]).hottest(30)
    for n in (4, 9, 30):
        assert np.exp(logs[n - 1]) == pytest.approx(shares_at(loads, n).max(), rel=0.05)


def test_ranges_are_those_of_flink():
    """``KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex``: 128 groups over 3 subtasks."""
    assert begins(3, 128).tolist() == [0, 43, 86]
    assert begins(5, 4).tolist() == [0, 1, 2, 3, 4]


@given(st.integers(1, GROUPS), st.lists(st.floats(0.0, 1e300), min_size=GROUPS, max_size=GROUPS))
@example(1, [0.0] * GROUPS)
@example(GROUPS, [1e300] * GROUPS)
@example(2, [1e300, 0.0] * (GROUPS // 2))
def test_whatever_subtasks_did_every_scale_out_has_a_hottest_one(scale_out, work):
    known = KeyGroups().after(scale_out, np.array(work[:scale_out]), judged=True)
    known = known.after(3, np.array([0.2, 0.5, 0.3]), judged=True)
    logs, variances = known.hottest(200)
    assert len(logs) == len(variances) == GROUPS  # there is no work for more
    assert np.isfinite(logs).all()
    assert (logs <= 1e-9).all()
    assert (variances >= 0.0).all()
    assert 0.0 <= known.likely <= 1.0
    again = KeyGroups.from_state(json.loads(to_text(known.to_state())))
    assert list(again.seen) == list(known.seen)
    assert np.array_equal(again.hottest(12)[0], known.hottest(12)[0])


def test_which_sizes_ran_last_survives_a_store_that_sorts_keys():
    known = KeyGroups()
    for scale_out in (9, 10, 2):
        known = known.after(scale_out, np.linspace(1.0, 2.0, scale_out), judged=True)
    assert list(KeyGroups.from_state(json.loads(to_text(known.to_state()))).seen) == [9, 10, 2]


@pytest.mark.parametrize(
    "broken",
    [
        {"seen": {"2": [0.5]}},
        {"seen": {"2": [0.5, -0.5]}},
        {"seen": {"2": [0.0, 0.0]}},
        {"seen": {"0": []}},
        {"seen": {"2": [0.5, float("nan")]}},
        {"seen": {"200": [0.005] * 200}},
        {"count": 0},
        {"count": 10**9},
        {"log_odds": float("inf")},
    ],
)
def test_a_state_that_cannot_be_is_refused(broken):
    with pytest.raises(ValueError, match=r"subtasks|key groups"):
        KeyGroups.from_state({"seen": {}, "log_odds": 0.0, "count": GROUPS, **broken})


# -- in the model of a job's capacity --------------------------------------------------------------------------------

EACH = 10_000.0  # records/s that a worker takes
NAMES = tuple(f"tm-{number:02d}" for number in range(40))


def window(loads, scale_out, start_s, minutes=3):
    """Workers at 0.3 to 0.7 of the hottest one's capacity, each with what its key groups have."""
    times = start_s + STEP_S * np.arange(int(minutes * 60 / STEP_S))
    shares = shares_at(loads, scale_out)
    busy = (0.5 + 0.2 * np.sin(times / 300.0))[:, None] * shares / shares.max()
    rng = np.random.default_rng([scale_out, int(start_s)])
    cpu = IDLE + (1.0 - IDLE) * busy + rng.normal(0.0, 0.003, busy.shape)
    workers = NAMES[:scale_out]
    return Window("job", STEP_S, times, workers, {}, {"cpu_load": cpu, "throughput_per_s": EACH * busy}, times[-1])


def stays(loads, sizes, *, order=lambda names: names, told=True, minutes=25):
    model = ScaleOuts()
    for k, n in enumerate(sizes):
        subtasks = Subtasks(order(NAMES[:n])) if told else None
        for minute in range(minutes):
            model = model.update(window(loads, n, 10_000.0 * k + 60.0 * minute), n, subtasks)
    return model


def capacity(loads, scale_out):
    return EACH / shares_at(loads, scale_out).max()


HOT = loads_of(20)


def usually_off(model, sizes, most=24):
    table = model.table(most)
    others = [n for n in range(1, most + 1) if n not in sizes]
    return float(np.median([abs(np.log(table[n].per_s / capacity(HOT, n))) for n in others]))


def test_capacities_of_other_scale_outs_follow_the_key_groups():
    sizes = (20, 6, 13)
    with_groups, without = stays(HOT, sizes), stays(HOT, sizes, told=False)
    assert with_groups.groups.likely > 0.9
    assert usually_off(with_groups, sizes) < 0.6 * usually_off(without, sizes)
    table = with_groups.table(24)
    held = [table[n].low_per_s <= capacity(HOT, n) <= table[n].high_per_s for n in range(1, 25)]
    assert np.mean(held) > 0.85
    assert "by the loads of its key groups" in table[9].basis
    assert all(
        np.isfinite([estimate.per_s, estimate.low_per_s, estimate.high_per_s]).all() for estimate in table.values()
    )


def test_what_runs_is_measured_and_asks_for_no_key_groups():
    model = stays(HOT, (20, 6, 13))
    alone = replace(model, groups=KeyGroups.from_state(model.groups.to_state()))
    assert alone.capacity(13) == model.table(24)[13]
    assert "_loads" not in vars(alone.groups)
    assert alone.capacity(12) == model.table(24)[12]
    assert "_loads" in vars(alone.groups)


def test_more_workers_may_take_less_where_their_key_groups_are_known():
    sizes = (20, 6, 13)
    table = stays(HOT, sizes).table(24)
    true = [capacity(HOT, n) for n in range(1, 25)]
    falls = [n for n in range(1, 24) if true[n] < 0.93 * true[n - 1]]
    assert falls
    assert np.mean([table[n + 1].per_s < table[n].per_s for n in falls]) > 0.5


def test_workers_in_another_order_are_not_taken_for_key_groups():
    """Names that say nothing of the subtasks: what is foreseen does not come true, and is not counted on."""
    rng = np.random.default_rng(0)
    model = stays(HOT, (20, 6, 13, 9), order=lambda names: tuple(rng.permutation(names)))
    assert model.groups.likely < 0.2


def test_subtasks_that_metrics_do_not_name_teach_nothing():
    model = stays(HOT, (20, 6), order=lambda names: tuple(f"other-{name}" for name in names))
    assert not model.groups.seen
    assert model.table(24) == stays(HOT, (20, 6), told=False).table(24)


def test_subtasks_that_a_failure_moved_teach_nothing_more_of_that_stay():
    model = stays(HOT, (20,), minutes=6)
    moved = Subtasks(NAMES[:20][::-1])
    for minute in range(6, 60):
        model = model.update(window(HOT, 20, 60.0 * minute), 20, moved)
    assert model.groups == stays(HOT, (20,), minutes=6).groups
    assert stays(HOT, (20,), minutes=60).groups != model.groups


def test_what_was_learnt_of_key_groups_is_kept_and_another_program_forgets_it():
    model = stays(HOT, (20, 6))
    state = json.loads(json.dumps(model.to_state()))
    again = ScaleOuts.from_state(state)
    assert again.groups.likely == model.groups.likely
    assert again.dealt_minutes == model.dealt_minutes
    assert again.capacity(9).per_s == pytest.approx(model.capacity(9).per_s, rel=1e-9)
    assert not model._anew(model.workers, model.newest_s).groups.seen
    assert again.dealt_to == model.dealt_to, "a restart hides no failure after which subtasks are elsewhere"
    old = {key: value for key, value in state.items() if key != "groups"}
    assert not ScaleOuts.from_state(old).groups.seen

"""Champions that take over: at once, where the one before stood, and only when they can be used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import pytest

from perdix.control.adoption import adopt, caught_up
from perdix.control.champions import ChampionRow, FleetChampions, GivenChampions
from perdix.control.job_memory import CHAMPION, Adopted, JobMemory, changed, recall
from perdix.control.memories import Memories
from perdix.control.state.store import StateStore
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import FAMILIES
from perdix.models.forecasting.forecaster import Forecaster, fitted
from perdix.models.forecasting.seasonal_naive import LastValue
from perdix.models.forecasting.tail import Tail
from perdix.models.registry import CAPACITY, FORECAST
from perdix.telemetry.window import Values
from tests.control.rig import LOW, START_S, Rig, champion, champion_of, constant
from tests.models.capacity_stays import stay

WARM_S = 1_800


def state_of(made: Forecaster) -> str:
    return orjson.dumps(made.to_state()).decode()


def history(seconds: int, end_s: float, step_s: float = 1.0) -> Workload:
    count = round(seconds / step_s)
    rates = LOW + 500.0 * np.sin(np.arange(count) * step_s / 700.0)
    return Workload(end_s - count * step_s, step_s, rates)


def using(memory: JobMemory) -> Adopted:
    assert memory.champion is not None
    return memory.champion


# ---- picked up within one tick ------------------------------------------------------------------------------------


def test_a_new_champion_forecasts_in_the_tick_in_which_it_is_found(store: StateStore) -> None:
    rig = Rig.of(store, LOW, champions=champion(constant(LOW, 0.5), START_S + WARM_S))
    rig.minutes(3)
    rig.champions = champion(constant(LOW, 0.5), START_S + WARM_S, version=2, family="last-value")
    (report,) = rig.minutes(1)
    assert report.forecast is not None
    assert (report.forecast.family, report.forecast.version) == ("last-value", 2)


def test_it_is_judged_by_its_own_forecasts_only(store: StateStore) -> None:
    rig = Rig.of(store, LOW, champions=champion(constant(LOW, 0.5), START_S + WARM_S))
    rig.minutes(20)
    assert rig.reports[-1].wape is not None
    rig.champions = champion(constant(LOW, 0.5), START_S + WARM_S, version=2, family="last-value")
    first, second = rig.minutes(2)
    assert first.wape is None
    assert second.wape is not None
    rig.minutes(13)
    assert recall(store, "orders").memory.drift.horizon.forecasts == 0
    rig.minutes(1)
    assert recall(store, "orders").memory.drift.horizon.forecasts == 1


def test_a_version_in_which_another_job_was_trained_changes_nothing(store: StateStore) -> None:
    rig = Rig.of(store, LOW, champions=champion(constant(LOW, 0.5), START_S + WARM_S))
    rig.memories = Memories()
    rig.minutes(5)
    before = using(recall(store, "orders").memory).forecaster.record
    fleet = rig.champions.fleet(FORECAST)
    rig.champions = GivenChampions({FORECAST: replace(fleet, version=9)})
    rig.minutes(1)
    after = using(rig.memories.recall(store, "orders").memory)
    assert after.version == 1
    assert len(after.forecaster.record) >= len(before)
    assert rig.reports[-1].wape is not None


def test_a_champion_of_the_same_number_from_another_registry_takes_over(store: StateStore) -> None:
    rig = Rig.of(store, LOW, champions=champion(constant(LOW, 0.5), START_S + WARM_S))
    rig.memories = Memories()
    rig.minutes(3)
    rig.champions = champion(constant(LOW, 0.5), START_S + WARM_S, family="last-value")
    (report,) = rig.minutes(1)
    assert report.forecast is not None
    assert (report.forecast.family, report.forecast.version) == ("last-value", 1)
    assert report.wape is None, "it is judged by its own forecasts"
    kept, stored = using(rig.memories.recall(store, "orders").memory), using(recall(store, "orders").memory)
    assert stored.forecaster.names == kept.forecaster.names == ("last-value",)
    assert stored.digest == kept.digest != ""
    (report,) = rig.minutes(1)
    assert report.wape is not None, "it is taken in once"


def test_what_an_earlier_perdix_stored_goes_by_its_version_and_is_kept() -> None:
    """It stored no digest: nobody can say of which registry that champion is."""
    source = champion_of(state_of(fitted("damped-trend", history(3_600, 0.0))), 1)
    memory, _ = adopt(JobMemory(), source, "orders")
    old = replace(memory, champion=replace(using(memory), digest=""), wape=0.1)
    after, notes = adopt(old, source, "orders")
    assert notes == ()
    assert after == replace(memory, wape=0.1)
    assert using(after).forecaster is using(memory).forecaster


def test_a_stored_champion_without_a_digest_is_read(store: StateStore) -> None:
    rig = Rig.of(store, LOW, champions=champion(constant(LOW, 0.5), START_S + WARM_S))
    rig.minutes(1)
    document = store.learned.recall("orders", CHAMPION)[CHAMPION.name].document
    assert document is not None
    old = {key: value for key, value in document.items() if key != "digest"}
    store.learned.learn("orders", rig.now_s + 1.0, {CHAMPION: old})
    assert using(recall(store, "orders").memory).digest == ""
    rig.minutes(2)
    assert rig.reports[-1].wape is not None, "it was not taken in anew"


def test_a_capacity_of_the_same_number_from_another_registry_is_taken_in(store: StateStore) -> None:
    def learned(before: int) -> GivenChampions:
        text = orjson.dumps(stay(stay(ScaleOuts(), before), 4, start_s=4_000.0).to_state()).decode()
        return GivenChampions({CAPACITY: FleetChampions(CAPACITY, 3, {"orders": ChampionRow("line", text, 3)})})

    memory, _ = adopt(JobMemory(), learned(6), "orders")
    store.learned.learn("orders", START_S, changed("orders", memory, {}))
    memory = recall(store, "orders").memory
    assert adopt(memory, learned(6), "orders") == (memory, ())
    other, _ = adopt(memory, learned(8), "orders")
    assert other.capacity_from.version == 3
    assert 8 in other.capacity.memory
    assert 8 not in memory.capacity.memory


def test_the_last_stay_of_a_training_is_believed_too() -> None:
    """Its lines are of workers that are gone, and 8 workers "never ran at this size"."""
    trained = stay(stay(ScaleOuts(), 4), 8, start_s=4_000.0)
    text = orjson.dumps(trained.to_state()).decode()
    source = GivenChampions({CAPACITY: FleetChampions(CAPACITY, 1, {"orders": ChampionRow("line", text, 1)})})
    memory, notes = adopt(JobMemory(capacity=stay(ScaleOuts(), 2, start_s=8_000.0)), source, "orders")
    assert notes == ()
    for scale_out in (4, 8):
        found = memory.capacity.capacity(scale_out)
        assert found.seen
        assert found.per_s == pytest.approx(trained.capacity(scale_out).per_s, rel=0.05)


def test_the_stay_that_goes_on_does_not_count_twice() -> None:
    text = orjson.dumps(stay(stay(ScaleOuts(), 4), 8, start_s=4_000.0).to_state()).decode()
    source = GivenChampions({CAPACITY: FleetChampions(CAPACITY, 1, {"orders": ChampionRow("line", text, 1)})})
    memory, _ = adopt(JobMemory(capacity=stay(ScaleOuts(), 8, start_s=4_000.0)), source, "orders")
    assert set(memory.capacity.memory) == {4}


def test_what_a_training_knows_of_the_cpu_that_a_job_uses_idle_is_taken_in() -> None:
    """A controller that saw next to nothing done by a job that idles at 27 % took its idle CPU for work."""
    trained = stay(stay(ScaleOuts(), 4, idle=0.27), 3, start_s=4_000.0, idle=0.27)
    text = orjson.dumps(trained.to_state()).decode()
    source = GivenChampions({CAPACITY: FleetChampions(CAPACITY, 1, {"orders": ChampionRow("line", text, 1)})})
    live = stay(ScaleOuts(), 6, start_s=8_000.0, busy=0.02, idle=0.27)
    memory, _ = adopt(JobMemory(capacity=live), source, "orders")
    assert memory.capacity.capacity(8).high_per_s > 8 * 50_000.0 * 0.95
    goes_on, _ = adopt(JobMemory(capacity=stay(ScaleOuts(), 3, start_s=4_000.0, idle=0.27)), source, "orders")
    assert goes_on.capacity.idle == trained.idle, "the stay that goes on does not count twice"


def test_an_alias_that_was_taken_away_leads_to_the_fallback_at_once(store: StateStore) -> None:
    rig = Rig.of(store, LOW, champions=champion(constant(LOW, 0.5), START_S + WARM_S))
    rig.minutes(3)
    rig.champions = GivenChampions()
    (report,) = rig.minutes(1)
    assert report.forecast is not None
    assert report.forecast.version == 0


# ---- where the one before stood -----------------------------------------------------------------------------------


def test_a_champion_trained_hours_ago_knows_what_was_seen_since() -> None:
    trained = fitted("damped-trend", history(7_200, 0.0))
    seen = Tail.of(history(2_400, 10_000.0), 10.0)
    forecaster = caught_up(trained, None, seen)
    assert forecaster.end_s == 10_000.0
    fresh_s = forecaster.record.origins_s[forecaster.record.origins_s > 7_600.0]
    assert len(fresh_s) >= 4, "its record goes on: weights and quantiles are those of now"
    assert np.isfinite(forecaster.record.actual[-5]).any()


def test_what_the_former_champion_remembers_fills_the_gap() -> None:
    """The workload that is kept reaches back 40 minutes, the tail of a seasonal champion a week."""
    former = fitted("seasonal-naive", history(4 * 86_400, 86_400.0, step_s=60.0))
    trained = fitted("seasonal-naive", history(3 * 86_400, 0.0, step_s=60.0))
    (cell_s,) = trained.tails
    seen = Tail.of(history(2_400, 86_400.0), 10.0)
    alone = caught_up(trained, None, seen).tails[cell_s]
    after = caught_up(trained, former, seen).tails[cell_s]
    assert np.isnan(alone.per_s).mean() > 0.2
    assert np.isfinite(after.per_s).all()
    assert after.end_s == former.end_s


def test_a_former_champion_with_other_cells_helps_with_its_finest() -> None:
    former = fitted("damped-trend", history(3_600, 0.0))
    trained = fitted("autoregression", history(7_200, -3_000.0))
    after = caught_up(trained, former, None)
    tail = after.tails[after.members[0].cell_s]
    assert tail.end_s == after.end_s == 0.0
    assert np.isfinite(tail.per_s[-50:]).all()
    assert np.isfinite(after.finest.per_s[-50:]).all()


# ---- only when it can be used -------------------------------------------------------------------------------------


def damaged(state: str) -> list[str]:
    document = orjson.loads(state)
    other = {**document, "format": 1}
    unknown = {**document, "members": [{**document["members"][0], "family": "oracle"}]}
    torn = {**document, "record": {**document["record"], "actual": "AAAA"}}
    flipped = {**document, "horizon_s": -1.0}
    documents = [{}, other, unknown, torn, flipped, [1, 2], "text", None]
    return [state[:-40], "", "<html>", *(orjson.dumps(document).decode() for document in documents)]


@pytest.mark.parametrize("which", range(11))
def test_a_champion_that_cannot_be_read_is_told_and_leaves_what_is_in_use(which: int) -> None:
    good = state_of(fitted("damped-trend", history(3_600, 0.0)))
    memory, notes = adopt(JobMemory(), champion_of(good, 1), "orders")
    assert notes == ()
    kept, notes = adopt(memory, champion_of(damaged(good)[which], 2), "orders")
    assert using(kept) is using(memory)
    assert len(notes) == 1
    assert "version 2 cannot be used for this job" in notes[0]
    assert "what was in use stays" in notes[0]


@pytest.mark.parametrize("which", range(11))
def test_a_first_champion_that_cannot_be_read_leaves_the_fallback_and_no_tick_fails(
    store: StateStore, which: int
) -> None:
    good = state_of(fitted("damped-trend", history(3_600, START_S + WARM_S)))
    rig = Rig.of(store, LOW, champions=champion_of(damaged(good)[which], 1))
    reports = rig.minutes(2)
    assert {report.forecast.version for report in reports if report.forecast is not None} == {0}
    assert all(report.decision is not None for report in reports)
    assert all(any("cannot be used" in note for note in report.notes) for report in reports), "until it is fixed"
    rig.champions = champion_of(good, 2)
    rig.minutes(2)
    assert rig.reports[-1].forecast is not None
    assert rig.reports[-1].forecast.version == 2


def test_a_stored_champion_that_was_damaged_is_adopted_anew(store: StateStore) -> None:
    rig = Rig.of(store, LOW, champions=champion(constant(LOW, 0.5), START_S + WARM_S))
    rig.minutes(3)
    memory = recall(store, "orders").memory
    stored = {"version": 1, "stored_s": rig.now_s, "state": {"format": 2, "members": "gone"}}
    store.learned.learn("orders", rig.now_s + 1.0, {CHAMPION: stored})
    (report,) = rig.minutes(1)
    assert any("'forecaster' is stored but cannot be used" in note for note in report.notes)
    again = recall(store, "orders").memory
    assert using(again).version == 1
    assert again.capacity.to_state() != {}
    assert len(again.workload.per_s) >= len(memory.workload.per_s), "nothing else was lost"
    assert not any("cannot be used" in note for note in rig.minutes(1)[-1].notes)


def test_a_capacity_model_that_cannot_be_read_does_not_touch_the_forecaster() -> None:
    good = champion_of(state_of(fitted("damped-trend", history(3_600, 0.0))), 1)
    torn = FleetChampions(CAPACITY, 3, {"orders": ChampionRow("line", "{", 3)})
    memory, notes = adopt(JobMemory(), GivenChampions({**good.fleets, CAPACITY: torn}), "orders")
    assert using(memory).version == 1
    assert len(notes) == 1
    assert CAPACITY in notes[0]


# ---- the fallback, and its end ------------------------------------------------------------------------------------


class Stubborn(LastValue):
    """A model that is sure of ten times what it sees."""

    family = "stubborn"

    def project(self, tail: Tail, edges_s: Values) -> Values:
        return 9.0 * super().project(tail, edges_s)


def test_a_model_that_is_far_off_is_replaced_by_the_fallback_until_a_better_one_comes(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAMILIES, Stubborn.family, Stubborn)
    made = Forecaster.unproven(history(3_600, START_S + WARM_S), {Stubborn.family: Stubborn})
    rig = Rig.of(store, LOW, champions=champion_of(state_of(made), 1, Stubborn.family))
    rig.memories = Memories()
    poor = rig.minutes(18)
    assert {report.forecast.version for report in poor if report.forecast is not None} == {0}
    assert sum(report.retrain is not None for report in poor) == 1
    rig.champions = champion(constant(LOW, 0.5), START_S + WARM_S, version=2)
    first, second, third = rig.minutes(3)
    assert first.forecast is not None
    assert first.forecast.version == 0, "the new one has shown nothing yet"
    assert all(tick.forecast is not None and tick.forecast.version == 2 for tick in (second, third))
    assert not any("fallback" in note for note in third.notes)
    assert rig.memories.recall(store, "orders").memory.fallback is None

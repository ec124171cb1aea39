"""What a profile taught, in the loop: taken in, kept, learned on, and weighed against the capacity model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from perdix.control import believe
from perdix.control.adoption import adopt
from perdix.control.champions import ChampionRow, FleetChampions, GivenChampions
from perdix.control.expect import expected_capacity_per_s
from perdix.control.job_memory import PROFILE, JobMemory, changed, recall
from perdix.control.observe import Observation
from perdix.control.state.store import StateStore
from perdix.models.capacity.contract import Estimate
from perdix.models.latency.selection import FAMILIES
from perdix.models.profiling.profiled import Profiled
from perdix.models.profiling.tmax import HighestRates
from perdix.models.recovery.downtime import Anticipated, Downtimes
from perdix.models.registry import LATENCY
from perdix.settings.stream_job import PolicySettings
from perdix.targets.contract import Running
from perdix.telemetry.quality import Quality
from tests.control.rig import START_S, Rig
from tests.models.measured_profile import known_job

PER_WORKER = 10_000.0  # of the profile, and of the rig's twin


def taught(downtime_s: float | None = 50.0, failures: int = 4) -> Profiled:
    points, most = known_job()
    return Profiled(FAMILIES[0].fit(points, most, 0), HighestRates.fit(most), downtime_s, failures)


def champions(profiled: Profiled | None = None, version: int = 3, **state: Any) -> GivenChampions:
    text = orjson.dumps({**(profiled or taught()).to_state(), **state}).decode()
    return GivenChampions({LATENCY: FleetChampions(LATENCY, version, {"orders": ChampionRow("x", text, version)})})


# ---- adoption ----------------------------------------------------------------------------------------------------


def test_a_profile_is_taken_in_with_its_downtime_and_version() -> None:
    memory, notes = adopt(JobMemory(), champions(), "orders")
    assert notes == ()
    assert memory.profiled is not None
    assert memory.profiled.highest == taught().highest
    assert memory.profile_from.version == 3
    assert memory.downtimes.failure == Anticipated(50.0, 4.0)
    assert (memory.downtimes.out_s, memory.downtimes.in_s) == (30.0, 15.0), "of rescales it tells nothing"


def test_what_was_learned_since_is_not_overwritten_by_the_same_version() -> None:
    memory, _ = adopt(JobMemory(), champions(), "orders")
    assert memory.profiled is not None
    learned = replace(
        memory, profiled=memory.profiled.caught_up(8, 60_000.0), downtimes=Downtimes.assumed(failure_s=20.0)
    )
    assert adopt(learned, champions(), "orders") == (learned, ())
    newer, _ = adopt(learned, champions(version=4), "orders")
    assert newer.profiled is not None
    assert (newer.profile_from.version, newer.profiled.highest) == (4, taught().highest)


def test_a_profile_of_the_same_number_from_another_registry_is_taken_in(store: StateStore) -> None:
    memory, _ = adopt(JobMemory(), champions(), "orders")
    store.learned.learn("orders", START_S, changed("orders", memory, {}))
    kept = recall(store, "orders").memory
    assert adopt(kept, champions(), "orders") == (kept, ())
    other, _ = adopt(kept, champions(taught(20.0)), "orders")
    assert other.profiled is not None
    assert (other.profile_from.version, other.profiled.downtime_s) == (3, 20.0)


def test_failures_of_the_job_itself_are_not_forgotten_for_a_profile() -> None:
    seen = JobMemory(downtimes=Downtimes(failure=Anticipated(20.0, 12.0)))
    memory, _ = adopt(seen, champions(), "orders")
    assert memory.downtimes.failure_s == pytest.approx(20.0 ** (12 / 16) * 50.0 ** (4 / 16))
    untried, _ = adopt(seen, champions(taught(None, 0)), "orders")
    assert untried.downtimes == seen.downtimes


def test_failures_of_one_profile_count_once_however_often_its_models_change_places() -> None:
    memory = JobMemory(downtimes=Downtimes(failure=Anticipated(20.0, 12.0)))
    for version in (3, 4, 3):
        memory, _ = adopt(memory, champions(version=version, limit={"profiled": 1.0, "now": version / 4}), "orders")
    assert memory.profile_from.version == 3
    assert memory.downtimes.failure_s == pytest.approx(20.0 ** (12 / 16) * 50.0 ** (4 / 16))


def test_failures_of_a_profile_count_once_when_it_comes_back_after_another(store: StateStore) -> None:
    memory, believed_s = JobMemory(), []
    for version, downtime_s in ((3, 50.0), (4, 20.0), (3, 50.0), (4, 20.0)):
        memory, _ = adopt(memory, champions(taught(downtime_s), version), "orders")
        store.learned.learn("orders", START_S, changed("orders", memory, {}))
        memory = recall(store, "orders").memory
        believed_s.append(memory.downtimes.failure_s)
    assert memory.profile_from.version == 4
    assert believed_s[1:] == [pytest.approx((50.0 * 20.0) ** 0.5)] * 3


@pytest.mark.parametrize("damage", [{"format": "of another program"}, {"highest_rates": None}, {"failures": "many"}])
def test_a_row_that_cannot_be_used_leaves_what_is_in_use(damage: dict[str, Any]) -> None:
    memory, _ = adopt(JobMemory(), champions(), "orders")
    after, notes = adopt(memory, champions(version=4, **damage), "orders")
    assert after == memory
    (note,) = notes
    assert note.startswith("perdix-latency version 4 cannot be used for this job: ")
    assert note.endswith("; what was in use stays")


def test_a_job_without_a_row_keeps_what_it_has() -> None:
    memory, _ = adopt(JobMemory(), champions(), "orders")
    assert adopt(memory, GivenChampions(), "orders") == (memory, ())


# ---- remembered --------------------------------------------------------------------------------------------------


def test_it_is_remembered_over_a_restart(store: StateStore) -> None:
    memory, _ = adopt(JobMemory(profile_learned_s=START_S + 60.0), champions(), "orders")
    store.learned.learn("orders", START_S, changed("orders", memory, {}))
    found = recall(store, "orders")
    assert found.notes == ()
    assert (found.memory.profile_from.version, found.memory.profile_learned_s) == (3, START_S + 60.0)
    assert found.memory.profiled is not None
    assert found.memory.profiled.to_state() == taught().to_state()
    assert PROFILE not in changed("orders", found.memory, found.documents), "the same is not stored anew"


def test_one_that_cannot_be_read_is_noted_and_taken_from_the_champion_again(store: StateStore) -> None:
    store.learned.learn("orders", START_S, {PROFILE: {"version": 3, "learned_s": 0.0, "state": {"format": "?"}}})
    found = recall(store, "orders")
    assert "'profile' is stored but cannot be used" in found.notes[0]
    assert (found.memory.profiled, found.memory.profile_from.version) == (None, 0)
    assert adopt(found.memory, champions(), "orders")[0].profiled is not None


def test_a_job_that_was_never_profiled_has_no_such_document() -> None:
    assert PROFILE not in changed("orders", JobMemory(), {})


# ---- learning on -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen() -> Observation:
    """A minute of a calm job of eight workers that has run for an hour."""
    rig = Rig.of(StateStore("sqlite://"), 50_000.0, scale_out=8, warm_s=3_600)
    rig.minutes(1)
    window = rig.source.read(rig.job, rig.now_s, rig.now_s - 60.0).window
    return Observation(
        window,
        Quality(ok=True, blind=False, problems=()),
        throughput_per_s=50_000.0,
        latency_p95_ms=900.0,
        lag_records=100.0,
        waited_records=100.0,
        scale_out=8,
        uptime_s=3_600.0,
    )


def after(
    seen: Observation, *, settled: bool = True, learned_s: float = 0.0, **changes: Any
) -> tuple[dict[str, Any], float]:
    memory = replace(adopt(JobMemory(), champions(), "orders")[0], profile_learned_s=learned_s)
    memory = believe.update(memory, replace(seen, **changes), Running(8, None, settled=settled))
    assert memory.profiled is not None
    return memory.profiled.to_state(), memory.profile_learned_s


def test_a_settled_job_teaches_its_latency_and_when_is_remembered(seen: Observation) -> None:
    learned, at_s = after(seen)
    assert learned == taught().settled(8, 50_000.0, 900.0).to_state()
    assert at_s == seen.end_s


@pytest.mark.parametrize(
    "changes",
    [
        {"uptime_s": 590.0},
        {"uptime_s": None},
        {"latency_p95_ms": None},
        {"throughput_per_s": None},
        {"settled": False},
    ],
)
def test_a_job_that_may_still_catch_up_or_is_not_measured_teaches_nothing(
    seen: Observation, changes: dict[str, Any]
) -> None:
    assert after(seen, **changes) == (taught().to_state(), 0.0)


def test_it_teaches_every_ten_minutes(seen: Observation) -> None:
    assert seen.end_s is not None
    assert after(seen, learned_s=seen.end_s - 590.0)[0] == taught().to_state()
    assert after(seen, learned_s=seen.end_s - 600.0)[1] == seen.end_s


def test_while_a_backlog_is_worked_off_throughput_tells_of_t_max_and_latency_of_nothing(seen: Observation) -> None:
    behind: dict[str, Any] = {
        "lag_records": 2e6,
        "waited_records": 1e6,
        "latency_p95_ms": 40_000.0,
        "throughput_per_s": 76_000.0,
    }
    learned, at_s = after(seen, uptime_s=130.0, **behind)
    assert learned == taught().caught_up(8, 76_000.0).to_state()
    assert at_s == 0.0
    assert after(seen, uptime_s=110.0, **behind)[0] == taught().to_state(), "a warm-up is no T_max"


@pytest.mark.parametrize(
    ("throughput_per_s", "arrives_per_s"),
    [(2_000.0, 50_000.0), (50_000.0, 50_000.0)],
    ids=["a slow sink", "a lag that follows committed offsets"],
)
def test_what_says_nothing_of_the_capacity_is_no_highest_rate(
    seen: Observation, throughput_per_s: float, arrives_per_s: float
) -> None:
    """Ten minutes of 2,000/s behind a slow sink took T_max of 5 workers from 83,000/s to 2,000/s."""
    memory, _ = adopt(JobMemory(), champions(), "orders")
    memory = believe.update(memory, replace(seen, uptime_s=130.0), Running(8, None, settled=True))
    before = memory.profiled
    for _ in range(10):
        minute = replace(
            seen,
            uptime_s=5_000.0,
            lag_records=5e6,
            waited_records=4e6,
            throughput_per_s=throughput_per_s,
            workload_per_s=arrives_per_s,
        )
        memory = believe.with_capacity(memory, minute, Running(8, None, settled=True))
    assert memory.profiled == before


def test_it_tells_what_the_stay_takes_with_and_without_a_profile(seen: Observation) -> None:
    calm = believe.update(JobMemory(), seen, Running(8, None, settled=True)).capacity
    told = 0.95 * calm.capacity(8).per_s
    behind = replace(seen, lag_records=20.0 * told, waited_records=20.0 * told, throughput_per_s=told)
    for memory in (JobMemory(), adopt(JobMemory(), champions(), "orders")[0]):
        assert (
            believe.update(memory, behind, Running(8, None, settled=True)).capacity.capacity(8).per_s
            < calm.capacity(8).per_s
        )
        for other in (
            {"uptime_s": 110.0},
            {"uptime_s": None},
            {"lag_records": None},
            {"lag_records": 4.0 * told},
            {"waited_records": 0.0},
            {"waited_records": None},
        ):
            learned = believe.update(memory, replace(behind, **other), Running(8, None, settled=True)).capacity
            assert learned.behind is None


# ---- what is expected --------------------------------------------------------------------------------------------


def test_two_models_count_by_the_inverse_of_their_variances() -> None:
    spread = 2.0 * 1.645 * 0.08
    here = Estimate(4, 30_000.0, 30_000.0 * (1 - spread / 2), 30_000.0 * (1 + spread / 2), True, "test")
    profiled = taught()
    assert profiled.highest.relative_spread() < 0.04, "nobody is surer than 4 %"
    expected = (40_000.0 / 0.04**2 + 30_000.0 / 0.08**2) / (1 / 0.04**2 + 1 / 0.08**2)
    assert expected_capacity_per_s(4, here, profiled) == pytest.approx(expected, rel=0.01)
    assert expected_capacity_per_s(4, None, profiled) == pytest.approx(40_000, rel=0.01)
    assert expected_capacity_per_s(4, here, None) == pytest.approx(30_000.0)
    assert expected_capacity_per_s(4, None, None) is None


# ---- in the tick -------------------------------------------------------------------------------------------------


def test_the_loop_decides_by_phoebe_and_says_by_which_version(store: StateStore) -> None:
    policy = PolicySettings(name="phoebe", options={"recovery_time_s": 180})
    rig = Rig.of(store, 20_000.0, scale_out=8, champions=champions(), policy=policy)
    (report,) = rig.minutes(1)
    assert report.decision is not None
    assert report.decision.scale_out < 8
    (entry,) = store.ledger.decisions("orders", limit=1)
    assert entry.intent.versions[LATENCY] == 3


def test_a_job_without_a_profile_is_told_in_every_tick(store: StateStore) -> None:
    rig = Rig.of(store, 20_000.0, scale_out=8, policy=PolicySettings(name="phoebe"))
    assert all("not profiled" in report.sentence for report in rig.minutes(2))


def test_what_a_failure_would_cost_is_not_said_while_a_rescale_is_under_way(store: StateStore) -> None:
    rig = Rig.of(store, 20_000.0, scale_out=8, champions=champions(), policy=PolicySettings(name="phoebe"))
    first, *_ = rig.minutes(1)
    assert rig.target.asked, "it scales in"
    assert first.failure_recovery_s is None
    settled = [minute for minute in rig.minutes(8) if minute.running != 8 and rig.twin.settled]
    assert settled[-1].failure_recovery_s is not None
    rig.target.never_settling = True
    (report,) = rig.minutes(1)
    assert report.failure_recovery_s is None

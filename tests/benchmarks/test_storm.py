"""A slice of the storm on fixed seeds, and what it must find: bugs that are planted on purpose."""

import functools
import json
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from benchmarks.storm import process
from benchmarks.storm.__main__ import main, replayed, soaked
from benchmarks.storm.answers import BAD_ANSWERS
from benchmarks.storm.climate import END_MIN, IDLE_MIN, START_S, STEADY, STORM_MIN, places
from benchmarks.storm.crashes import crashes
from benchmarks.storm.disk import Disk
from benchmarks.storm.episodes import Episode, Player, episode
from benchmarks.storm.faults import ODD_ANSWERS, REPLICA, UNREACHABLE, Fault
from benchmarks.storm.flink_face import CHECKPOINTS
from benchmarks.storm.network import Request, Response, simulated
from benchmarks.storm.oracles.judge import Violation
from benchmarks.storm.oracles.rest import HEALED_MIN
from benchmarks.storm.planted import PLANTS
from benchmarks.storm.pods import Pods
from benchmarks.storm.prometheus import connected_in
from benchmarks.storm.scrapes import SCRAPING
from benchmarks.storm.servers import Servers
from benchmarks.storm.soak import EVERY, FLAT_MIB, steady
from benchmarks.storm.weather import quiet_since
from benchmarks.storm.world import World
from perdix.control.sources import LiveSource, Reading, SourceError
from perdix.control.state.ledger import Entry, Intent, State
from perdix.policies.contract import Reason
from perdix.settings.targets import KubernetesSettings, TwinSettings
from perdix.telemetry.metrics import CPU, LAG, LATENCY, SCALE_OUT, THROUGHPUT, UPTIME, WORKLOAD, Metric

SLICE = frozenset(
    {"refused", "status", "lost answer", "slow", "no metrics", "crash", "restart", "down", "registry gone"}
)
MINUTES = 30  # of the first waves: a rescale or two
FEW = 15  # until the first rescale is asked for
AT_ONCE, WAITING = 3, 9  # climates whose first job is on a Flink that rescales at once, or after a checkpoint


def cut(given: Episode) -> Episode:
    """The first minutes of an episode."""
    return Episode(given.climate, given.controllers, given.faults, MINUTES)


def test_nothing_is_violated_in_a_slice_of_fixed_seeds():
    for number in range(2):
        run = Player().play(cut(episode(11, number, SLICE)), compared=False)
        assert run.violations == ()
        assert run.steps >= MINUTES - 5


def test_the_same_episode_is_the_same_run():
    given = Episode(1, 2, (Fault("crash", "c0", 3, 1, 40.0), Fault("lost answer", "job-1", 5, 3)), 12)
    first, second = (Player().play(given, compared=False) for _ in range(2))
    assert first == second


def test_an_episode_survives_being_written_down():
    given = episode(3, 5)
    assert Episode.from_json(given.to_json()) == given


def test_a_violation_is_shrunk_to_the_fault_that_it_takes():
    planted = Episode(2, 1, (Fault("registry gone", "all", 1, 5), Fault("restart", "c0", 4, 1)), 12)
    with PLANTS["key"]():
        player = Player()
        (found, *_) = player.play(planted, compared=False).violations
        assert found.oracle == "one rescale per decision"
        assert player.shrunk(planted, found, compared=False).faults == ()


QUIET = HEALED_MIN + END_MIN + 20  # twenty minutes after whatever went wrong, before the load falls
TAKEN_BACK = (Fault("never settles", "flow", 9, 20), Fault("job file", "flow", 15, 14, 0.0, "at least 6"))
PLANTED = [
    ("lease", "ledger", Episode(2, 2, (Fault("asleep before asking", "c0", 1, 25),), 12)),
    ("outcome", "ledger", Episode(2, 2, (), 12)),
    ("key", "one rescale per decision", Episode(2, 2, (), 12)),
    ("bounds", "bounds", Episode(2, 2, (), 12)),
    ("left out", "served again", Episode(2, 2, (), 12)),
    ("raises", "the loop goes on", Episode(2, 2, (), 12)),
    ("neighbour", "isolation", Episode(2, 1, (Fault("refused", "job-0", 1, 3),), 14)),
    ("boots", "served again", Episode(2, 1, (Fault("reboot", "all", 3, 1),), 10)),
    ("other boots", "served again", Episode(2, 2, (Fault("reboot", "all", 3, 1),), 10, apart=True)),
    ("asked once", "the newest champion", Episode(2, 1, (Fault("registry gone", "all", 1, 2),), 23)),
    ("waited for", "served again", Episode(2, 1, (Fault("registry hangs", "all", 3, 9),), 12)),
    ("waited for", "served again", Episode(2, 1, (Fault("registry slow", "all", 3, 9, 7.0),), 12)),
    ("rows", "no job breaks", Episode(2, 1, (Fault("registry lies", "all", 3, 9, 0.0, "number"),), 10)),
    ("old files", "bounds", Episode(2, 1, (Fault("job file", "job-0", 2, 9, 0.0, "advises"),), 10)),
    ("old files", "bounds", Episode(2, 1, (Fault("job file", "job-0", 2, 9, 0.0, "at least 6"),), 10)),
    ("old files", "bounds", Episode(2, 1, (Fault("job file", "job-0", 2, 9, 0.0, "paused"),), 10)),
    ("order", "served again", Episode(2, 1, (Fault("repeated metrics", "job-0", 3, 9),), 10)),
    ("down", "served again", Episode(12, 1, (Fault("prometheus status", "job-0", 2, 3, 503.0),), 10)),
    ("together", "served again", Episode(13, 1, (Fault("prometheus status", "job-0", 2, 9, 503.0),), 10)),
    ("lease", "ledger", Episode(14, 2, (Fault("asleep before asking", "o0", 1, 25),), 16)),
    ("outcome", "ledger", Episode(14, 1, (), 14)),
    ("another instance", "ledger", Episode(14, 1, (), 14)),
    ("bounds of before", "bounds", Episode(14, 1, TAKEN_BACK, 26)),
    ("while paused", "bounds", Episode(14, 1, (Fault("job file", "flow", 3, 9, 0.0, "paused"),), 12)),
    ("budget", "rescales per day", Episode(10, 1, (), 34)),
    ("redeployed", "served again", Episode(14, 1, (), 14)),
    ("nothing seen", "no job breaks", Episode(2, 1, (Fault("no metrics", "job-0", 3, 4, 0.0, "empty"),), 8)),
    ("invalid", "no job breaks", Episode(14, 1, (), 14)),
    ("least", "no scale-in below the load", Episode(2, 1, (Fault("restart", "c0", 14, 1),), 16)),
    ("halved", "no scale-in below the load", Episode(14, 1, (), 14)),
    ("first champion", "the newest champion", Episode(2, 1, (), 30)),
    ("doubled", "ledger", Episode(2, 1, (), 30)),
    ("to and fro", "rest", Episode(5, 1, (), QUIET, course=STEADY)),
    ("never fewer", "no more than needed", Episode(5, 1, (Fault("restart", "c0", 5, 1),), QUIET, course=STEADY)),
    ("pods", "ledger", Episode(4, 1, (Fault("pods unready", "job-0", 3, 20, 1.0, "never"),), 10)),
    ("window", "no scale-in on doubtful data", Episode(1, 1, (Fault("partial metrics", "job-0", 3, 12, 0.8),), 12)),
]


@pytest.mark.parametrize(("plant", "oracle", "given"), PLANTED)
def test_a_planted_bug_is_found(plant: str, oracle: str, given: Episode):
    compared = oracle in {"isolation", "no more than needed"}
    assert violations_without_a_bug(given, compared=compared) == ()
    with PLANTS[plant]():
        run = (SOUND if compared else Player()).play(given, compared=compared)
    assert oracle in {violation.oracle for violation in run.violations}


SOUND = Player()  # what it compares with is played without a bug, and once


@functools.cache
def violations_without_a_bug(given: Episode, *, compared: bool) -> tuple[Violation, ...]:
    run = SOUND.play(given, compared=compared) if given.faults else SOUND.calm(given)
    return run.violations


def test_each_plant_is_played():
    assert {plant for plant, _, _ in PLANTED} | {"stuck"} == PLANTS.keys()  # a crash finds that one


EMPTY, STALE = Fault("no metrics", "job-0", 5, 12, 0.0, "empty"), Fault("stale metrics", "job-0", 5, 12)
LATE, SPARSE = Fault("late metrics", "job-0", 5, 12, 200.0), Fault("partial metrics", "job-0", 5, 10, 0.8)
AHEAD = Fault("metrics ahead", "job-0", 5, 8, 300.0)
FALSE = Fault("false metric", "job-0", 5, 12, 0.0, "workload_per_s")


@pytest.mark.parametrize(
    ("fault", "step_s", "seen"),
    [
        *((fault, step_s, True) for fault in (EMPTY, SPARSE, FALSE) for step_s in (0.0, 86_400.0, -120.0)),
        *((fault, step_s, True) for fault in (STALE, LATE) for step_s in (0.0, 86_400.0, -30.0)),
        *((AHEAD, step_s, True) for step_s in (0.0, -3_600.0, 120.0)),
        (EMPTY, -3_600.0, True),
        # Who takes an hour ago for now sees all of it, and nothing of a fault of now; 30 s are too little.
        *((fault, -3_600.0, False) for fault in (STALE, LATE, FALSE)),
        (Fault("late metrics", "job-0", 5, 12, 30.0), 0.0, False),
    ],
)
def test_a_scale_in_that_nobody_could_decide_on_is_found_whatever_the_clock_says(
    fault: Fault, step_s: float, seen: bool, tmp_path: Path
):
    faults = (fault, *([Fault("clock step", "c0", 1, 40, step_s)] if step_s else []))
    world = World(places(2, tmp_path), faults, tmp_path)
    world.weather.now_s = START_S + 60.0 * 12
    deployment = world.deployments["job-0"]
    deployment.catch_up(world.weather.now_s)
    made_s = world.weather.clock_s(world.controllers[0].name)
    intent = Intent("job-0", made_s, made_s, 4, 1, "hpa", "scale_in", "so it is", made_s + 900.0, {}, {})
    world.watch._blind_scale_in(deployment, Entry("1", intent, State.INTENT))
    assert bool(world.watch.found) is seen


def test_a_store_that_is_frozen_for_one_controller_is_open_for_one_that_starts_meanwhile():
    frozen = Fault("store frozen", "c0", 1, 3)
    assert Player().play(Episode(2, 2, (frozen,), 6), compared=False).violations == ()


def test_operators_of_a_cluster_that_is_short_of_slots_keep_their_sources():
    short = Fault("short of slots", "flow", 2, 5, 2.0)
    assert Player().play(Episode(14, 1, (short,), 12), compared=False).violations == ()


@pytest.mark.parametrize(
    ("what", "at_s", "ready"),
    [
        *(("late", at_s, 4) for at_s in (0, 175)),
        ("late", 180, 6),
        *(("never", at_s, 4) for at_s in (0, 3_600)),
        *(("crash", at_s, 6) for at_s in (0, 115, 240)),
        *(("crash", at_s, 4) for at_s in (120, 235)),
        ("", 0, 6),
    ],
)
def test_new_pods_are_ready_late_now_and_then_or_never(what: str, at_s: int, ready: int):
    fault = Fault("pods unready", "job-0", 0, 60, 3.0, what) if what else None
    pods = Pods(KubernetesSettings(name="job-0"), lambda _: fault, 4)
    assert pods.ready(4, START_S) == 4
    pods.ready(6, START_S + 10)
    assert pods.ready(6, START_S + 10 + at_s) == ready
    assert pods.made(6, ready) == 6
    assert pods.ready(3, START_S + 4_000) == 3  # those that are not ready go first
    assert Pods(TwinSettings.model_validate({"url": "http://twin"}), lambda _: fault, 4).ready(6, START_S) == 6


def test_pods_that_are_never_ready_are_given_up_and_a_job_whose_ready_pods_count_is_served():
    never = Fault("pods unready", "job-0", 3, 25, 1.0, "never")
    run = Player().play(Episode(4, 1, (never,), 30), compared=False)
    assert run.violations == ()
    assert never in run.struck
    assert "rollback" in {reason for *_, reason in run.decisions["job-0"]}


def test_no_rescale_blinds_a_job_for_three_minutes_over_http_either():
    assert Player().play(Episode(13, 3, (), STORM_MIN), compared=False).violations == ()


def test_what_was_asked_of_a_frozen_store_may_fail_long_after_it_thawed():
    # While one controller waits for the store to open, the others' ticks last for minutes.
    faults = (
        Fault("store frozen", "all", 1, 4),
        Fault("asleep before asking", "c0", 2, 1),
        Fault("asleep while sending", "c2", 3, 37),
        Fault("crash", "c1", 3, 1, 85.0),
        Fault("asleep while sending", "c1", 9, 37),
    )
    assert Player().play(Episode(1, 3, faults, 12), compared=False).violations == ()


def test_a_version_does_not_fence_who_sleeps_where_the_target_forgets_the_write_between():
    faults = (
        Fault("asleep while sending", "c1", 9, 37),
        Fault("asleep while sending", "c0", 11, 37),
        Fault("forgotten write", "job-1", 25, 10),
    )
    assert Player().play(Episode(9, 2, faults, 36), compared=False).violations == ()


def test_a_version_does_not_fence_who_sleeps_while_others_only_change_their_minds():
    faults = (
        Fault("asleep before asking", "c0", 4, 18),
        Fault("clock step", "c0", 7, 9, 86_400.0),
        Fault("asleep while sending", "c1", 10, 18),
    )
    assert Player().play(Episode(7, 2, faults, 18), compared=False).violations == ()


def test_a_request_that_leaves_late_is_judged_by_what_arrived_when_it_was_decided():
    faults = (
        Fault("asleep before asking", "c1", 7, 37),
        Fault("asleep while sending", "c0", 8, 37),
        Fault("no metrics", "job-0", 18, 12, 0.0, "unreachable"),
        Fault("duplicated metrics", "job-0", 30, 2, 1.0, "consumer_lag_records"),
    )
    assert Player().play(Episode(3, 2, faults, 40), compared=False).violations == ()


@pytest.mark.parametrize("climate", [12, 13])  # a Prometheus for each job, and one for both
def test_a_job_whose_metrics_cannot_be_reached_takes_nothing_from_the_other(climate: int):
    unreachable = Fault("no metrics", "job-0", 2, 9, 0.0, "unreachable")
    assert Player().play(Episode(climate, 1, (unreachable,), 10), compared=False).violations == ()


def test_a_false_workload_is_found_where_a_tenth_of_the_samples_is_missing():
    faults = (
        Fault("false metric", "job-0", 23, 5, 0.0, "workload_per_s"),
        Fault("partial metrics", "job-0", 24, 3, 0.1),
    )
    assert Player().play(Episode(3, 2, faults, 32), compared=False).violations == ()


@pytest.mark.parametrize(("climate", "first"), [(AT_ONCE, "POST"), (WAITING, "PUT")])
def test_a_checkpoint_is_made_where_the_cluster_can_use_it(climate: int, first: str, tmp_path, monkeypatch):
    sent = requests_of(climate, (), tmp_path, monkeypatch)
    acts = [method for method, path in sent if method in {"POST", "PUT"}]
    assert acts[:2] == [first, {"POST": "PUT", "PUT": "POST"}[first]]
    assert ("GET", f"{CHECKPOINTS}/{1:032x}") in sent or first == "PUT"


UNMADE = ("slow checkpoint", "fails", "forgotten", "refused", "hidden", BAD_ANSWERS[0])


@pytest.mark.parametrize(
    ("climate", "fault"), [*((AT_ONCE, fault) for fault in UNMADE), (WAITING, "refused"), (WAITING, BAD_ANSWERS[0])]
)
def test_no_checkpoint_keeps_a_rescale_from_being_asked_for(climate: int, fault: str, tmp_path, monkeypatch):
    slow = fault == "slow checkpoint"
    given = Fault(fault if slow else "bad checkpoint", "job-0", 1, FEW, what="" if slow else fault)
    sent = requests_of(climate, (given,), tmp_path, monkeypatch)
    assert [path for method, path in sent if method == "PUT"]


def requests_of(climate: int, faults: tuple[Fault, ...], folder, monkeypatch) -> list[tuple[str, str]]:
    """What job-0's Flink was asked in a run without a violation."""
    sent: list[tuple[str, str]] = []
    exchange = Servers.exchange

    def recorded(servers: Servers, request: Request) -> Response:
        if request.host == "flink.job-0":
            sent.append((request.method, request.path))
        return exchange(servers, request)

    monkeypatch.setattr(Servers, "exchange", recorded)
    run = World(places(climate, folder, minutes=FEW), faults, folder, minutes=FEW).run()
    assert run.violations == ()
    return sent


@pytest.mark.parametrize("plant", ["stuck", "never fewer"])
def test_a_controller_that_is_stuck_after_a_restart_is_found_by_a_crash(plant: str):
    SOUND.calm(Episode(2, 1, ()))
    with PLANTS[plant]():
        first = next(crashes(SOUND, 1, (2,)))
    assert [row["oracle"] for row in first["found"]] == ["end state"]


def test_a_crash_that_was_found_is_played_again(tmp_path: Path):
    crash = {**Episode(2, 1, (), 4).to_json(), "boundary": 40, "steps": 4, "found": []}
    (tmp_path / "crashes.json").write_text(json.dumps({"found": [crash]}))
    again = replayed(Player(), tmp_path / "crashes.json")
    assert (again["steps"], again["violations"]) == (4, 0)


@pytest.mark.parametrize("how", ["--crashes", "--soak"])
def test_a_seed_is_refused_where_nothing_is_drawn(how: str, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["storm", how, "--seed", "3"])
    with pytest.raises(SystemExit):
        main()
    assert "--seed" in capsys.readouterr().err


def test_a_soak_whose_ticks_raise_is_no_pass(monkeypatch):
    monkeypatch.setattr(process, "tick_fleet", Mock(side_effect=RuntimeError("every tick fails")))
    assert soaked(2 * EVERY, 2)["violations"] >= 2 * EVERY - 1


def test_a_steady_leak_is_found_and_what_is_level_is_none():
    leak, level = ([{"ticks": t, "memory_mib": 300 + by * t} for t in range(100, 5_001, 100)] for by in (0.01, 0.001))
    assert steady(leak) > FLAT_MIB > steady(level)


def test_a_soak_of_too_few_ticks_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["storm", "--soak", "50"])
    with pytest.raises(SystemExit):
        main()
    assert "at least" in capsys.readouterr().err


def test_every_statement_and_commit_passes_the_simulated_disk_whoever_executes_it(tmp_path):
    met: list[str] = []
    store = Disk(met.append).open(f"sqlite:///{tmp_path / 'state.db'}")
    met.clear()
    store.journal.pause("orders", until_s=2.0, now_s=1.0)
    with store.together() as once:
        assert once.journal.pauses(1.0)
    store.close()
    words = [statement.split(maxsplit=1)[0] for statement in met]
    assert words == ["BEGIN", "UPDATE", "INSERT", "COMMIT", "BEGIN", "SELECT", "COMMIT"]


@pytest.mark.parametrize("climate", [12, 13])
def test_a_prometheus_of_the_storm_shows_what_its_twins_do(climate: int, tmp_path: Path):
    world = World(places(climate, tmp_path), (), tmp_path)
    world.weather.now_s = START_S + 600.0
    with simulated(world.prometheus.answer):
        found = LiveSource().read_jobs(
            [(job, world.weather.now_s - 300.0) for job in world.hosts.files.jobs], world.weather.now_s
        )
    for name, read in found.items():
        assert isinstance(read, Reading)
        twin = world.deployments[name].twin
        newest = {name: float(values[-1]) for name, values in read.window.job_metrics.items()}
        assert newest[SCALE_OUT.name] == twin.scale_out
        assert newest[WORKLOAD.name] == pytest.approx(float(twin.arrivals(twin.now_s - 30, 1)[0]), rel=0.05)
        assert read.window.worker_metric(THROUGHPUT.name)[-1].sum() == pytest.approx(newest[WORKLOAD.name], rel=0.05)
        assert read.warnings == ()


@pytest.mark.parametrize("what", [*BAD_ANSWERS, *ODD_ANSWERS])
def test_no_answer_about_one_job_costs_another_of_the_same_server_its_metrics(what: str, tmp_path: Path):
    fault = Fault("prometheus garbage", "job-0", 0, 20, what=what)
    world = World(places(13, tmp_path), (fault,), tmp_path)
    world.weather.now_s = START_S + 600.0
    with simulated(world.prometheus.answer):
        live = LiveSource(connected_in(lambda _: None))
        found = live.read_jobs(
            [(job, world.weather.now_s - 300.0) for job in world.hosts.files.jobs], world.weather.now_s
        )
    assert isinstance(found["job-1"], Reading)
    assert found["job-1"].window.job_metric(WORKLOAD.name)[-1] > 0.0


@pytest.mark.parametrize("metric", [WORKLOAD, THROUGHPUT, CPU, LAG, UPTIME, LATENCY])
def test_a_query_that_is_refused_shows_nothing_of_its_metric(metric: Metric, tmp_path: Path):
    """On seed 176601 the workload was read all the same, by its query for several names."""
    world = World(places(12, tmp_path), (Fault("query refused", "job-0", 0, 20, what=metric.name),), tmp_path)
    world.weather.now_s = START_S + 600.0
    (job, _) = world.hosts.files.jobs
    with simulated(world.prometheus.answer):
        found = LiveSource().read_jobs([(job, world.weather.now_s - 300.0)], world.weather.now_s)
    window = found["job-0"].window
    assert window.missing(metric.name).all()
    assert not window.missing((WORKLOAD if metric is CPU else CPU).name).all()


def test_of_a_pair_of_prometheus_each_question_reaches_either(tmp_path: Path):
    fault = Fault("prometheus oddity", "job-0", 0, 20, what=REPLICA)
    world = World(places(12, tmp_path), (fault,), tmp_path)
    world.weather.now_s = START_S + 600.0
    (job, _) = world.hosts.files.jobs
    ends_s = set()
    with simulated(world.prometheus.answer):
        source = connected_in(lambda _: None)(job.prometheus)
        for back_s in range(8):
            begins_s = world.weather.now_s - 60.0 - back_s
            asked = "flink_taskmanager_job_task_operator_pendingRecords{job_name='job-0'}"
            found = source.query_range(asked, begins_s, world.weather.now_s, 1.0, lookback_s=1.0)
            ends_s |= {world.weather.now_s - series.times_ms[-1] / 1_000.0 for series in found}
    assert len(ends_s) == 2
    assert max(ends_s) - min(ends_s) == pytest.approx(SCRAPING.interval_s, abs=1.0)


def test_what_a_target_accepts_is_carried_out_minutes_later_in_its_order(tmp_path: Path):
    world = World(places(2, tmp_path), (Fault("late write", "job-0", 0, 10, 3.0),), tmp_path)
    world.weather.now_s = START_S + 60.0
    job = world.deployments["job-0"]
    before = job.asked
    for scale_out in (before + 1, before + 2):
        job.ask(world.weather.now_s, scale_out, "c0", str(scale_out))
    assert job.reported(world.weather.now_s + 179.0).asked == before
    job.catch_up(world.weather.now_s + 180.0)
    assert [change.to for change in job.changes] == [before + 1, before + 2]


def test_an_answer_in_odd_words_hides_no_server_that_cannot_be_reached(tmp_path: Path):
    """On seed 176601 a job was served well while its server was taken to be unreachable."""
    odd = Fault("prometheus oddity", "job-0", 0, 30, what="warned")
    gone = Fault("no metrics", "job-0", 5, 20, what=UNREACHABLE)
    world = World(places(12, tmp_path), (odd, gone), tmp_path)
    world.weather.now_s = START_S + 600.0
    with simulated(world.prometheus.answer):
        live = LiveSource(connected_in(lambda _: None))
        (job, _) = world.hosts.files.jobs
        found = live.read_jobs([(job, world.weather.now_s - 300.0)], world.weather.now_s)
    assert isinstance(found["job-0"], SourceError)


def test_a_controller_that_stands_still_at_the_end_of_a_fault_is_not_awake_yet():
    """On seed 132003 all three were, one of them in a pause that began in the last minute of its fault."""
    pause, asleep = Fault("pause", "c2", 41, 4, 23.0), Fault("asleep before asking", "c1", 7, 37)
    assert (pause.gone_min, Fault("down", "c0", 41, 4).gone_min) == (49.0, 45.0)
    assert quiet_since((pause, asleep), "job-1", 48.67) == 48.67
    assert quiet_since((pause, asleep), "job-1", 60.0) == 49.0


@pytest.mark.parametrize(
    ("before", "after", "ago_min", "excused"),
    [(1, 3, 30, True), (1, 3, 61, False), (1, 3, -1, False), (3, 1, 30, False)],
)
def test_fewer_workers_are_barred_for_an_hour_after_going_back_from_them(
    before: int, after: int, ago_min: int, excused: bool, tmp_path: Path
):
    world = World(places(2, tmp_path), (), tmp_path)
    made_s = START_S + 60.0 * (STORM_MIN + IDLE_MIN - ago_min)
    back = Intent("job-0", made_s, made_s, before, after, "perdix", Reason.ROLLBACK, "", made_s + 120.0, {}, {})
    assert world.watch.barred_below([Entry("1", back, State.CONFIRMED)]) is excused
    other = replace(back, reason=Reason.SCALE_OUT)
    assert not world.watch.barred_below([Entry("1", other, State.CONFIRMED)])

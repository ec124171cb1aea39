import threading

import numpy as np
import pytest

from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock, revive
from perdix.twin.parameters import load_twins
from perdix.twin.promql import Matcher
from perdix.twin.tending import tend

START_S = 1_700_000_000


@pytest.fixture
def clock():
    return SimulatedClock(START_S + 600)


@pytest.fixture
def living(parameters, clock):
    jobs = {
        name: JobTwin(parameters(name=name), seed, start_s=START_S) for seed, name in enumerate(("orders", "bills"))
    }
    return LivingTwin(jobs, clock, scraping=Scraping(5.0))


def test_looking_moves_it_to_the_clocks_time(living, clock):
    assert living.job("orders").now_s == START_S + 600
    clock.advance(59.9)
    assert living.job("bills").now_s == START_S + 659
    living.advance_to(START_S)  # the past changes nothing
    assert living.job("orders").now_s == START_S + 659


def test_rescale_and_failure_happen_at_the_clocks_time(living, clock):
    living.rescale("orders", 3, "a")
    clock.advance(300)
    living.fail("bills", 1)
    assert living.job("orders").outages[0].start_s == START_S + 600
    assert living.job("bills").outages[0].start_s == START_S + 900


def test_series_are_chosen_by_name_and_label(living):
    def names(*matchers):
        return {
            (s.metric, s.labels.get("namespace", s.labels.get("job"))) for s in living.series(matchers, 0, START_S * 2)
        }

    assert names(Matcher("__name__", "=", "scale_out"), Matcher("job", "=", "bills")) == {("scale_out", "bills")}
    assert names(Matcher("__name__", "=~", ".*Registered.*")) == {
        ("flink_jobmanager_numRegisteredTaskManagers", name) for name in ("orders", "bills")
    }


def test_a_repeated_key_from_many_threads_rescales_once(living):
    threads = [threading.Thread(target=living.rescale, args=("orders", 4, "same")) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(living.job("orders").outages) == 1


def test_readers_and_movers_do_not_disturb_each_other(living, clock):
    errors = []

    def read():
        try:
            for _ in range(20):
                for entry in living.series((Matcher("__name__", "=~", ".+"),), START_S, START_S * 2):
                    assert len(entry.times_ms) == len(entry.values) > 0
        except Exception as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(200):
        clock.advance(61)
        living.advance()
    for reader in readers:
        reader.join()
    assert not errors


def test_a_long_life_stays_small(parameters, clock):
    living = LivingTwin({"orders": JobTwin(parameters(), start_s=START_S)}, clock, keep_s=7_200)
    for _ in range(10):
        clock.advance(3_600)
        living.advance()
    assert 7_200 <= len(living.job("orders").history) <= 10_800
    assert living.job("orders").history.end_s == int(clock.now_s())


def test_revived_twins_have_a_history_with_several_scale_outs():
    clock = SimulatedClock(START_S)
    living = revive(load_twins(), clock, seed=1, hours=3)
    for name in living.names():
        history = living.job(name).history
        assert len(history) == 3 * 3_600
        assert len(np.unique(history.column("scale_out"))) >= 3
    again = revive(load_twins(), clock, seed=1, hours=3)
    for name in living.names():
        np.testing.assert_array_equal(living.job(name).history.column("lag"), again.job(name).history.column("lag"))


def test_the_cpu_rule_follows_the_load(parameters):
    busy = JobTwin(parameters(workload={"peak_per_s": 3_000.0}), 3)
    tend(busy, 3_600)
    assert busy.scale_out > 4
    calm = JobTwin(parameters(workload={"peak_per_s": 100.0}), 3)
    tend(calm, 3_600)
    assert calm.scale_out == 1
    assert calm.now_s == 3_600


def test_time_and_history_are_not_negative(clock):
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="hours"):
        revive({}, clock, hours=-1)

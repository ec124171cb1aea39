"""The twin of an operator instance: what cores and memory are worth, and how it comes to show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perdix.settings.yaml_files import SettingsError
from perdix.twin.operators.instance import Drift, Live, OperatorInstance
from perdix.twin.operators.parameters import LiveWorkload, OperatorTwinParameters, load_operator, operator_names
from perdix.twin.operators.physics import memory_cost, true_performance, useful_cores

PLENTY_PER_S = 1e6
SIZES = {"cpu": {"least": 0.1, "most": 4.0, "unit": 0.1}, "memory": {"least": 32, "most": 256, "unit": 8}}


def operator(
    compute: dict[str, Any] | None = None, memory: dict[str, Any] | None = None, **others: Any
) -> OperatorTwinParameters:
    return OperatorTwinParameters.model_validate(
        {
            "name": "parse",
            "compute": {"cost_us": 100, "idle_cores": 0.0, **(compute or {})},
            "memory": {"live_mb": 40, "collecting": 0.0, **(memory or {})},
            "workload": {"per_s": 100_000},
            "sizes": SIZES,
            **others,
        }
    )


class TestCores:
    def test_below_one_core_the_rate_follows_the_cores(self) -> None:
        assert true_performance(operator(), [0.25, 0.5, 1.0], 200) == pytest.approx([2_500, 5_000, 10_000])

    def test_what_the_runtime_takes_is_not_there_for_records(self) -> None:
        assert true_performance(operator({"idle_cores": 0.1}), [0.05, 0.1, 0.6], 200) == pytest.approx([0, 0, 5_000])

    def test_cores_beyond_the_threads_are_of_no_use_which_is_the_knee(self) -> None:
        assert true_performance(operator({"threads": 2}), [1.9, 2.0, 2.1, 4.0], 200) == pytest.approx(
            [19_000, 20_000, 20_000, 20_000]
        )

    def test_serial_work_follows_amdahl(self) -> None:
        assert true_performance(operator({"serial": 0.25}), 4.0, 200) == pytest.approx(10_000 / (0.25 + 0.75 / 4))

    def test_throttling_costs_most_halfway_between_whole_cores_and_nothing_on_them(self) -> None:
        calm, throttled = operator(), operator({"throttling": 0.2})
        share = true_performance(throttled, [1.0, 1.25, 1.5, 2.0, 4.0], 200) / true_performance(
            calm, [1.0, 1.25, 1.5, 2.0, 4.0], 200
        )
        assert share == pytest.approx([1.0, 0.85, 0.8, 1.0, 1.0])

    @given(cores=st.floats(0.01, 16), more=st.floats(0, 4), serial=st.floats(0, 0.9), threads=st.floats(1, 16))
    def test_without_throttling_more_cores_are_never_worse(
        self, cores: float, more: float, serial: float, threads: float
    ) -> None:
        compute = operator({"serial": serial, "threads": threads}).compute
        few, many = useful_cores(compute, np.array([cores, cores + more]))
        assert many >= few * (1 - 1e-12)


class TestMemory:
    def test_below_the_working_set_each_record_is_dearer_in_proportion(self) -> None:
        memory = operator(memory={"working_set_mb": 40, "miss_factor": 3.0}).memory
        assert memory_cost(memory, np.array([50.0, 60.0, 80.0, 200.0])) == pytest.approx([2.5, 2.0, 1.0, 1.0])

    def test_garbage_is_the_dearer_the_less_is_spare(self) -> None:
        memory = operator(memory={"collecting": 0.1}).memory
        assert memory_cost(memory, np.array([44.0, 80.0, 440.0])) == pytest.approx([2.0, 1.1, 1.01])

    def test_what_it_holds_live_must_fit(self) -> None:
        assert true_performance(operator(), 1.0, [39, 40, 41])[:2] == pytest.approx([0, 0])

    def test_the_bandwidth_limits_what_cores_can_do(self) -> None:
        limited = operator(memory={"traffic_limit_per_s": 15_000})
        assert true_performance(limited, [0.2, 4.0], 200) == pytest.approx([2_000, 14_900], rel=0.02)

    @given(given_mb=st.floats(1, 1_000), more=st.floats(0, 500), miss=st.floats(1, 20), collecting=st.floats(0, 1))
    def test_more_memory_is_never_worse(self, given_mb: float, more: float, miss: float, collecting: float) -> None:
        one = operator(memory={"working_set_mb": 64, "miss_factor": miss, "collecting": collecting})
        few, much = true_performance(one, 1.0, [given_mb, given_mb + more])
        assert much >= few * (1 - 1e-12)


class TestInstance:
    def test_it_starts_warms_up_and_flickers_around_the_truth(self) -> None:
        one = OperatorInstance(operator(start={"start_s": 20, "warm_up_s": 60, "warm_up_speed": 0.5}), 1.0, 200, (1, 1))
        seen = one.step(np.full(1_800, PLENTY_PER_S))
        assert not seen[:20].any()
        assert seen[20:30].mean() == pytest.approx(0.54 * 10_000, rel=0.08)
        assert seen[200:].mean() == pytest.approx(10_000, rel=0.03)
        assert 0.01 < seen[200:].std() / 10_000 < 0.06

    def test_below_its_capacity_it_processes_what_it_is_offered(self) -> None:
        one = OperatorInstance(operator({"idle_cores": 0.1}), 1.1, 200, (1, 1))
        one.step(np.full(300, 1_000.0))
        seen = one.step(np.full(300, 5_000.0))
        assert seen.mean() == pytest.approx(5_000, rel=0.01)

    def test_without_its_live_memory_it_is_killed_once_it_is_loaded(self) -> None:
        one = OperatorInstance(operator(start={"out_of_memory_s": 30}), 1.0, 40, (1, 1))
        one.step(np.zeros(600))
        assert one.died_because is None
        seen = one.step(np.full(60, 100.0))
        assert one.died_because == "out of memory: killed at 40 MB"
        assert not seen.any()

    @pytest.mark.parametrize("pieces", [(600,), (1,) * 20 + (580,), (7, 293, 300)])
    def test_luck_does_not_depend_on_how_time_is_cut(self, pieces: tuple[int, ...]) -> None:
        whole = OperatorInstance(load_operator("cmo2"), 1.3, 150, (5, 2)).step(np.full(600, PLENTY_PER_S))
        cut = OperatorInstance(load_operator("cmo2"), 1.3, 150, (5, 2))
        seen = np.concatenate([cut.step(np.full(n, PLENTY_PER_S)) for n in pieces])
        np.testing.assert_allclose(seen, whole)

    def test_another_instance_has_other_luck(self) -> None:
        one, other = (OperatorInstance(load_operator("co1"), 1.0, 150, (5, n)) for n in (1, 2))
        offered = np.full(300, PLENTY_PER_S)
        assert one.step(offered).mean() != other.step(offered).mean()

    def test_drift_persists_for_minutes(self) -> None:
        drawn = Drift(np.random.default_rng(1), 120.0).draw(200_000)
        assert drawn.std() == pytest.approx(1.0, abs=0.1)
        assert np.corrcoef(drawn[:-120], drawn[120:])[0, 1] == pytest.approx(np.exp(-1.0), abs=0.08)

    def test_the_live_workload_swings(self) -> None:
        drawn = Live(LiveWorkload(per_s=1_000, swing=0.5, period_s=400, noise=0.0), (1,)).draw(0.0, 400)
        assert (drawn.min(), drawn.mean(), drawn.max()) == pytest.approx((500, 1_000, 1_500), rel=0.01)


class TestShipped:
    """Four behaviours across the four operators."""

    def test_all_can_be_loaded(self) -> None:
        assert operator_names() == ["cmo1", "cmo2", "co1", "co2"]

    @pytest.mark.parametrize("name", ["cmo1", "cmo2", "co1", "co2"])
    def test_performance_stops_growing_within_what_is_sampled_and_memory_below_the_working_set_hurts(
        self, name: str
    ) -> None:
        one = load_operator(name)
        cpu, memory = one.sizes.cpu.values(), one.sizes.memory.values()
        by_cpu = true_performance(one, cpu, memory[-1])
        assert by_cpu[-1] < 1.05 * by_cpu[-8]
        by_memory = true_performance(one, cpu[-1], memory)
        assert by_memory[0] == 0.0
        alive = by_memory[by_memory > 0]
        assert alive[0] < 0.8 * alive[-1]
        assert alive[-1] < 1.02 * alive[-8]
        assert one.workload.per_s * (1 - one.workload.swing) > 3 * by_cpu[-1], "one instance is a part of many"

    def test_the_knee_is_sharp_where_the_compute_bound_one_bends(self) -> None:
        def bends(name: str) -> float:
            one = load_operator(name)
            values = true_performance(one, one.sizes.cpu.values(), 256)
            rising = np.diff(values)[: int(np.argmax(values)) - 1]
            return float(rising[-2] / rising[2])

        assert bends("co2") > 0.9
        assert bends("co1") < 0.7

    def test_the_noisy_one_is_the_noisiest(self) -> None:
        spread = {
            name: OperatorInstance(load_operator(name), 2.0, 250, (1, 1)).step(np.full(1_200, PLENTY_PER_S))
            [300:].std() / float(true_performance(load_operator(name), 2.0, 250))
            for name in operator_names()
        }  # fmt: skip
        assert max(spread, key=lambda name: spread[name]) == "cmo2"

    def test_memory_traffic_ends_what_cores_can_do(self) -> None:
        one = load_operator("cmo1")
        unlimited = one.model_copy(update={"memory": one.memory.model_copy(update={"traffic_limit_per_s": None})})
        assert float(true_performance(one, 4.0, 384)) < 0.8 * float(true_performance(unlimited, 4.0, 384))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"memory": {"live_mb": 300}}, "raise sizes.memory.most, or lower memory.live_mb"),
        ({"compute": {"cost_us": 10, "idle_cores": 9}}, "raise sizes.cpu.most"),
        ({"compute": {"cost_us": 0}}, "greater than 0"),
        ({"sizes": {**SIZES, "cpu": {"least": 2, "most": 1, "unit": 0.1}}}, "swap or widen them"),
        ({"sizes": {**SIZES, "cpu": {"least": 0.001, "most": 4, "unit": 0.001}}}, "make the unit larger"),
        ({"noise": {"flicker": 0.9}}, "less than or equal to 0.5"),
    ],
)
def test_what_cannot_be_is_refused_with_its_mend(change: dict[str, Any], words: str) -> None:
    good = operator().model_dump()
    with pytest.raises(ValidationError) as error:
        OperatorTwinParameters.model_validate({**good, **change})
    assert words in str(error.value)


def test_an_unknown_operator_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match=r"there is no operator 'co9' in .*; did you mean 'co"):
        load_operator("co9")


def test_an_unknown_key_is_named_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "parse.yaml").write_text("compute: {cost_us: 3, thread: 2}\nmemory: {live_mb: 3}\n")
    with pytest.raises(SettingsError, match=r"parse.yaml:1: unknown key 'compute.thread'; did you mean 'threads'"):
        load_operator("parse", tmp_path)

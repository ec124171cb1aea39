"""The parts of the rule that the published vectors leave open."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.policies.flink_autoscaler.delay import PendingScaleDown, Wanted, pend
from perdix.policies.flink_autoscaler.demand import Demand, band_per_s, required_per_s
from perdix.policies.flink_autoscaler.evaluation import evaluate
from perdix.policies.flink_autoscaler.graph import Graph, Measured, Sample, Vertex
from perdix.policies.flink_autoscaler.history import Rescale, Restart, gain, remembered, restart_s, scalability
from perdix.policies.flink_autoscaler.job import JobState, decide_job
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.flink_autoscaler.vertex import Limits, align
from perdix.policies.flink_autoscaler.window import average, gather, observed_per_s, rate

OPTIONS = FlinkAutoscalerOptions()


def vertex(name: str, *inputs: str, parallelism: int = 2) -> Vertex:
    return Vertex(name, parallelism, 720, dict.fromkeys(inputs, False))


def two_seconds(**rates: tuple[float, float]) -> list[Sample]:
    """Two samples, a second apart; records in and out per second of each vertex."""
    first = {name: Measured(0.0, 0.0, load=0.5) for name in rates}
    return [Sample(0.0, first), Sample(1.0, {name: Measured(*both, load=0.5) for name, both in rates.items()})]


class TestGraph:
    def test_a_vertex_before_its_input_is_refused(self) -> None:
        with pytest.raises(ValueError, match="vertex 'sink': its inputs source do not come before it"):
            Graph((vertex("sink", "source"), vertex("source")))
        with pytest.raises(ValueError, match="it occurs twice"):
            Graph((vertex("source"), vertex("source")))

    def test_demand_follows_the_only_input(self) -> None:
        graph = Graph((vertex("source"), vertex("map", "source")))
        found = evaluate(graph, two_seconds(source=(100, 50), map=(30, 0)), OPTIONS, 0.0)
        assert found["map"].demand.target_per_s == 30, "what comes in is measured better at the receiver"

    def test_two_inputs_that_feed_nothing_else_are_told_apart_by_what_goes_out(self) -> None:
        graph = Graph((vertex("a"), vertex("b"), vertex("join", "a", "b")))
        found = evaluate(graph, two_seconds(a=(100, 80), b=(50, 20), join=(110, 0)), OPTIONS, 0.0)
        assert found["join"].demand.target_per_s == pytest.approx((110 - 20) + (110 - 80))

    def test_else_an_edge_carries_all_that_goes_out(self) -> None:
        graph = Graph((vertex("a"), vertex("b"), vertex("join", "a", "b"), vertex("copy", "b", "a")))
        found = evaluate(graph, two_seconds(a=(100, 80), b=(50, 20), join=(7, 0), copy=(7, 0)), OPTIONS, 0.0)
        assert found["join"].demand.target_per_s == pytest.approx(80 + 20)

    def test_a_vertex_without_input_asks_for_nothing_of_those_behind_it(self) -> None:
        graph = Graph((vertex("source"), vertex("map", "source")))
        found = evaluate(graph, two_seconds(source=(0, 0), map=(0, 0)), OPTIONS, 0.0)
        assert found["map"].demand == Demand(0.0, 0.0)
        assert found["map"].true_per_s == math.inf

    def test_one_vertex_that_cannot_be_known_holds_up_no_other(self) -> None:
        graph = Graph((vertex("source", parallelism=10), vertex("map", "source", parallelism=10)))
        samples = [
            Sample(t, {"source": Measured(100.0 * t, load=0.2), "map": Measured(100.0 * t, load=math.nan)})
            for t in (0.0, 1.0)
        ]
        options = FlinkAutoscalerOptions(scale_down_interval_s=0, catch_up_s=0)
        found = decide_job(graph, samples, JobState(), options, 1.0)
        assert found.vertices["map"].held_by == "its rates are not known"
        assert found.changes == {"source": 4}


class TestRates:
    def test_busy_time_may_be_summed_over_subtasks(self) -> None:
        graph, options = Graph((vertex("v", parallelism=4),)), FlinkAutoscalerOptions(busy_aggregator="AVG")
        samples = [Sample(t, {"v": Measured(400.0 * t, busy_ms=2_000.0 * t)}) for t in (0.0, 10.0)]
        assert evaluate(graph, samples, options, 0.0)["v"].true_per_s == 800  # half of 4 subtasks' time

    def test_the_meter_counts_before_the_counter_but_not_for_sources(self) -> None:
        graph = Graph((vertex("source"), vertex("map", "source")))
        samples = [
            Sample(t, {name: Measured(100.0 * t, load=0.5, in_per_s=300.0) for name in ("source", "map")})
            for t in (0.0, 1.0)
        ]
        found = evaluate(graph, samples, OPTIONS, 0.0)
        assert (found["source"].true_per_s, found["map"].true_per_s) == (200, 600)

    def test_a_shrinking_lag_is_no_negative_demand(self) -> None:
        samples = [Sample(0.0, {"v": Measured(0, load=0.5, lag=900)}), Sample(1.0, {"v": Measured(100, load=0.5)})]
        assert evaluate(Graph((vertex("v"),)), samples, OPTIONS, 0.0)["v"].demand.target_per_s == 0

    def test_a_backlog_forbids_scaling_in_and_allows_full_use(self) -> None:
        samples = [Sample(t, {"v": Measured(100.0 * t, load=0.1, lag=31_000.0)}) for t in (0.0, 1.0)]
        found = evaluate(Graph((vertex("v"),)), samples, OPTIONS, 0.0)["v"]
        assert found.less_above_per_s == math.inf
        assert found.more_below_per_s == round(31_000 / 1_800 + 100)

    def test_rate_and_average_skip_what_is_not_known(self) -> None:
        assert rate([(0.0, math.nan), (1.0, 5.0), (3.0, 9.0), (4.0, math.nan)]) == 2.0
        assert math.isnan(rate([(1.0, 5.0)]))
        assert average([1.0, math.nan, math.inf, 3.0]) == 2.0
        assert average([math.inf, math.nan]) == math.inf
        assert math.isnan(average([1.0], 2))

    def test_observed_while_catching_up_and_their_mean_after_that(self) -> None:
        catching_up, caught_up = Measured(0, in_per_s=100.0, lag=3_000.0), Measured(0, in_per_s=100.0, lag=2_999.0)
        assert observed_per_s(catching_up, 0.5, (), OPTIONS) == 200
        assert observed_per_s(caught_up, 0.5, (200.0, 300.0), OPTIONS) == 250
        assert math.isnan(observed_per_s(caught_up, 0.5, (200.0,), OPTIONS))
        assert observed_per_s(catching_up, 1.0, (200.0, 300.0), OPTIONS) == 250, "it only waits for those behind it"
        assert observed_per_s(Measured(0, in_per_s=0.0), 0.0, (), OPTIONS) == math.inf

    @given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.1, 1.0), st.floats(0, 900))
    def test_more_is_required_at_a_lower_utilisation_and_with_a_restart(
        self, target: float, catch_up: float, share: float, took_s: float
    ) -> None:
        demand = Demand(target, catch_up)
        required = required_per_s(demand, share, OPTIONS)
        assert required <= required_per_s(demand, 0.9 * share, OPTIONS)
        assert required <= required_per_s(demand, share, OPTIONS, took_s)
        low, high = band_per_s(demand, OPTIONS, took_s, backlogged=False)
        assert low <= high


class TestWindow:
    def samples(self, *at_s: float) -> list[Sample]:
        return [Sample(at, {}) for at in at_s]

    def test_it_is_full_one_window_after_the_job_is_stable(self) -> None:
        samples = self.samples(*range(10, 1_201, 10))
        assert not gather(samples[:-1], 0.0, 1_190.0, OPTIONS).full
        found = gather(samples, 0.0, 1_200.0, OPTIONS)
        assert (found.full, found.samples[0].at_s) == (True, 300.0)

    def test_a_restart_makes_earlier_samples_worthless(self) -> None:
        assert [sample.at_s for sample in gather(self.samples(10, 20, 30), 20.0, 30.0, OPTIONS).samples] == [30]

    @given(st.lists(st.floats(0.0, 0.9), min_size=130, max_size=130))
    def test_once_full_it_stays_full_although_ticks_jitter(self, jitter: list[float]) -> None:
        options = FlinkAutoscalerOptions(stabilisation_s=0, window_s=900)
        kept: list[Sample] = []
        full = []
        for k, late_s in enumerate(jitter):
            now_s = 10.0 * (k + 1) + late_s
            found = gather([*kept, Sample(now_s, {})], 0.0, now_s, options)
            kept = list(found.samples)
            full.append(found.full)
        assert full == sorted(full)
        assert full[-1]
        assert kept[-1].at_s - kept[0].at_s < 912.0


class TestAlignment:
    @given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64), st.integers(64, 256))
    def test_it_keeps_the_direction_and_the_limits(self, current: int, target: int, partitions: int, most: int) -> None:
        one = Vertex("v", current, 256, partitions=partitions)
        for mode in ("BALANCED", "EVENLY_SPREAD", "OFF"):
            aligned = align(one, target, Limits(1, most), mode)
            assert (aligned - current) * (target - current) >= 0
            assert aligned >= target or aligned == current
            assert aligned <= max(most, target)
        for mode in ("LEGACY_EVENLY_SPREAD", "LEGACY_MAXIMISE_UTILISATION"):
            assert (align(one, target, Limits(1, most), mode) - current) * (target - current) >= 0

    def test_legacy_gives_up_rather_than_turn_round(self) -> None:
        # 13 is prime, so nothing above 8 divides it; 7 is the least with as much for each as 8 have
        assert align(Vertex("v", 6, 720, partitions=13), 8, Limits(1, 12), "LEGACY_EVENLY_SPREAD") == 7
        assert align(Vertex("v", 7, 720, partitions=13), 8, Limits(1, 12), "LEGACY_EVENLY_SPREAD") == 7

    def test_what_has_neither_partitions_nor_keys_is_left_alone(self) -> None:
        assert align(Vertex("v", 5, 720, {"u": False}), 7, Limits(1, 200), "EVENLY_SPREAD") == 7


class TestDelay:
    @given(st.lists(st.tuples(st.floats(1, 40), st.integers(1, 20)), min_size=1, max_size=60))
    def test_the_deque_holds_the_greatest_of_the_interval(self, wishes: list[tuple[float, int]]) -> None:
        pending: PendingScaleDown | None = None
        seen: list[tuple[float, int]] = []
        now_s = 0.0
        for later_s, parallelism in wishes:
            now_s += later_s
            seen.append((now_s, parallelism))
            pending = pend(pending, now_s, parallelism, outside=True, interval_s=60.0)
            assert pending.wanted[0].parallelism == max(n for at_s, n in seen if at_s >= now_s - 60.0)
            assert len(pending.wanted) <= 20
            assert (pending.due(now_s, 60.0) is None) == (now_s - 60.0 < seen[0][0])

    def test_an_equal_wish_renews_the_older_one(self) -> None:
        pending = pend(PendingScaleDown(0.0, (Wanted(0.0, 5, True),)), 10.0, 5, outside=False, interval_s=60.0)
        assert pending.wanted == (Wanted(10.0, 5, False),)


class TestHistory:
    def rescale(self, at_s: float, before: int, after: int, true: float = 100.0, expected: float = 200.0) -> Rescale:
        return Rescale(at_s, before, after, true, expected)

    def test_it_keeps_the_last_three_of_a_day(self) -> None:
        history: tuple[Rescale, ...] = ()
        for k in range(5):
            history = remembered(history, self.rescale(float(k), k + 1, k + 2), OPTIONS)
        assert [rescale.before for rescale in history] == [3, 4, 5]
        assert remembered(history, self.rescale(90_000.0, 6, 7), OPTIONS) == (self.rescale(90_000.0, 6, 7),)

    def test_what_was_never_carried_out_teaches_nothing(self) -> None:
        history = remembered((self.rescale(0.0, 5, 8),), self.rescale(10.0, 5, 9), OPTIONS)
        assert [rescale.after for rescale in history] == [9]

    def test_scalability_needs_three_records_and_a_basis(self) -> None:
        linear = [self.rescale(float(k), n, n, 10.0 * n) for k, n in enumerate((2, 4, 8))]
        assert scalability(linear[:2], OPTIONS) == 1.0
        assert scalability(linear, OPTIONS) == 1.0
        flat = [self.rescale(float(k), n, n, 20.0) for k, n in enumerate((2, 40, 80))]
        assert scalability(flat, OPTIONS) == OPTIONS.scalability_min
        assert scalability([self.rescale(0.0, 1, 2, 0.0), *linear], OPTIONS) == 1.0, "no rate to begin with"
        assert scalability([self.rescale(0.0, 1, 2, math.inf), *linear], OPTIONS) == 1.0

    def test_gain_is_that_of_a_scale_out_to_what_runs_now(self) -> None:
        assert gain((self.rescale(0.0, 5, 10),), 10, 150.0) == 0.5
        assert gain((self.rescale(0.0, 5, 10),), 9, 150.0) is None
        assert gain((self.rescale(0.0, 10, 5),), 5, 150.0) is None
        assert gain((self.rescale(0.0, 5, 10, 100.0, math.nan),), 10, 150.0) is None
        assert gain((), 10, 150.0) is None

    def test_restarts_count_for_a_day_and_up_to_the_limit(self) -> None:
        options = FlinkAutoscalerOptions(track_restarts=True)
        assert restart_s((Restart(0.0, 40.0), Restart(60.0, 55.0)), 100.0, options) == 55
        assert restart_s((Restart(0.0, 4_000.0),), 100.0, options) == 900
        assert restart_s((Restart(0.0, 40.0),), 90_000.0, options) == options.restart_s
        assert restart_s((Restart(0.0, 40.0),), 100.0, OPTIONS) == OPTIONS.restart_s

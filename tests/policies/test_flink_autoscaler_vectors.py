"""The Flink Autoscaler's own test vectors: what its unit tests feed in, and what they assert.

Each id names the test of the original (``flink-autoscaler/src/test/java/org/apache/flink/autoscaler/``).
"""

import math
from typing import Any

import pytest

from perdix.policies.flink_autoscaler.delay import PendingScaleDown
from perdix.policies.flink_autoscaler.demand import Demand, band_per_s
from perdix.policies.flink_autoscaler.evaluation import Evaluated, evaluate
from perdix.policies.flink_autoscaler.graph import Graph, Measured, Sample, Vertex
from perdix.policies.flink_autoscaler.history import Rescale, Restart, restart_s, scalability
from perdix.policies.flink_autoscaler.job import JobState, decide_job, gate
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.flink_autoscaler.vertex import Limits, VertexDecision, align, decide_vertex, scaled
from perdix.policies.flink_autoscaler.window import observed_per_s

LEGACY_EVEN, LEGACY_MOST = "LEGACY_EVENLY_SPREAD", "LEGACY_MAXIMISE_UTILISATION"
COMMON = {"catch_up_s": 0.0, "max_down_factor": 1.0, "max_up_factor": 1e9, "scale_down_interval_s": 0.0}


def options(utilisation: float = 0.7, **changes: Any) -> FlinkAutoscalerOptions:
    """The options that JobVertexScalerTest sets up."""
    given = {**COMMON, "alignment": LEGACY_EVEN, "utilisation_target": utilisation, **changes}
    return FlinkAutoscalerOptions(**given)


def keyed(parallelism: int, maximum: int = 720) -> Vertex:
    return Vertex("v", parallelism, maximum, {"upstream": True})


def plain(parallelism: int) -> Vertex:
    return Vertex("v", parallelism, 720, {"upstream": False})


def source(parallelism: int, partitions: int | None = None) -> Vertex:
    return Vertex("v", parallelism, 720, partitions=partitions)


def of_rates(target: float, true: float, given: FlinkAutoscalerOptions) -> Evaluated:
    demand = Demand(target)
    return Evaluated(demand, true, *band_per_s(demand, given, given.restart_s, backlogged=False))


def decide(vertex: Vertex, target: float, true: float, given: FlinkAutoscalerOptions, **state: Any) -> VertexDecision:
    evaluated = of_rates(target, true, given)
    return decide_vertex(vertex, evaluated, given, **{"now_s": 0.0, "restart_s": given.restart_s, **state})[0]


@pytest.mark.parametrize(
    ("utilisation", "changes", "parallelism", "target", "true", "becomes", "outside"),
    [
        pytest.param(1.0, {}, 10, 50, 100, 5, True, id="1-testParallelismScaling-half"),
        pytest.param(0.8, {}, 10, 50, 100, 8, False, id="2-testParallelismScaling-divisor"),
        pytest.param(0.8, {}, 10, 80, 100, 10, False, id="3-testParallelismScaling-no-change"),
        pytest.param(0.5, {}, 2, 100, 40, 10, True, id="4-testParallelismScaling-fivefold"),
        pytest.param(0.6, {}, 2, 100, 100, 4, True, id="5-testParallelismScaling-double"),
        pytest.param(1.0, {"max_down_factor": 0.5}, 10, 10, 100, 5, True, id="6-testParallelismScaling-down-by-0.5"),
        pytest.param(1.0, {"max_down_factor": 0.6}, 10, 10, 100, 4, True, id="6-testParallelismScaling-down-by-0.6"),
        pytest.param(1.0, {"max_up_factor": 0.5}, 10, 200, 10, 15, True, id="7-testParallelismScaling-up-by-0.5"),
        pytest.param(1.0, {"max_up_factor": 0.6}, 10, 200, 10, 16, True, id="7-testParallelismScaling-up-by-0.6"),
        pytest.param(0.7, {"vertex_min": 5}, 10, 100, 500, 5, True, id="8-testMinParallelismLimitIsUsed-limit"),
        pytest.param(0.7, {"vertex_min": 5}, 4, 100, 500, 4, False, id="8-testMinParallelismLimitIsUsed-below-it"),
    ],
)
def test_parallelism(
    utilisation: float,
    changes: dict[str, Any],
    parallelism: int,
    target: float,
    true: float,
    becomes: int,
    outside: bool,
) -> None:
    decision = decide(keyed(parallelism), target, true, options(utilisation, **changes))
    assert (decision.parallelism, decision.outside) == (becomes, outside)


@pytest.mark.parametrize(
    ("vertex", "factor", "mode", "becomes"),
    [
        pytest.param(source(6, 15), 0.4, LEGACY_EVEN, 3, id="9-testNumPartitionsAdjustment-down"),
        pytest.param(source(7, 15), 1.2, LEGACY_EVEN, 15, id="9-testNumPartitionsAdjustment-up"),
        pytest.param(source(24, 199), 4.0, LEGACY_EVEN, 199, id="10-testNumPartitionsAdjustment-even"),
        pytest.param(source(24, 199), 4.0, LEGACY_MOST, 100, id="10-testNumPartitionsAdjustment-maximise"),
        pytest.param(keyed(10, 128), 2.5, LEGACY_EVEN, 32, id="11-testParallelismComputationWithAdjustment-even"),
        pytest.param(keyed(10, 128), 2.5, LEGACY_MOST, 26, id="11-testParallelismComputationWithAdjustment-maximise"),
    ],
)
def test_alignment_of_a_scaled_parallelism(vertex: Vertex, factor: float, mode: Any, becomes: int) -> None:
    assert align(vertex, scaled(vertex, factor, options()), Limits(1, 200), mode) == becomes


def test_12_testScaleDownAfterInterval() -> None:
    given = options(1.0, scale_down_interval_s=60.0)
    pending: PendingScaleDown | None = None
    found = []
    for now_s, target in ((0.0, 800), (10.0, 900), (40.0, 720), (59.0, 640), (60.0, 700)):
        evaluated = of_rates(target, 1_000, given)
        decision, pending = decide_vertex(
            keyed(100), evaluated, given, now_s=now_s, restart_s=given.restart_s, pending=pending
        )
        found.append((decision.parallelism, decision.outside))
    assert found == [(100, False)] * 4 + [(90, False)]


@pytest.mark.parametrize(
    ("true", "becomes"),
    [
        pytest.param(94, 20, id="13-testIneffectiveScalingDetection-4-percent"),
        pytest.param(98, 20, id="13-testIneffectiveScalingDetection-9-percent"),
        pytest.param(100, 36, id="13-testIneffectiveScalingDetection-11-percent"),
    ],
)
def test_ineffective_scaling(true: float, becomes: int) -> None:
    history = (Rescale(0.0, 10, 20, true_per_s=90.0, expected_per_s=180.0),)
    decision = decide(keyed(20), 180, true, options(1.0, detect_ineffective=True), history=history)
    assert decision.parallelism == becomes
    assert decision.wanted > 20


def test_14_testParallelismScalingWithObservedScalingCoefficient() -> None:
    rates = ((4, 160.0), (2, 96.0), (8, 240.0))
    history = tuple(Rescale(float(k), p, p, rate, math.nan) for k, (p, rate) in enumerate(rates))
    given = options(0.5, learn_scalability=True)
    assert scalability(history, given) == 0.69
    assert decide(keyed(2), 100, 40, given, history=history).parallelism == 15
    assert decide(keyed(2), 100, 40, options(0.5), history=history).parallelism == 10


@pytest.mark.parametrize(
    ("catch_up_per_s", "catch_up_s", "band"),
    [
        pytest.param(0, 0.0, (778, 1_000), id="15-testUtilizationBoundaryComputation-no-catch-up"),
        pytest.param(350, 2.0, (1_128, 1_700), id="15-testUtilizationBoundaryComputation-catching-up"),
        pytest.param(0, 2.0, (778, 1_350), id="15-testUtilizationBoundaryComputation-caught-up"),
    ],
)
def test_bounds(catch_up_per_s: float, catch_up_s: float, band: tuple[float, float]) -> None:
    given = options(0.8, utilisation_max=0.9, utilisation_min=0.7, catch_up_s=catch_up_s)
    assert band_per_s(Demand(700, catch_up_per_s), given, 1.0, backlogged=False) == band


def test_16_testUtilizationBoundaryComputationWithRestartTimesTracking() -> None:
    given = options(0.8, utilisation_max=0.9, utilisation_min=0.7, catch_up_s=60.0, track_restarts=True)
    took_s = restart_s((Restart(0.0, 180.0), Restart(600.0, 300.0)), 1_000.0, given)
    assert band_per_s(Demand(700, 350), given, took_s, backlogged=False) == (1_128, 4_850)


def test_17_testLagBasedSourceScaling() -> None:
    graph = Graph((Vertex("source", 1, 720), Vertex("sink", 1, 720, {"source": False})))
    samples = [
        Sample(0.0, {"source": Measured(0, 0, lag=950), "sink": Measured(0)}),
        Sample(1.0, {"source": Measured(100, 200, lag=1_000), "sink": Measured(200)}),
    ]
    found = evaluate(graph, samples, options(catch_up_s=2.0), 0.0)
    assert found["source"].demand == Demand(150, 500)
    assert found["sink"].demand == Demand(300, 1_000)


@pytest.mark.parametrize(
    ("switch", "true"),
    [
        pytest.param(0.2, 350, id="18-testObservedTprEvaluation-busy"),
        pytest.param(0.1, 300, id="18-testObservedTprEvaluation-observed"),
    ],
)
def test_observed_or_from_busy_time(switch: float, true: float) -> None:
    samples = [
        Sample(0.0, {"v": Measured(0, load=0.1, observed_per_s=200.0)}),
        Sample(1.0, {"v": Measured(35, load=0.1, observed_per_s=400.0)}),
    ]
    assert evaluate(Graph((source(1),)), samples, options(observed_switch=switch), 0.0)["v"].true_per_s == true


def test_19_testObservedTprCollection() -> None:
    measured = Measured(0, in_per_s=500.0, lag=1e6)
    assert observed_per_s(measured, 0.6, (), options()) == pytest.approx(1_250.0)


@pytest.mark.parametrize(
    ("vertex", "target", "limits", "mode", "becomes"),
    [
        pytest.param(keyed(16, 128), 24, Limits(1, 200), "BALANCED", 26, id="20-AlignmentModeTest-balanced"),
        pytest.param(keyed(16, 128), 24, Limits(1, 200), "EVENLY_SPREAD", 32, id="20-AlignmentModeTest-even"),
        pytest.param(keyed(16, 128), 24, Limits(1, 200), "OFF", 24, id="20-AlignmentModeTest-off"),
        pytest.param(source(5, 12), 7, Limits(1, 8), "EVENLY_SPREAD", 7, id="21-AlignmentModeTest-none-found"),
        pytest.param(source(5, 12), 7, Limits(1, 8), LEGACY_EVEN, 6, id="21-AlignmentModeTest-legacy-looks-below"),
    ],
)
def test_alignment(vertex: Vertex, target: int, limits: Limits, mode: Any, becomes: int) -> None:
    assert align(vertex, target, limits, mode) == becomes


@pytest.mark.parametrize(
    ("rates", "changes"),
    [
        pytest.param((70, 85), {"source", "sink"}, id="22-testUtilizationBoundaries-one-outside"),
        pytest.param((70, 70), set(), id="22-testUtilizationBoundaries-both-inside"),
    ],
)
def test_all_change_together_or_none(rates: tuple[float, float], changes: set[str]) -> None:
    graph = Graph((Vertex("source", 10, 720), Vertex("sink", 10, 720, {"source": False})))
    given = options(0.6, utilisation_max=0.8, utilisation_min=0.4)
    vertices = {v.name: decide(v, rate, 100, given) for v, rate in zip(graph, rates, strict=True)}
    assert set(gate(graph, vertices)) == changes


def chain(parallelism: int) -> Graph:
    return Graph((Vertex("source", parallelism, 720), Vertex("sink", parallelism, 720, {"source": True})))


def chain_samples(per_s: float, busy: float, lags: tuple[float, float]) -> list[Sample]:
    return [
        Sample(
            at_s,
            {
                "source": Measured(per_s * at_s, per_s * at_s, busy, per_s, lag=lag),
                "sink": Measured(per_s * at_s, 0, busy, per_s),
            },
        )
        for at_s, lag in zip((0.0, 1.0), lags, strict=True)
    ]


@pytest.mark.parametrize(
    ("parallelism", "per_s", "busy", "lags", "becomes"),
    [
        pytest.param(1, 500, 0.85, (2_000, 2_000), 4, id="23-BacklogBasedScalingTest"),
        pytest.param(4, 1_800, 1.0, (2_000, 400), 2, id="24-BacklogBasedScalingTest-after-catching-up"),
    ],
)
def test_the_whole_loop(parallelism: int, per_s: float, busy: float, lags: tuple[float, float], becomes: int) -> None:
    given = options(0.8, catch_up_s=2.0, restart_s=1.0)
    found = decide_job(chain(parallelism), chain_samples(per_s, busy, lags), JobState(), given, 1.0)
    assert found.changes == {"source": becomes, "sink": becomes}


def test_23_worked_by_hand() -> None:
    given = options(0.8, catch_up_s=2.0, restart_s=1.0)
    found = evaluate(chain(1), chain_samples(500, 0.85, (2_000, 2_000)), given, 1.0)["source"]
    assert found.demand == Demand(500, 1_000)
    assert found.true_per_s == pytest.approx(588.2, abs=0.05)

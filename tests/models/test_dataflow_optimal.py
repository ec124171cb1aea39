"""Equations 7 and 8: the original's vectors, the paper's examples, and what must hold over any dataflow."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.dataflow.graph import Dataflow, Operator
from perdix.models.dataflow.optimal import Sizing, global_parallelism, optimal_parallelism
from perdix.models.dataflow.rates import OperatorRates

NAN = float("nan")


def dataflow(edges: Iterable[tuple[str, str]]) -> Dataflow:
    """The dataflow of ``(upstream, downstream)`` edges."""
    inputs: dict[str, list[str]] = {}
    for upstream, downstream in edges:
        inputs.setdefault(upstream, [])
        inputs.setdefault(downstream, []).append(upstream)
    return Dataflow.of(Operator(name, tuple(of)) for name, of in inputs.items())


CHAIN = dataflow([("Source", "Op1"), ("Op1", "Op2")])
TWO = dataflow([("Source1", "Op1"), ("Source2", "Op1"), ("Op1", "Op2")])


def rates(true_in: float, true_out: float, instances: int = 1, **more: float) -> OperatorRates:
    """Rates of an operator that is always busy, unless told."""
    seen_in, seen_out = more.get("seen_in", true_in), more.get("seen_out", true_out)
    return OperatorRates(instances, true_in, true_out, seen_in, seen_out)


def source(per_s: float, instances: int = 1, **more: float) -> OperatorRates:
    return rates(0.0, per_s, instances, **more)


@pytest.mark.shared
def test_the_vectors_of_the_original_program(shared_data: Path) -> None:
    cases = json.loads((shared_data / "ds2" / "test_vectors_derived.json").read_text())
    assert len(cases) == 28
    for case in cases:
        graph = dataflow(case["edges"])
        table = case["rates_true_in_true_out_obs_in_obs_out"]
        window = {name: OperatorRates(case["operators"][name], *values) for name, values in table.items()}
        found = optimal_parallelism(graph, [window])
        sources = {name: case["operators"][name] for name in graph.sources}
        assert found.parallelism() == {**case["expected_parallelism"], **sources}, case["name"]
        assert found.unrounded_of() == pytest.approx(case["unrounded"], rel=1e-9), case["name"]
        assert found.reasons == ({},), case["name"]


@pytest.mark.parametrize(
    ("graph", "source_per_s", "first", "second", "becomes"),
    [
        pytest.param(CHAIN, 100, (50, 400), (100, 200), (2, 8), id="chain-0"),
        pytest.param(CHAIN, 200, (40, 700), (99, 200), (5, 36), id="chain-1"),
        pytest.param(CHAIN, 200, (10, 700), (201, 200), (20, 70), id="chain-7"),
        pytest.param(TWO, 100, (50, 400), (100, 200), (4, 16), id="two-sources-0"),
        pytest.param(TWO, 200, (40, 700), (99, 200), (10, 71), id="two-sources-1"),
        pytest.param(TWO, 200, (10, 700), (201, 200), (40, 140), id="two-sources-7"),
        pytest.param(CHAIN, 40, (10, 100), (200, 1), (4, 2), id="figure-2"),
        pytest.param(CHAIN, 1e6, (1e5, 2e6), (1e6, 1), (10, 20), id="heron-wordcount"),
    ],
)
def test_published_results(
    graph: Dataflow,
    source_per_s: float,
    first: tuple[float, float],
    second: tuple[float, float],
    becomes: tuple[int, int],
) -> None:
    window = {name: source(source_per_s) for name in graph.sources} | {"Op1": rates(*first), "Op2": rates(*second)}
    found = optimal_parallelism(graph, [window]).parallelism()
    assert (found["Op1"], found["Op2"]) == becomes
    assert {found[name] for name in graph.sources} == {1}, "sources keep what they run"


def wordcount(epoch: int) -> dict[str, OperatorRates]:
    """Rates near the first two epochs of the original's example: source, FlatMap on 2, Count on 1."""
    true_source, seen_source = ((109_705.4, 79_940.1), (116_939.8, 79_979.97))[epoch]
    flat_map = ((245_126.4, 2_490_645.8), (254_544.5, 2_586_348.3))[epoch]
    count = (1_845_391.1, 1_663_458.8)[epoch]
    return {
        "Source": source(true_source, seen_out=seen_source),
        "Op1": rates(*flat_map, instances=2),
        "Op2": rates(count, 0.0),
    }


def test_the_target_rate_ratio_raises_all_results_where_nothing_is_scaled_out() -> None:
    windows = [wordcount(0), wordcount(1)]
    plain = optimal_parallelism(CHAIN, windows)
    assert [plain.parallelism(k) for k in (0, 1)] == [{"Source": 1, "Op1": 1, "Op2": 1}] * 2
    assert plain.unrounded_of(0) == pytest.approx({"Op1": 0.8951, "Op2": 0.6040}, abs=1e-4)
    assert plain.unrounded_of(1) == pytest.approx({"Op1": 0.9188, "Op2": 0.7143}, abs=1e-4)
    raised = optimal_parallelism(CHAIN, windows, sizing=Sizing(target_rate_ratio=1.0))
    assert raised.raised == pytest.approx([1.3723, 1.4621], abs=1e-4)
    assert [raised.parallelism(k) for k in (0, 1)] == [{"Source": 1, "Op1": 2, "Op2": 2}] * 2
    assert "raised by 1.372" in raised.reasons[0]["Op1"]


def test_the_target_rate_ratio_waits_where_something_is_scaled_out() -> None:
    busy = optimal_parallelism(CHAIN, [wordcount(0)], {"Source": 1e6}, sizing=Sizing(target_rate_ratio=1.0))
    assert busy.parallelism() == {"Source": 1, "Op1": 9, "Op2": 6}
    assert busy.raised.tolist() == [1.0]


def test_head_room_is_added_once_and_not_passed_on() -> None:
    window = {"Source": source(100), "Op1": rates(50, 400), "Op2": rates(100, 200)}
    found = optimal_parallelism(CHAIN, [window], sizing=Sizing(rate_factor=0.25))
    assert found.parallelism() == {"Source": 1, "Op1": 3, "Op2": 10}
    assert found.unrounded_of() == {"Op1": 2.0, "Op2": 8.0}


def test_a_split_gives_each_way_its_measured_part() -> None:
    graph = dataflow([("s", "split"), ("split", "left"), ("split", "right"), ("left", "join"), ("right", "join")])
    parts = OperatorRates(1, 200.0, 200.0, 100.0, 100.0, {"left": 25.0, "right": 75.0})
    window = {"s": source(1000), "split": parts} | {name: rates(100, 100) for name in ("left", "right", "join")}
    found = optimal_parallelism(graph, [window]).parallelism()
    assert found == {"s": 1, "split": 5, "left": 3, "right": 8, "join": 10}
    window["split"] = OperatorRates(1, 200.0, 200.0, 100.0, 100.0)  # not measured by edge: the paper's adjacency
    assert optimal_parallelism(graph, [window]).parallelism()["join"] == 20


@pytest.mark.parametrize(
    ("first", "why"),
    [
        pytest.param(None, "did not report", id="missing"),
        pytest.param(OperatorRates(3, NAN, NAN, 0.0, 0.0), "idle", id="idle"),
        pytest.param(OperatorRates(3, 0.0, 0.0, 0.0, 0.0), "idle", id="idle-as-zero"),
        pytest.param(OperatorRates(3, math.inf, math.inf, 10.0, 10.0), "no measured useful time", id="infinite"),
        pytest.param(OperatorRates(3, NAN, NAN, NAN, NAN), "its true rate is not known", id="not-a-number"),
    ],
)
def test_what_cannot_be_sized_keeps_what_runs_and_says_why(first: OperatorRates | None, why: str) -> None:
    window = {"Source": source(100), "Op2": rates(100, 200, instances=2)} | ({"Op1": first} if first else {})
    found = optimal_parallelism(CHAIN, [window], running={"Op1": 3})
    assert found.parallelism() == {"Source": 1, "Op1": 3, "Op2": 2}
    assert why in found.reasons[0]["Op1"]
    assert found.reasons[0]["Op2"] == "what reaches it from Op1 is not known"


def test_bounds_are_kept_and_named() -> None:
    graph = Dataflow.of([Operator("s"), Operator("a", ("s",), maximum=4), Operator("b", ("a",), scalable=False)])
    window = {"s": source(1000), "a": rates(100, 100), "b": rates(100, 100, instances=2)}
    found = optimal_parallelism(graph, [window], sizing=Sizing(minimum=2))
    assert found.parallelism() == {"s": 1, "a": 4, "b": 2}
    assert found.reasons[0] == {"a": "10 are needed; 4 is the most that it may have", "b": "it is not to be scaled"}
    few = optimal_parallelism(graph, [window], {"s": 10}, sizing=Sizing(minimum=2))
    assert (few.parallelism()["a"], few.reasons[0]["a"]) == (2, "1 would do; 2 is the least")


def test_a_source_without_a_known_rate_should_emit_what_it_could_or_else_what_it_did() -> None:
    rest = {"Op1": rates(50, 400), "Op2": rates(100, 200)}
    for emitted, becomes in ((source(100, seen_out=60), 2), (source(NAN, seen_out=60), 2), (source(NAN), 1)):
        found = optimal_parallelism(CHAIN, [{"Source": emitted, **rest}], {"Source": NAN})
        assert found.parallelism()["Op1"] == becomes
    assert found.reasons[0]["Op1"] == "what reaches it from Source is not known"


def test_windows_are_sized_each_by_itself_with_their_own_source_rates() -> None:
    window = {"Source": source(100), "Op1": rates(50, 400), "Op2": rates(100, 200)}
    found = optimal_parallelism(CHAIN, [window] * 3, {"Source": [50, 100, 200]})
    assert found.instances.tolist() == [[1, 1, 4], [1, 2, 8], [1, 4, 16]]
    assert found.target_per_s.tolist() == [[50, 50, 400], [100, 100, 800], [200, 200, 1600]]


def test_sources_are_sized_where_that_is_asked_for() -> None:
    window = {"Source": source(100, instances=2), "Op1": rates(50, 400), "Op2": rates(100, 200)}
    for told, becomes in ((275.0, 6), (NAN, 2)):
        found = optimal_parallelism(CHAIN, [window], {"Source": told}, sizing=Sizing(sources=True))
        assert found.parallelism()["Source"] == becomes
    quiet = window | {"Source": OperatorRates(2, NAN, NAN, 0.0, 0.0)}
    found = optimal_parallelism(CHAIN, [quiet], {"Source": 100.0}, sizing=Sizing(sources=True))
    assert (found.parallelism()["Source"], "idle" in found.reasons[0]["Source"]) == (2, True)


@pytest.mark.parametrize("huge", [1e300, 1e-300, 5e-324])
def test_rates_that_overflow_are_bounded(huge: float) -> None:
    window = {"Source": source(1e300), "Op1": rates(huge, 1e300), "Op2": rates(1e-300, 1.0)}
    found = optimal_parallelism(CHAIN, [window], sizing=Sizing(maximum=50))
    assert max(found.parallelism().values()) <= 50


def test_wrong_use_is_named() -> None:
    with pytest.raises(ValueError, match="no window"):
        optimal_parallelism(CHAIN, [])
    with pytest.raises(ValueError, match="2 rates for 1 windows"):
        optimal_parallelism(CHAIN, [{}], {"Source": [1.0, 2.0]})
    for wrong in ({"tolerance": 1.0}, {"rate_factor": -1.0}, {"target_rate_ratio": 0.5}, {"minimum": 0}):
        with pytest.raises(ValueError, match="give"):
            Sizing(**wrong)  # type: ignore[arg-type]


def test_workers_that_run_all_operators_are_the_sum() -> None:
    assert global_parallelism({"a": 0.4, "b": 0.35, "c": 1.25}) == 2
    assert global_parallelism({"a": 0.4, "b": 0.35, "c": 1.26}) == 3
    assert global_parallelism({"a": 0.4, "b": 0.6}, Sizing(rate_factor=0.5)) == 2
    with pytest.raises(ValueError, match="b not known"):
        global_parallelism({"a": 0.4, "b": NAN})


# what must hold over any dataflow

POSITIVE = st.floats(0.5, 5_000.0)


@st.composite
def dataflows(draw: st.DrawFn) -> tuple[Dataflow, dict[str, OperatorRates], dict[str, float]]:
    """Any acyclic dataflow with linear operators, and what its sources should emit."""
    count = draw(st.integers(2, 7))
    operators, window, targets = [], {}, {}
    for index in range(count):
        name = f"o{index}"
        ups = draw(st.lists(st.sampled_from(range(index)), unique=True, max_size=3)) if index else []
        operators.append(Operator(name, tuple(f"o{k}" for k in ups)))
        instances = draw(st.integers(1, 6))
        if not ups:
            targets[name] = draw(POSITIVE)
            window[name] = OperatorRates(instances, 0.0, 100.0, 0.0, 90.0)
            continue
        each, selectivity = draw(POSITIVE), draw(st.floats(0.01, 3.0))
        total = each * instances
        window[name] = OperatorRates(instances, total, total * selectivity, total / 2, total * selectivity / 2)
    return Dataflow.of(operators), window, targets


@settings(max_examples=60, deadline=None)
@given(dataflows())
def test_results_suffice_and_no_smaller_ones_do(
    case: tuple[Dataflow, dict[str, OperatorRates], dict[str, float]],
) -> None:
    graph, window, targets = case
    found = optimal_parallelism(graph, [window], targets).parallelism()
    arriving: dict[str, float] = {}
    for operator in graph:  # run the dataflow at those sizes: nothing may wait, and one instance less would
        name, seen = operator.name, window[operator.name]
        if operator.is_source:
            arriving[name] = targets[name]
            continue
        flow = sum(arriving[up] for up in operator.inputs)
        each = seen.true_processing_per_s / seen.instances
        assert found[name] * each >= flow * (1 - 1e-5)
        assert found[name] == 1 or (found[name] - 1) * each < flow
        arriving[name] = flow * seen.true_output_per_s / seen.true_processing_per_s


@settings(max_examples=40, deadline=None)
@given(dataflows(), st.lists(st.floats(0.1, 10.0), min_size=1, max_size=4))
def test_many_windows_at_once_are_each_window_by_itself(
    case: tuple[Dataflow, dict[str, OperatorRates], dict[str, float]], factors: list[float]
) -> None:
    graph, window, targets = case
    windows = [window if k % 2 == 0 else {n: r for n, r in window.items() if n != "o1"} for k in range(len(factors))]
    each = {name: [value * factor for factor in factors] for name, value in targets.items()}
    together = optimal_parallelism(graph, windows, each, sizing=Sizing(target_rate_ratio=1.2))
    for k, seen_window in enumerate(windows):
        alone = optimal_parallelism(
            graph,
            [seen_window],
            {name: values[k] for name, values in each.items()},
            sizing=Sizing(target_rate_ratio=1.2),
        )
        assert together.parallelism(k) == alone.parallelism()
        assert together.unrounded_of(k) == alone.unrounded_of()
        assert together.reasons[k] == alone.reasons[0]


@settings(max_examples=40, deadline=None)
@given(dataflows(), st.floats(1.0, 20.0))
def test_more_arriving_never_takes_fewer_instances(
    case: tuple[Dataflow, dict[str, OperatorRates], dict[str, float]], factor: float
) -> None:
    graph, window, targets = case
    less = optimal_parallelism(graph, [window], targets)
    more = optimal_parallelism(graph, [window], {name: value * factor for name, value in targets.items()})
    assert np.all(more.instances >= less.instances)


@settings(max_examples=40, deadline=None)
@given(dataflows(), st.sampled_from([2.0, 1e3, 3.7, 1e-3]))
def test_the_unit_of_records_does_not_matter(
    case: tuple[Dataflow, dict[str, OperatorRates], dict[str, float]], factor: float
) -> None:
    graph, window, targets = case
    scaled = {
        name: OperatorRates(
            measured.instances,
            measured.true_processing_per_s * factor,
            measured.true_output_per_s * factor,
            measured.observed_processing_per_s * factor,
            measured.observed_output_per_s * factor,
        )
        for name, measured in window.items()
    }
    found = optimal_parallelism(graph, [window], targets)
    again = optimal_parallelism(graph, [scaled], {name: value * factor for name, value in targets.items()})
    np.testing.assert_allclose(again.unrounded, found.unrounded, rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(dataflows(), st.randoms(use_true_random=False))
def test_the_order_in_which_operators_are_told_does_not_matter(
    case: tuple[Dataflow, dict[str, OperatorRates], dict[str, float]], random: object
) -> None:
    graph, window, targets = case
    shuffled = list(graph.operators)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = optimal_parallelism(Dataflow.of(shuffled), [window], targets).unrounded_of()
    assert again == pytest.approx(optimal_parallelism(graph, [window], targets).unrounded_of(), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 500), st.floats(0.001, 1e7), st.floats(0.1, 10.0))
def test_an_error_of_rounding_never_adds_an_instance(instances: int, each_per_s: float, selectivity: float) -> None:
    arriving = instances * each_per_s
    window = {
        "Source": source(arriving / selectivity),
        "Op1": rates(arriving * 3, arriving * 3 * selectivity),
        "Op2": rates(each_per_s * 7, 0.0, instances=7),
    }
    assert optimal_parallelism(CHAIN, [window]).parallelism()["Op2"] == instances


def test_a_chain_of_equal_operators_takes_the_same_everywhere() -> None:
    names = [f"o{k}" for k in range(30)]
    graph = dataflow(pairwise(names))
    window = {name: rates(10.0, 10.0) for name in names}
    found = optimal_parallelism(graph, [window], {"o0": 70.0})
    assert set(found.parallelism().values()) == {1, 7}
    assert list(found.parallelism().values())[1:] == [7] * 29


def test_an_input_that_is_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="operator 'b': its input a is named twice"):
        Dataflow.of([Operator("a"), Operator("b", ("a", "a"))])


@pytest.mark.parametrize(("bounds", "said"), [((0, None), "0 to any number"), ((5, 2), "5 to 2")])
def test_bounds_that_cannot_be_are_refused_with_the_fix(bounds: tuple[int, int | None], said: str) -> None:
    with pytest.raises(ValueError, match=f"bounds of {said} of instances; give 1 or more, the smaller first$"):
        Sizing(minimum=bounds[0], maximum=bounds[1])

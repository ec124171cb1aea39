"""The twin of a dataflow against what must be true of any: conservation, back-pressure, useful time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.ds2_logs import write_ds2_logs
from perdix.models.dataflow.rates import InstanceWindow
from perdix.telemetry.window import Values
from perdix.twin.dataflow.job import DataflowTwin
from perdix.twin.dataflow.optimum import optimum
from perdix.twin.dataflow.parameters import DataflowParameters, load_dataflow

CALM = {"noise": {"speed": 0.0, "instrumentation": 0.0}, "restart": {"warm_up_s": 0}}


def calm(name: str) -> DataflowParameters:
    """Return the first phase of a shipped dataflow without noise, bursts or a warm-up, its buffers small."""
    said = load_dataflow(name).model_dump(by_alias=True)
    for operator in said["operators"].values():
        operator["bursts"], operator["buffer_records"] = None, min(operator["buffer_records"], 20_000)
        if operator["source"] is not None:
            operator["source"]["phases"] = operator["source"]["phases"][:1]
    return DataflowParameters.model_validate({**said, **CALM})


def chain(per_s: float = 1_000.0, *, kind: str = "generator", **more: Any) -> DataflowParameters:
    """Return source -> parse (500/s an instance, two out per one in) -> sink (1,000/s an instance)."""
    return DataflowParameters.model_validate(
        {
            "name": "chain",
            "operators": {
                "source": {"source": {"kind": kind, "phases": [{"per_s": per_s}]}, "cost_us": 10},
                "parse": {"inputs": ["source"], "selectivity": 2, "capacity_per_s": 500, "buffer_records": 300},
                "sink": {"inputs": ["parse"], "selectivity": 0, "capacity_per_s": 1_000, "buffer_records": 300},
            },
            **CALM,
            **more,
        }
    )


def achieved_per_s(twin: DataflowTwin, since_s: int) -> Mapping[str, float]:
    """Return source -> mean records/s that it emitted since a second."""
    seconds = twin.ledger.between(since_s - twin.start_s)
    return {name: float(seconds.processed[:, twin.graph.names.index(name)].mean()) for name in twin.graph.sources}


def back_pressure(twin: DataflowTwin, since_s: int) -> Mapping[str, float]:
    """Return operator -> share of the time since a second in which it waited for room in its output."""
    seconds = twin.ledger.between(since_s - twin.start_s)
    shares = seconds.back_pressured_s.sum(axis=0) / seconds.running.sum()
    return dict(zip(twin.graph.names, shares.tolist(), strict=True))


@st.composite
def dags(draw: st.DrawFn) -> tuple[DataflowParameters, Mapping[str, int]]:
    """Return any dataflow of up to seven operators, and a parallelism to change to."""
    count = draw(st.integers(2, 7))
    operators: dict[str, Any] = {}
    for k in range(count):
        ups = draw(st.lists(st.sampled_from(list(operators)), unique=True, max_size=3)) if k else []
        if not ups and k == count - 1:
            ups = [next(iter(operators))]
        shape: dict[str, Any] = {"start": draw(st.integers(1, 4)), "scalable": True, "maximum": 8}
        if ups:
            shape |= {
                "inputs": dict.fromkeys(ups, 1.0) if draw(st.booleans()) else dict.fromkeys(ups, 1 / count),
                "capacity_per_s": draw(st.floats(10, 2_000)),
                "selectivity": draw(st.sampled_from([0.0, 0.1, 1.0, 7.0])),
                "buffer_records": draw(st.floats(1, 5_000)),
                "hottest": draw(st.sampled_from([None, 0.6])),
                "overhead": {"contention": draw(st.sampled_from([0.0, 0.05]))},
            }
        else:
            kind = draw(st.sampled_from(["generator", "log"]))
            rates = [{"from_s": 0, "per_s": draw(st.floats(0, 900))}, {"from_s": 25, "per_s": draw(st.floats(0, 900))}]
            shape |= {"source": {"kind": kind, "phases": rates, "noise": 0.1}, "cost_us": 100}
        operators[f"o{k}"] = shape
    shares: dict[str, list[float]] = {}
    for operator in operators.values():
        for up, share in operator.get("inputs", {}).items():
            shares.setdefault(up, []).append(share)
    for operator in operators.values():
        for up in operator.get("inputs", {}):
            if 1.0 in shares[up]:
                operator["inputs"][up] = 1.0
    noise = {"speed": 0.1}
    said = {"name": "any", "operators": operators, "noise": noise, "restart": {"standstill": {"median_s": 4}}}
    target = {name: draw(st.integers(1, 8)) for name in operators}
    return DataflowParameters.model_validate(said), target


def of_operators(twin: DataflowTwin, seconds: Values) -> dict[str, float]:
    """Return operator -> sum over all seconds."""
    return dict(zip(twin.graph.names, seconds.sum(axis=0), strict=True))


def emitted_share(twin: DataflowTwin) -> float:
    seconds = twin.ledger.between(0)
    return of_operators(twin, seconds.processed)["source"] / of_operators(twin, seconds.target)["source"]


@settings(max_examples=40, deadline=None)
@given(dags(), st.integers(0, 99))
def test_records_are_neither_lost_nor_made(any_dag: tuple[DataflowParameters, Mapping[str, int]], seed: int) -> None:
    parameters, target = any_dag
    twin = DataflowTwin(parameters, seed)
    twin.step(20)
    twin.rescale(target, "once")
    twin.step(40)
    seconds, operators = twin.ledger.between(0), parameters.operators
    processed, offered = of_operators(twin, seconds.processed), of_operators(twin, seconds.target)
    held, received = dict(zip(twin.graph.edges, seconds.held[-1], strict=True)), dict.fromkeys(operators, 0.0)
    for up, down in twin.graph.edges:
        sent = processed[up] * operators[up].selectivity * operators[down].inputs[up]
        assert held[up, down] >= -1e-6 * (1.0 + sent)
        received[down] += sent - held[up, down]
    lag = dict(zip(twin.graph.names, seconds.lag[-1], strict=True))
    for name, operator in operators.items():
        if operator.source is None:
            assert processed[name] == pytest.approx(received[name], rel=1e-9, abs=1e-6)
        elif operator.source.kind == "log":
            assert offered[name] == pytest.approx(processed[name] + lag[name])
        else:
            assert processed[name] <= offered[name] * (1 + 1e-9)
    working = seconds.processed[seconds.running > 0]
    assert (working >= -1e-9).all()
    assert (seconds.back_pressured_s >= 0).all()
    assert (seconds.back_pressured_s <= 1 + 1e-9).all()


@settings(max_examples=25, deadline=None)
@given(dags())
def test_no_buffer_grows_beyond_its_bound(any_dag: tuple[DataflowParameters, Mapping[str, int]]) -> None:
    twin = DataflowTwin(any_dag[0], 1)
    for _ in range(30):
        twin.step()
        assert max(twin.queues.values()) <= 1 + 1e-9


@settings(max_examples=15, deadline=None)
@given(dags(), st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_how_time_is_cut_makes_no_difference(
    any_dag: tuple[DataflowParameters, Mapping[str, int]], cuts: list[int]
) -> None:
    parameters, target = any_dag
    whole, cut = DataflowTwin(parameters, 5), DataflowTwin(parameters, 5)
    whole.rescale(target, "a")
    cut.rescale(target, "a")
    whole.step(sum(cuts))
    for seconds in cuts:
        cut.step(seconds)
    for row, again in zip(vars(whole.ledger.between(0)).values(), vars(cut.ledger.between(0)).values(), strict=True):
        np.testing.assert_array_equal(row, again)
    assert whole.rescales == cut.rescales


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    def measured(seed: int) -> InstanceWindow:
        twin = DataflowTwin(load_dataflow("nexmark-q3"), seed)
        twin.step(60)
        return twin.windows(30)["join"]

    assert (measured(1).useful_s == measured(1).useful_s).all()
    assert (measured(1).useful_s != measured(2).useful_s).any()


def test_luck_does_not_depend_on_what_is_done() -> None:
    parameters = load_dataflow("nexmark-q1")
    still, moved = DataflowTwin(parameters, 3), DataflowTwin(parameters, 3)
    moved.rescale({"mapper": 30, "sink": 8}, "x")
    still.step(300)
    moved.step(300)
    assert still.offered_per_s(0) == moved.offered_per_s(0)
    rows = slice(200, 300)  # where both are long warm: the source works at the pace of the same seconds
    pace = [
        twin.ledger.between(200).worked_s[:, 0] / twin.ledger.between(200).processed[:, 0] for twin in (still, moved)
    ]
    assert pace[0] == pytest.approx(pace[1], rel=1e-12), rows


def test_back_pressure_reaches_the_source_and_the_bottleneck_has_none() -> None:
    twin = DataflowTwin(chain())
    twin.step(60)
    assert achieved_per_s(twin, 30)["source"] == pytest.approx(500.0)
    pressure = back_pressure(twin, 30)
    assert pressure["source"] == pytest.approx(1 - 500 * 10e-6)
    assert pressure["sink"] == 0.0
    assert twin.queues["source", "parse"] == pytest.approx(1.0)


def test_a_bottleneck_downstream_holds_up_all_before_it() -> None:
    twin = DataflowTwin(chain().with_start({"parse": 4}))
    twin.step(60)
    assert achieved_per_s(twin, 30)["source"] == pytest.approx(500.0), "the sink takes 1,000/s, two per record"
    pressure = back_pressure(twin, 30)
    assert pressure["parse"] == pytest.approx(1 - 500 / 2_000)
    assert pressure["source"] > 0.9


def test_stop_and_go_shows_what_is_missing_of_the_rate() -> None:
    twin = DataflowTwin(chain(back_pressure="stop-and-go"))
    twin.step(60)
    assert back_pressure(twin, 30)["source"] == pytest.approx(0.5)
    assert achieved_per_s(twin, 30)["source"] == pytest.approx(500.0)


def test_what_stops_the_sources_is_told_of_all_that_feeds_it() -> None:
    twin = DataflowTwin(chain(back_pressure="stop-and-go").with_start({"parse": 4}))
    twin.step(100)
    pressure = back_pressure(twin, 50)
    assert pressure["source"] == pressure["parse"] == pytest.approx(0.5, abs=0.05)
    assert pressure["sink"] == 0.0


def test_large_queues_hide_a_bottleneck_until_they_are_full_and_then_empty_slowly() -> None:
    twin = DataflowTwin(load_dataflow("heron-wordcount").with_start({"flatmap": 5, "count": 20}))
    twin.step(400)
    assert back_pressure(twin, 0)["source"] == 0.0, "5 x 700,000 sentences fill at half a million a minute"
    twin.step(200)
    assert back_pressure(twin, 500)["source"] == 1.0, "and half of them must be gone first"
    twin.step(8_000)
    assert back_pressure(twin, 600)["source"] == pytest.approx(0.5, abs=0.03)


def test_a_log_keeps_what_a_generator_never_makes_up() -> None:
    generator, log = DataflowTwin(chain()), DataflowTwin(chain(kind="log"))
    for twin in (generator, log):
        twin.step(100)
        twin.rescale({"parse": 6, "sink": 6}, "out")
        twin.step(300)
    assert generator.lag_records == {}
    assert emitted_share(generator) < 0.9
    assert log.lag_records["source"] == pytest.approx(0.0, abs=1e-6)
    assert emitted_share(log) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["heron-wordcount", "flink-wordcount", "nexmark-q1", "nexmark-q3", "nexmark-q8"])
def test_the_optimum_has_no_back_pressure_and_one_less_does_not_sustain(name: str) -> None:
    parameters = calm(name)
    rates = parameters.target_per_s(0)
    best = dict(optimum(parameters, rates))
    twin = DataflowTwin(parameters.with_start(best))
    twin.step(400)
    assert max(back_pressure(twin, 0).values()) == 0.0
    assert achieved_per_s(twin, 200) == pytest.approx(rates)
    main = parameters.shown
    short = DataflowTwin(parameters.with_start({**best, main: best[main] - 1}))
    short.step(3_000)
    assert sum(achieved_per_s(short, 2_000).values()) < 0.999 * sum(rates.values())
    assert max(back_pressure(short, 2_000).values()) > 0.0


@pytest.mark.parametrize("query", ["q1", "q2", "q3", "q5", "q8", "q11"])
def test_noise_and_bursts_leave_the_optimum_of_nexmark_nearly_free_of_back_pressure(query: str) -> None:
    parameters = load_dataflow(f"nexmark-{query}")
    rates = parameters.target_per_s(0)
    twin = DataflowTwin(parameters.with_start(optimum(parameters, rates)), 2)
    twin.step(900)
    for source, achieved in achieved_per_s(twin, 0).items():
        assert achieved == pytest.approx(rates[source], rel=2e-3)


def test_useful_time_gives_the_true_rate_whether_or_not_it_is_busy() -> None:
    for per_s in (100.0, 1_000.0):
        twin = DataflowTwin(chain(per_s))
        twin.step(60)
        window = twin.windows(30)["parse"]
        assert window.processed / window.useful_s == pytest.approx([500.0])
        assert window.window_s == 30.0


def test_useful_time_is_right_within_its_noise() -> None:
    parameters = load_dataflow("nexmark-q1")
    twin = DataflowTwin(parameters, 4)
    twin.step(120)
    window = twin.windows(60)["mapper"]
    each = window.processed / window.useful_s
    true = 1.0 / parameters.operators["mapper"].true_cost_s(8)
    assert each.mean() == pytest.approx(true, rel=0.02)
    assert 0.003 < each.std() / true < 0.03


def test_what_is_not_seen_is_missing_from_useful_time() -> None:
    said = chain(2_000.0).model_dump(by_alias=True)
    said["operators"]["parse"]["overhead"] = {"contention": 0.1, "unseen": 0.5}
    twin = DataflowTwin(DataflowParameters.model_validate(said).with_start({"parse": 6, "sink": 8}))
    twin.step(60)
    window = twin.windows(30)["parse"]
    assert window.processed / window.useful_s == pytest.approx(np.full(6, 500 / 1.25))
    assert achieved_per_s(twin, 30)["source"] == pytest.approx(6 * 500 / 1.5), "what it really takes"
    assert window.useful_s == pytest.approx(np.full(6, 30 * 1.25 / 1.5))


def test_a_hot_instance_shows_and_stops_all() -> None:
    twin = DataflowTwin(chain().with_skew(0.5, ("parse",)).with_start({"parse": 5, "sink": 8}))
    twin.step(60)
    window = twin.windows(30)["parse"]
    assert window.processed / window.processed.sum() == pytest.approx([0.5, 0.125, 0.125, 0.125, 0.125])
    assert window.useful_s[0] == pytest.approx(30.0)
    assert achieved_per_s(twin, 30)["source"] == pytest.approx(1_000.0)
    assert window.processed / window.useful_s == pytest.approx(np.full(5, 500.0)), "true rates know nothing of skew"


def test_copies_and_splits_are_told_apart_by_what_is_sent() -> None:
    twin = DataflowTwin(
        DataflowParameters.model_validate(
            {
                "name": "fork",
                "operators": {
                    "s": {"source": {"phases": [{"per_s": 100}]}},
                    "left": {"inputs": {"s": 0.3}, "cost_us": 1},
                    "right": {"inputs": {"s": 0.7}, "cost_us": 1},
                    "all": {"inputs": ["left"], "cost_us": 1},
                    "too": {"inputs": ["left"], "cost_us": 1},
                },
                **CALM,
            }
        )
    )
    twin.step(10)
    windows = twin.windows(0)
    assert windows["s"].sent == pytest.approx({"left": 300, "right": 700})
    assert windows["s"].produced.sum() == pytest.approx(1_000)
    assert windows["left"].sent == {}, "everything goes to both"
    assert windows["left"].produced.sum() == pytest.approx(300)


def test_a_rescale_takes_time_and_nothing_is_seen_meanwhile() -> None:
    twin = DataflowTwin(load_dataflow("flink-wordcount"), 1)
    twin.step(40)
    assert twin.rescale({"flatmap": 19, "count": 11}, "k")
    assert not twin.rescale({"flatmap": 19, "count": 11}, "k"), "the same key again"
    assert not twin.rescale({"flatmap": 19}, "other"), "that is what was asked for"
    twin.step(10)
    assert not twin.settled
    assert twin.parallelism["flatmap"] == 10
    assert twin.windows(0) == {}
    twin.step(90)
    assert 20 < twin.started_s - 40 < 70
    assert twin.parallelism["flatmap"] == 19
    assert twin.windows(0)["flatmap"].window_s == twin.now_s - twin.started_s


@pytest.mark.parametrize(
    ("wanted", "words"),
    [({"flatmap": 37}, "outside 1..36"), ({"flat": 3}, "no operator 'flat'"), ({"source": 3}, "not to be scaled")],
)
def test_what_cannot_run_is_refused(wanted: dict[str, int], words: str) -> None:
    twin = DataflowTwin(load_dataflow("flink-wordcount"))
    with pytest.raises(ValueError, match=words):
        twin.rescale(wanted, "k")


def test_a_key_belongs_to_one_parallelism() -> None:
    twin = DataflowTwin(load_dataflow("flink-wordcount"))
    twin.rescale({"flatmap": 12}, "k")
    with pytest.raises(ValueError, match="another key"):
        twin.rescale({"flatmap": 13}, "k")
    with pytest.raises(ValueError, match="backwards"):
        twin.step(-1)


def test_logs_of_the_original_hold_what_was_done(tmp_path: Path) -> None:
    twin = DataflowTwin(load_dataflow("flink-wordcount"), 1)
    files = write_ds2_logs(twin, tmp_path, epochs=3, interval_s=10)
    lines = files["rates"].read_text().splitlines()
    assert lines[0].startswith("# operator_id,operator_instance_id")
    assert len(lines) == 1 + 3 * (8 + 10 + 5)
    fields = next(line for line in lines if line.startswith("flatmap,")).split(",")
    assert fields[1:3] == ["1", "10"]
    true_in, true_out, seen_in, seen_out = map(float, fields[4:])
    assert true_out / true_in == pytest.approx(20)
    assert seen_out / seen_in == pytest.approx(20)
    assert true_in >= seen_in
    assert files["topology"].read_text().splitlines()[1:] == [
        "source,source,8,flatmap,flatmap,10",
        "flatmap,flatmap,10,count,count,5",
    ]
    assert files["source_rates"].read_text().splitlines()[1] == "source,250000.0"

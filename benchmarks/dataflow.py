"""Operator-level policies on dataflows whose truth is known, after the experiments of the DS2 paper (section 5).

Run ``python -m benchmarks.dataflow [--only heron flink kafka nexmark skew curve] [--seeds 1] [--json]``. Prints

* ``heron``: word count from one instance each; DS2, Dhalion and the Flink Autoscaler (section 5.2),
* ``flink``: word count in two phases (section 5.3),
* ``kafka``: both word counts from a log, long enough for rules that go by lag and have long windows,
* ``nexmark``: six queries from six starts each, 30 s interval and warm-up, five results per decision (section 5.4),
* ``skew``: word counts in which one Count instance gets 20, 50 or 70 % of the words (section 4.2),
* ``curve``: DS2 as printed against DS2 with learned curves, on the same runs as ``nexmark`` and ``flink``.

Nexmark's optima are assumptions, its curves calibrated on one measured mapper: see ``conf/dataflows``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import mean

from benchmarks.harness import Row, grouped, markdown, options, seeds_of, write_json
from perdix.replay.operators.campaign import DataflowCase, dataflow_contenders, play
from perdix.replay.operators.outcome import DataflowOutcome, DataflowPlayed
from perdix.replay.side_by_side import Task, side_by_side
from perdix.twin.dataflow.optimum import optimum
from perdix.twin.dataflow.parameters import DataflowParameters, load_dataflow

QUERIES = ("q1", "q2", "q3", "q5", "q8", "q11")
STARTS = (8, 12, 16, 20, 24, 28)
SKEWS = (0.2, 0.5, 0.7)
ON_HERON = "ds2:warm_up_s=0,dhalion,flink-autoscaler"  # the paper's settings: 60 s, no warm-up, one interval
ON_FLINK = "ds2:tick_s=10:warm_up_s=30,dhalion,flink-autoscaler"
ON_NEXMARK = "ds2:tick_s=30:warm_up_s=30:activation=5:target_rate_ratio=1.0"
LEARNED = ":curve=learned"
HOTTEST = ":skew=hottest"
TUNED = "flink-autoscaler:preset=tuned"


def main(arguments: Sequence[str] | None = None) -> int:
    parts: Mapping[str, Callable[[argparse.Namespace], list[Row]]] = {
        "heron": partial(_compared, "heron-wordcount", ON_HERON),
        "flink": partial(_compared, "flink-wordcount", ON_FLINK),
        "kafka": _kafka,
        "nexmark": _nexmark,
        "skew": _skew,
        "curve": _curve,
    }
    parser = options(__doc__, seeds=1)
    parser.add_argument("--only", nargs="*", choices=list(parts), default=list(parts))
    parser.add_argument("--policy", default=ON_NEXMARK, help="of nexmark; its learned twin is measured by curve")
    parser.add_argument(
        "--bend", type=float, default=1.0, help="of nexmark's curves: times the contention, with the same optimum"
    )
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args(arguments)
    found = {}
    for name in asked.only:
        if not asked.json:
            print(f"\n{name}\n")
        found[name] = parts[name](asked)
    if asked.json:
        write_json(found)
    return 0


def _kafka(asked: argparse.Namespace) -> list[Row]:
    runs = [
        (load_dataflow(name), label)
        for name, who in (("heron-wordcount-kafka", ON_HERON), ("flink-wordcount-kafka", ON_FLINK))
        for label in (*who.split(","), TUNED)
    ]
    outcomes = _played(asked, runs)
    return _printed(asked, [{"dataflow": outcome.dataflow, **_row(outcome)} for outcome in outcomes])


def _skew(asked: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    for name, who in (("heron-wordcount", "ds2:warm_up_s=0"), ("flink-wordcount", "ds2:tick_s=10:warm_up_s=30")):
        for share in SKEWS:
            skewed = load_dataflow(name).with_skew(share)
            outcomes = _played(asked, [(skewed, who), (skewed, who + LEARNED), (skewed, who + HOTTEST)])
            rows += [{"dataflow": name, "hottest": share, **_row(outcome)} for outcome in outcomes]
    return _printed(asked, rows)


def _compared(name: str, who: str, asked: argparse.Namespace) -> list[Row]:
    outcomes = _played(asked, [(load_dataflow(name), label) for label in who.split(",")])
    return _printed(asked, [_row(outcome) for outcome in outcomes])


def _nexmark(asked: argparse.Namespace) -> list[Row]:
    rows = _nexmark_rows(asked, asked.policy)
    if not asked.json:
        _grid(rows)
        _counted(rows)
    return rows


def _curve(asked: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    for who in (asked.policy, asked.policy + LEARNED):
        rows += _nexmark_rows(asked, who)
    both = ["ds2:tick_s=10:warm_up_s=30", "ds2:tick_s=10:warm_up_s=30" + LEARNED]
    outcomes = _played(asked, [(load_dataflow("flink-wordcount"), who) for who in both])
    flink = [_row(outcome) for outcome in outcomes]
    if not asked.json:
        for who in (asked.policy, asked.policy + LEARNED):
            mine = [row for row in rows if row["policy"] == who]
            print(f"{who}: {sum(row['steps'] for row in mine)} reconfigurations in {len(mine)} runs")
            _grid(mine)
            _counted(mine)
        markdown([{key: row[key] for key in ("policy", "seed", "steps", "path", "optimum")} for row in flink])
    return rows + flink


def _nexmark_rows(asked: argparse.Namespace, who: str) -> list[Row]:
    queries = [_bent(load_dataflow(f"nexmark-{query}"), asked.bend) for query in QUERIES]
    runs = [(_started(query, start), who) for query in queries for start in STARTS]
    rows = []
    for outcome in _played(asked, runs):
        main_operator = load_dataflow(outcome.dataflow).shown
        row = _row(outcome)
        best = outcome.phases[-1].optimum or {}
        row |= {
            "start": outcome.start[main_operator],
            "main": [step[main_operator] for step in outcome.phases[-1].path],
            "main_optimum": best.get(main_operator),
        }
        rows.append(row)
    return rows


def _started(parameters: DataflowParameters, start: int) -> DataflowParameters:
    """Return the dataflow with ``start`` instances of its main operator, and as much too many or too few of others."""
    best = optimum(parameters, parameters.target_per_s(0))
    factor = start / best[parameters.shown]
    scaled = {
        name: max(1, min(round(best[name] * factor), parameters.maximum(name)))
        for name, operator in parameters.operators.items()
        if operator.may_scale
    }
    return parameters.with_start(scaled)


def _bent(parameters: DataflowParameters, factor: float) -> DataflowParameters:
    """Return the dataflow with this many times the contention; at its optimum each operator takes what it took."""
    best = optimum(parameters, parameters.target_per_s(0))
    operators = {}
    for name, operator in parameters.operators.items():
        over = operator.overhead.model_copy(update={"contention": factor * operator.overhead.contention})
        bent = operator.model_copy(update={"overhead": over})
        if operator.cost_us is not None:
            same = operator.true_cost_s(best[name]) / bent.true_cost_s(best[name])
            bent = bent.model_copy(update={"cost_us": operator.cost_us * same})
        operators[name] = bent
    return parameters.model_copy(update={"operators": operators})


def _played(asked: argparse.Namespace, runs: Sequence[tuple[DataflowParameters, str]]) -> list[DataflowOutcome]:
    cases = [
        DataflowCase(dataflow_contenders(who)[0], parameters, seed, parameters.duration_s)
        for parameters, who in runs
        for seed in seeds_of(asked)
    ]
    found = side_by_side([Task(play, case) for case in cases], processes=asked.processes)
    outcomes = []
    for case, replay in zip(cases, found, strict=True):
        if not isinstance(replay, DataflowPlayed):
            raise SystemExit(f"{case.parameters.name}, {case.contender.label}, seed {case.seed}: {replay}")
        outcomes.append(replay.outcome)
    return outcomes


def _row(outcome: DataflowOutcome) -> Row:
    return {
        "dataflow": outcome.dataflow,
        "policy": outcome.policy,
        "seed": outcome.seed,
        "steps": outcome.steps,
        "converged_s": outcome.converged_s,
        "path": "; ".join(" -> ".join(_counts(step) for step in phase.path) for phase in outcome.phases),
        "optimum": "; ".join(_counts(phase.optimum or {}) or "none" for phase in outcome.phases),
        "balanced": "; ".join(_counts(phase.balanced_optimum or {}) or "none" for phase in outcome.phases),
        "achieved": outcome.achieved,
        "at_the_end": outcome.phases[-1].achieved,
        "back_pressured_at_the_end": outcome.phases[-1].back_pressured,
        "x_least": outcome.instance_ratio,
        "turns": outcome.oscillations,
        "problems": len(outcome.problems),
    }


def _counts(parallelism: Mapping[str, int]) -> str:
    return "/".join(str(count) for count in parallelism.values())


def _printed(asked: argparse.Namespace, rows: list[Row]) -> list[Row]:
    if not asked.json:
        markdown(rows)
    return rows


def _grid(rows: Sequence[Row]) -> None:
    """Print the steps of the main operator, a row per query and seed, a column per start (table 4 of the paper)."""
    markdown(
        {
            "query": query,
            "optimum": mine[0]["main_optimum"],
            **{f"from {row['start']}": f"{'→'.join(map(str, row['main']))} ({row['steps']})" for row in mine},
        }
        for (query, _), mine in grouped(rows, lambda row: (row["dataflow"], row["seed"])).items()
    )


def _counted(rows: Sequence[Row]) -> None:
    steps = [row["steps"] for row in rows]
    by_seed = grouped(rows, lambda row: row["seed"])
    least = [sum(row["steps"] <= 1 for row in mine) for _, mine in sorted(by_seed.items())]
    each = len(rows) // len(by_seed)
    by_count = dict(sorted(Counter(steps).items()))
    ends = Counter(row["main"][-1] - row["main_optimum"] for row in rows)
    achieved = [row["at_the_end"] for row in rows if row["at_the_end"] is not None]
    print(f"\nrescales: runs {by_count}; mean {mean(steps):.2f}; at most one by seed: {least} of {each}")
    print(f"main operator at the end less optimum: runs {dict(sorted(ends.items()))}")
    print(f"share of the target at the end: mean {mean(achieved):.4f}, least {min(achieved):.4f}\n")


if __name__ == "__main__":
    raise SystemExit(main())

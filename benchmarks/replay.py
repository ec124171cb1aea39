"""Policies on the published traces: workers against the clairvoyant bound and the frontier, latency, recoveries.

Run ``python -m benchmarks.replay [--seeds 5] [--hours 6] [--only sine traffic] [--policies LIST] [--json]``. Each trace
is replayed with its peak at 75 % and at 95 % of what twelve workers can take, with each ``--error-budget``.
``--recoveries`` instead lets workers crash and pools every recovery of Daedalus; ``least_abs_error_pct`` is the error
of the best prediction from all but what is drawn at random, ``least_within_pct`` how often it is within 25 % or 3 s.
``--check-frontier`` instead plays plans of the frontier on the twin.
Needs the measured data beside the project.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from benchmarks.frontier_check import checked, off
from benchmarks.measured import DATA
from benchmarks.recovery_floor import with_floors
from perdix.replay.asked import twin_and_trace
from perdix.replay.campaign import Campaign, Setup, run_campaign
from perdix.replay.case import BEST_STATIC
from perdix.replay.contenders import contenders
from perdix.replay.document import finite
from perdix.replay.frontier.curve import REPORTED_AT
from perdix.replay.outcome import Outcome, Recovery
from perdix.settings.stream_job import ERROR_BUDGET, Bounds, Objectives

TRACES = {
    "sine": ("sine_60000_6h.csv", "wordcount"),
    "advertising": ("advertising_6h_550K_max.csv", "ads"),
    "traffic": ("tm_6h_100K_max.csv", "traffic"),
}
PEAKS = (0.75, 0.95)
POLICIES = (
    "daedalus,daedalus-paper,hpa-80,hpa-80:tick_s=60,hpa-80-paper:tick_s=60,hpa-80:cpu_request=1:tick_s=60,"
    "flink-autoscaler:tick_s=60,flink-autoscaler-tuned:tick_s=60,ds2-global:tick_s=60,static-12"
)
FAILURES = 8
NEAR, NEAR_S = 0.25, 3.0  # off by no more than this share, or these seconds: a prediction is near
REFERENCES = ("hpa-80", "hpa-80:tick_s=60")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--only", nargs="*", choices=list(TRACES), default=list(TRACES))
    parser.add_argument("--policies", default=None)
    parser.add_argument("--forecaster", default=None)
    parser.add_argument("--regime", default=None, help="what rescales cost (conf/regimes), by default as in the papers")
    parser.add_argument(
        "--recoveries", action="store_true", help="let workers crash, and pool recoveries (of daedalus, by default)"
    )
    parser.add_argument("--check-frontier", action="store_true", help="play plans of the frontier on the twin")
    parser.add_argument(
        "--error-budget",
        type=float,
        nargs="+",
        default=[ERROR_BUDGET],
        help="share of the seconds that may be above the objective; several: each for itself",
    )
    parser.add_argument("--processes", type=int, default=None, help="replays at a time, by default as many as cores")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    if not DATA.exists():
        print("the measured traces are not beside the project", file=sys.stderr)
        return 2
    if asked.check_frontier:
        return _check_frontier(asked)
    rows: list[dict[str, object]] = []
    pooled: list[tuple[Recovery, float | None]] = []
    failures = 0
    for name, peak, setup in _setups(asked):
        campaign = run_campaign(setup, processes=asked.processes)
        for failed in campaign.failed:
            print(f"FAILED {failed.policy}, seed {failed.seed}: {failed.reason}", file=sys.stderr)
        failures += len(campaign.failed)
        if asked.recoveries:
            predicted = [
                replay for replay in campaign.played if replay.outcome.policy != BEST_STATIC
            ]  # nobody predicts for it
            pooled += with_floors(campaign.setup.parameters, predicted)
            continue
        table = rows_of(name, peak, campaign)
        rows += table
        if table and not asked.json:
            _print(table, campaign)
    if asked.recoveries:
        rows = recovery_rows(pooled)
        if not rows:
            print("no recovery was predicted and seen to its end", file=sys.stderr)
            return 1
        if not asked.json:
            _markdown(rows)
    if asked.json:
        print(json.dumps(finite(rows), indent=1, allow_nan=False))
    return 1 if failures else 0


def _check_frontier(asked: argparse.Namespace) -> int:
    rows = [row for name, peak, setup in _setups(asked) for row in checked(name, peak, setup)]
    if asked.json:
        print(json.dumps(finite(rows), indent=1, allow_nan=False))
        return 0
    _markdown(rows, digits=2)
    for twin in dict.fromkeys(row["twin"] for row in rows):
        mine = [row for row in rows if row["twin"] == twin]
        print(f"\n{twin}, {off(mine)}")
    return 0


def _setups(asked: argparse.Namespace) -> Iterator[tuple[str, float, Setup]]:
    bounds = Bounds(minimum=1, maximum=12)
    who = contenders(asked.policies or ("daedalus" if asked.recoveries else POLICIES), bounds)
    for name in asked.only:
        file, twin = TRACES[name]
        parameters, trace = twin_and_trace(
            str(DATA / "workloads" / file), twin, round(3600 * asked.hours), regime=asked.regime
        )
        for peak, budget in product(PEAKS, asked.error_budget):
            setup = Setup(
                who,
                trace,
                parameters,
                bounds,
                seeds=tuple(range(asked.first_seed, asked.first_seed + asked.seeds)),
                hours=asked.hours,
                peak_utilisation=peak,
                failures=FAILURES if asked.recoveries else 0,
                objectives=Objectives(error_budget=budget),
                **({} if asked.forecaster is None else {"forecaster": asked.forecaster}),
            )
            yield name, peak, setup


def rows_of(name: str, peak: float, campaign: Campaign) -> list[dict[str, object]]:
    """Return a row per policy: means over seeds, and their standard deviations."""
    found: dict[str, list[Outcome]] = {}
    for replay in campaign.played:
        found.setdefault(replay.outcome.policy, []).append(replay.outcome)
    rows = []
    for policy, outcomes in found.items():
        row: dict[str, object] = {"trace": name, "peak": peak, "policy": policy, "seeds": len(outcomes)}
        row |= {"error_budget": outcomes[0].error_budget, "held": sum(outcome.held for outcome in outcomes)}
        row |= _spread("workers", [outcome.average_workers for outcome in outcomes])
        row |= _spread("bound", [outcome.clairvoyant_ratio or np.nan for outcome in outcomes])
        row |= _spread("of_frontier", [outcome.of_frontier or np.nan for outcome in outcomes])
        row |= _spread("rescales", [outcome.rescales for outcome in outcomes])
        row |= _spread("latency_ms", [outcome.latency_ms.mean for outcome in outcomes])
        row |= {"latency_median_ms": float(np.median([outcome.latency_ms.mean for outcome in outcomes]))}
        row |= {"p95_ms": float(np.mean([outcome.latency_ms.p95 for outcome in outcomes]))}
        row |= {"above_pct": 100.0 * float(np.mean([outcome.share_above_objective for outcome in outcomes]))}
        row |= {"above_pct_by_seed": [100.0 * outcome.share_above_objective for outcome in outcomes]}
        row |= {"frontier_workers": _frontier(campaign)}
        row |= {"unprocessed": max(outcome.unprocessed for outcome in outcomes)}
        for reference in REFERENCES:
            theirs = {outcome.seed: outcome.worker_s for outcome in found.get(reference, ())}
            ratio = [outcome.worker_s / theirs[outcome.seed] for outcome in outcomes if outcome.seed in theirs]
            if ratio and reference != policy:
                row[f"of_{reference}"] = float(np.mean(ratio))
        row |= {"twin_s": float(np.mean([outcome.twin_s for outcome in outcomes]))}
        row |= {"wall_s": float(np.mean([outcome.wall_s for outcome in outcomes]))}
        rows.append(row)
    return rows


def _spread(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: float(np.mean(values)), f"{name}_sd": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}


def _print(rows: Sequence[dict[str, object]], campaign: Campaign) -> None:
    bounds = [clairvoyant.average_workers for clairvoyant in campaign.clairvoyants.values()]
    first = rows[0]
    peak = 100 * float(str(first["peak"]))
    least = ", ".join(
        f"{'none' if workers is None else f'{workers:.2f}'} at {float(share):.0%} late"
        for share, workers in _frontier(campaign).items()
    )
    budget = 100 * campaign.setup.objectives.error_budget
    print(f"\n{first['trace']}, peak at {peak:.0f} %; clairvoyant {np.mean(bounds):.2f} workers; frontier {least}")
    heads = (
        "policy",
        "workers",
        "x bound",
        "x frontier",
        "rescales",
        "latency mean, s",
        "p95, s",
        "above 5 s",
        f"held {budget:g} %",
        "unprocessed",
    )
    print("\n| " + " | ".join([*heads, *(f"of {reference}" for reference in REFERENCES)]) + " |")
    print("|" + "---|" * (len(heads) + len(REFERENCES)))
    for row in rows:
        cells = [
            str(row["policy"]),
            f"{row['workers']:.2f} +- {row['workers_sd']:.2f}",
            f"{row['bound']:.2f} +- {row['bound_sd']:.2f}",
            f"{row['of_frontier']:.2f} +- {row['of_frontier_sd']:.2f}",
            f"{row['rescales']:.0f}",
            f"{_s(row, 'latency_ms'):.2f} +- {_s(row, 'latency_ms_sd'):.2f}",
            f"{_s(row, 'p95_ms'):.1f}",
            f"{row['above_pct']:.1f} %",
            f"{row['held']} of {row['seeds']}",
            f"{row['unprocessed']:,.0f}",
            *(
                "" if row.get(f"of_{reference}") is None else f"{row[f'of_{reference}']:.2f}"
                for reference in REFERENCES
            ),
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


def _frontier(campaign: Campaign) -> dict[str, float | None]:
    """Return the fewest workers on average at some shares of late seconds, mean over seeds.

    Nothing without a frontier; ``None`` where, with some seed, no plan is late so rarely.
    """
    found: dict[str, float | None] = {}
    for share in REPORTED_AT if campaign.frontiers else ():
        workers = [frontier.workers_at(share) for frontier in campaign.frontiers.values()]
        known = [worker for worker in workers if worker is not None]
        found[f"{share:g}"] = float(np.mean(known)) if len(known) == len(workers) else None
    return found


def _s(row: dict[str, object], name: str) -> float:
    return float(str(row[name])) / 1e3


def recovery_rows(every: Sequence[tuple[Recovery, float | None]]) -> list[dict[str, object]]:
    """Return a row per cause, and one of all: how far off predictions were, in percent of the true recovery times."""
    rows: list[dict[str, object]] = []
    for cause in ("out", "in", "failure", "all"):
        mine = [recovery for recovery, _ in every if cause in ("all", recovery.cause)]
        with_floor = [
            (recovery, floor) for recovery, floor in every if cause in ("all", recovery.cause) and floor is not None
        ]
        least = [floor for _, floor in with_floor]
        judged = [recovery for recovery in mine if recovery.error is not None]
        if not judged:
            continue
        errors = np.array([recovery.error for recovery in judged], dtype=np.float64)
        signed = np.array(
            [
                recovery.predicted_s / recovery.true_s - 1.0
                for recovery in judged
                if recovery.predicted_s and recovery.true_s
            ]
        )
        near = [_near(recovery, float(recovery.error or 0.0)) for recovery in judged]
        least_near = [_near(recovery, floor) for recovery, floor in with_floor]
        seen = np.array(
            [
                abs(recovery.observed_s / recovery.true_s - 1.0)
                for recovery in judged
                if recovery.observed_s and recovery.true_s
            ]
        )
        rows.append(
            {
                "cause": cause,
                "recoveries": len(mine),
                "judged": len(judged),
                "mean_abs_error_pct": 100.0 * float(errors.mean()),
                "least_abs_error_pct": 100.0 * float(np.mean(least)) if least else None,
                "median_abs_error_pct": 100.0 * float(np.median(errors)),
                "p90_abs_error_pct": 100.0 * float(np.quantile(errors, 0.9)),
                "within_25_pct_or_3_s_pct": 100.0 * float(np.mean(near)),
                "least_within_pct": 100.0 * float(np.mean(least_near)) if with_floor else None,
                "median_error_pct": 100.0 * float(np.median(signed)),
                "mean_predicted_s": float(np.mean([recovery.predicted_s for recovery in judged])),
                "mean_true_s": float(np.mean([recovery.true_s for recovery in judged])),
                "observation_error_pct": 100.0 * float(seen.mean()) if len(seen) else None,
            }
        )
    return rows


def _near(recovery: Recovery, error: float) -> bool:
    return error <= NEAR or error * float(recovery.true_s or 0.0) <= NEAR_S


def _markdown(rows: Sequence[Mapping[str, object]], digits: int = 1) -> None:
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        cells = [
            "-" if value is None else f"{value:.{digits}f}" if isinstance(value, float) else str(value)
            for value in row.values()
        ]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    raise SystemExit(main())

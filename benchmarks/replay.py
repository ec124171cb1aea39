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
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from benchmarks.frontier_check import checked, off
from benchmarks.harness import Columns, Row, complain, grouped, markdown, options, seeds_of, spread, write_json
from benchmarks.measured import DATA, TRACES, there
from benchmarks.recovery_floor import mean_pct, with_floors
from perdix.replay.asked import twin_and_trace
from perdix.replay.campaign import Campaign, Setup, run_campaign
from perdix.replay.case import BEST_STATIC
from perdix.replay.contenders import contenders
from perdix.replay.frontier.curve import REPORTED_AT
from perdix.replay.outcome import Recovery
from perdix.settings.stream_job import ERROR_BUDGET, Bounds, Objectives

PEAKS = (0.75, 0.95)
POLICIES = (
    "daedalus,daedalus-paper,hpa-80,hpa-80:tick_s=60,hpa-80-paper:tick_s=60,hpa-80:cpu_request=1:tick_s=60,"
    "flink-autoscaler:tick_s=60,flink-autoscaler-tuned:tick_s=60,ds2-global:tick_s=60,static-12"
)
FAILURES = 8
NEAR, NEAR_S = 0.25, 3.0  # off by no more than this share, or these seconds: a prediction is near
REFERENCES = ("hpa-80", "hpa-80:tick_s=60")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__, seeds=5)
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
    asked = parser.parse_args(arguments)
    if not there(DATA):
        return 2
    if asked.check_frontier:
        return _check_frontier(asked)
    rows: list[Row] = []
    pooled: list[tuple[Recovery, float | None]] = []
    failures = 0
    for name, peak, setup in _setups(asked):
        campaign = run_campaign(setup, processes=asked.processes)
        failures += complain(campaign.failed)
        if asked.recoveries:
            # nobody predicts for the best fixed size
            predicted = [replay for replay in campaign.played if replay.outcome.policy != BEST_STATIC]
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
            markdown(rows)
    if asked.json:
        write_json(rows)
    return 1 if failures else 0


def _check_frontier(asked: argparse.Namespace) -> int:
    rows = [row for name, peak, setup in _setups(asked) for row in checked(name, peak, setup)]
    if asked.json:
        write_json(rows)
        return 0
    markdown(rows)
    for twin, mine in grouped(rows, lambda row: row["twin"]).items():
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
                seeds=tuple(seeds_of(asked)),
                hours=asked.hours,
                peak_utilisation=peak,
                failures=FAILURES if asked.recoveries else 0,
                objectives=Objectives(error_budget=budget),
                **({} if asked.forecaster is None else {"forecaster": asked.forecaster}),
            )
            yield name, peak, setup


def rows_of(name: str, peak: float, campaign: Campaign) -> list[Row]:
    """Return a row per policy: means over seeds, and their standard deviations."""
    found = grouped((replay.outcome for replay in campaign.played), lambda outcome: outcome.policy)
    rows = []
    for policy, outcomes in found.items():
        above_pct = [100.0 * outcome.share_above_objective for outcome in outcomes]
        latencies_ms = [outcome.latency_ms.mean for outcome in outcomes]
        row = {"trace": name, "peak": peak, "policy": policy, "seeds": len(outcomes)}
        row |= {"error_budget": outcomes[0].error_budget, "held": sum(outcome.held for outcome in outcomes)}
        row |= spread("workers", [outcome.average_workers for outcome in outcomes])
        row |= spread("bound", [outcome.clairvoyant_ratio or np.nan for outcome in outcomes])
        row |= spread("of_frontier", [outcome.of_frontier or np.nan for outcome in outcomes])
        row |= spread("rescales", [outcome.rescales for outcome in outcomes])
        row |= spread("latency_ms", latencies_ms) | {"latency_median_ms": float(np.median(latencies_ms))}
        row |= {"p95_ms": float(np.mean([outcome.latency_ms.p95 for outcome in outcomes]))}
        row |= {"above_pct": float(np.mean(above_pct)), "above_pct_by_seed": above_pct}
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


def _print(rows: Sequence[Row], campaign: Campaign) -> None:
    bounds = [clairvoyant.average_workers for clairvoyant in campaign.clairvoyants.values()]
    first = rows[0]
    least = ", ".join(
        f"{'none' if workers is None else f'{workers:.2f}'} at {float(share):.0%} late"
        for share, workers in _frontier(campaign).items()
    )
    clairvoyant = f"clairvoyant {np.mean(bounds):.2f} workers; frontier {least}"
    print(f"\n{first['trace']}, peak at {100 * first['peak']:.0f} %; {clairvoyant}\n")
    columns: Columns = {
        "policy": "{policy}",
        "workers": "{workers:.2f} +- {workers_sd:.2f}",
        "x bound": "{bound:.2f} +- {bound_sd:.2f}",
        "x frontier": "{of_frontier:.2f} +- {of_frontier_sd:.2f}",
        "rescales": "{rescales:.0f}",
        "latency mean, s": lambda row: f"{row['latency_ms'] / 1e3:.2f} +- {row['latency_ms_sd'] / 1e3:.2f}",
        "p95, s": lambda row: f"{row['p95_ms'] / 1e3:.1f}",
        "above 5 s": "{above_pct:.1f} %",
        f"held {100 * campaign.setup.objectives.error_budget:g} %": "{held} of {seeds}",
        "unprocessed": "{unprocessed:,.0f}",
        **{f"of {reference}": partial(_of, reference) for reference in REFERENCES},
    }
    markdown(rows, columns)


def _of(reference: str, row: Row) -> str:
    ratio = row.get(f"of_{reference}")
    return "" if ratio is None else f"{ratio:.2f}"


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


def recovery_rows(every: Sequence[tuple[Recovery, float | None]]) -> list[Row]:
    """Return a row per cause, and one of all: how far off predictions were, in percent of the true recovery times."""
    rows: list[Row] = []
    for cause in ("out", "in", "failure", "all"):
        mine = [(recovery, floor) for recovery, floor in every if cause in ("all", recovery.cause)]
        with_floor = [(recovery, floor) for recovery, floor in mine if floor is not None]
        judged = [recovery for recovery, _ in mine if recovery.error is not None]
        if not judged:
            continue
        errors = np.array([recovery.error for recovery in judged], dtype=np.float64)
        pairs = [(recovery.predicted_s, recovery.observed_s, recovery.true_s) for recovery in judged]
        signed = [predicted_s / true_s - 1.0 for predicted_s, _, true_s in pairs if predicted_s and true_s]
        seen = [abs(observed_s / true_s - 1.0) for _, observed_s, true_s in pairs if observed_s and true_s]
        near = [_near(recovery, float(recovery.error or 0.0)) for recovery in judged]
        rows.append(
            {
                "cause": cause,
                "recoveries": len(mine),
                "judged": len(judged),
                "mean_abs_error_pct": 100.0 * float(errors.mean()),
                "least_abs_error_pct": mean_pct([floor for _, floor in with_floor]),
                "median_abs_error_pct": 100.0 * float(np.median(errors)),
                "p90_abs_error_pct": 100.0 * float(np.quantile(errors, 0.9)),
                "within_25_pct_or_3_s_pct": mean_pct(near),
                "least_within_pct": mean_pct([_near(*pair) for pair in with_floor]),
                "median_error_pct": 100.0 * float(np.median(signed)),
                "mean_predicted_s": float(np.mean([recovery.predicted_s for recovery in judged])),
                "mean_true_s": float(np.mean([recovery.true_s for recovery in judged])),
                "observation_error_pct": mean_pct(seen),
            }
        )
    return rows


def _near(recovery: Recovery, error: float) -> bool:
    return error <= NEAR or error * float(recovery.true_s or 0.0) <= NEAR_S


if __name__ == "__main__":
    raise SystemExit(main())

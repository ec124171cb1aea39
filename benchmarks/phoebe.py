"""Phoebe against its baselines, as its paper compares them (section 4): recoveries from eight failures, and workers.

Run ``python -m benchmarks.phoebe [--seeds 5] [--only ysb tsw] [--policies LIST] [--own-workload] [--json]``. The jobs
are the twins of the paper's two, under the workloads that were measured in its experiments; ``--own-workload`` takes
those of conf/twins instead, and needs no data. Checkpoints every 10 s, eight failures in six hours, 180 s to recover.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.measured import DATA, phoebe
from benchmarks.recovery_floor import with_floors
from perdix.replay.asked import twin_and_trace
from perdix.replay.campaign import Setup, run_campaign
from perdix.replay.contenders import contenders
from perdix.replay.outcome import Outcome, Played
from perdix.replay.workload import Trace
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.window import Values
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters, load_twin

JOBS = {"ysb": "ads", "tsw": "cars"}
POLICIES = "phoebe,phoebe-paper,twres,hpa-35,daedalus,static-4,static-12,static-24"
HOURS, FAILURES = 6.0, 8
TARGET_S, ALLOWED = 180.0, 1.15
OBJECTIVES = Objectives(recovery_time_s=TARGET_S, latency_p95_ms=2_000.0, checkpoint_interval_s=10.0)
NEVER_S = 1e12  # in place of a recovery without an end


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--forecaster", default="ensemble")
    parser.add_argument("--own-workload", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    if not asked.own_workload and not DATA.exists():
        print("the measured workloads are not beside the project; give --own-workload", file=sys.stderr)
        return 2
    rows: list[dict[str, object]] = []
    failures = 0
    for job in asked.only:
        bounds = Bounds(minimum=1, maximum=24)
        parameters, trace = twin_and_trace(None, job, round(3600 * HOURS))
        if not asked.own_workload:
            trace = measured(job)
        setup = Setup(
            contenders(asked.policies, bounds),
            trace,
            parameters,
            bounds,
            seeds=tuple(range(asked.first_seed, asked.first_seed + asked.seeds)),
            hours=HOURS,
            peak_utilisation=trace.peak_utilisation,
            noise=trace.noise,
            slow_noise=trace.slow_noise,
            failures=FAILURES,
            forecaster=asked.forecaster,
            objectives=OBJECTIVES,
        )
        campaign = run_campaign(setup)
        for failed in campaign.failed:
            print(f"FAILED {failed.policy}, seed {failed.seed}: {failed.reason}", file=sys.stderr)
        failures += len(campaign.failed)
        found: dict[str, list[Played]] = {}
        for replay in campaign.played:
            found.setdefault(replay.outcome.policy, []).append(replay)
        table = [
            row_of(job, policy, [replay.outcome for replay in played])
            | {"least_error_pct": _least_error_pct(parameters, played)}
            for policy, played in found.items()
        ]
        rows += table
        if not asked.json:
            show(job, trace, table)
    if asked.json:
        print(json.dumps(rows, indent=1))
    return 1 if failures else 0


def measured(job: str) -> Trace:
    """Return the workload that was measured while 24 workers ran the job, at its own height on the twin."""
    arrived = phoebe(JOBS[job], "baseline_24").arrived[: round(3600 * HOURS)]
    per_s = JobTwin(load_twin(job), 1).true_capacity(24)
    peak = float(arrived.max())
    times_s = np.arange(len(arrived), dtype=np.float64)
    return Trace(f"{job}-measured", times_s, arrived, float(len(arrived)), peak, peak / per_s, 0.0, 0.0)


def _least_error_pct(parameters: TwinParameters, played: Sequence[Played]) -> float | None:
    """Return the error of a predictor that knows all but the random draws; ``None`` where none is judged."""
    least = [
        floor
        for recovery, floor in with_floors(parameters, played)
        if recovery.cause == "failure" and floor is not None
    ]
    return _mean_pct(least)


def row_of(job: str, policy: str, outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Return the figures of one policy over seeds."""
    failures = [recovery for outcome in outcomes for recovery in outcome.recoveries if recovery.cause == "failure"]
    whole = [failure for failure in failures if not failure.interrupted]
    taken_s = np.array([NEVER_S if recovery.true_s is None else recovery.true_s for recovery in whole])
    errors = [failure.error for failure in failures if failure.error is not None]
    every = [recovery.error for outcome in outcomes for recovery in outcome.recoveries if recovery.error is not None]
    workers = np.array([outcome.average_workers for outcome in outcomes])
    cost = [(outcome.profiling_worker_s or 0.0) / outcome.worker_s for outcome in outcomes]
    return {
        "job": job,
        "policy": policy,
        "seeds": len(outcomes),
        "workers": float(workers.mean()),
        "workers_sd": float(workers.std(ddof=1)) if len(workers) > 1 else 0.0,
        "saved_pct": 100.0 * (1.0 - float(workers.mean()) / 24.0),
        "rescales": float(np.mean([outcome.rescales for outcome in outcomes])),
        "rescales_most": max(outcome.rescales for outcome in outcomes),
        "recovery_mean_s": _taken_s(taken_s, np.mean),
        "recovery_p90_s": _taken_s(taken_s, lambda every_s: np.quantile(every_s, 0.9)),
        "recovery_most_s": _taken_s(taken_s, np.max),
        "late": int(np.count_nonzero(taken_s > ALLOWED * TARGET_S)),
        "failures": len(whole),
        "error_pct": _mean_pct(errors),
        "error_n": len(errors),
        "error_all_pct": _mean_pct(every),
        "above_2s_pct": 100.0 * float(np.mean([outcome.share_above_objective for outcome in outcomes])),
        "latency_mean_ms": float(np.mean([outcome.latency_ms.mean for outcome in outcomes])),
        "unprocessed": max(outcome.unprocessed for outcome in outcomes),
        "profiling_pct": 100.0 * float(np.mean(cost)),
    }


def _taken_s(every_s: Values, figure: Callable[[Values], np.floating]) -> float | None:
    """Return a figure of recoveries; ``None`` where one without an end makes it endless, and where none is judged."""
    found = float(figure(every_s)) if len(every_s) else NEVER_S
    return found if found < NEVER_S / max(1.0, len(every_s)) else None


def _mean_pct(errors: Sequence[float]) -> float | None:
    """Return the mean in %; ``None`` where nothing was judged."""
    return 100.0 * float(np.mean(errors)) if errors else None


def _percent(pct: object) -> str:
    return "-" if pct is None else f"{pct:.1f} %"


def _recoveries(row: dict[str, object]) -> str:
    """Return mean, p90 and most in words."""
    figures = (row[f"recovery_{name}_s"] for name in ("mean", "p90", "most"))
    return " / ".join("never" if figure is None else f"{figure:.0f}" for figure in figures) if row["failures"] else "-"


def show(job: str, trace: Trace, rows: Sequence[dict[str, object]]) -> None:
    """Print a table in Markdown."""
    heads = (
        "policy",
        "workers",
        "less than static-24",
        "rescales (most)",
        "recovery mean / p90 / most, s",
        f"above {ALLOWED * TARGET_S:.0f} s",
        "prediction off: failures (all)",
        "knowing all but luck",
        "p95 above 2 s",
        "profiling, of the run's cost",
    )
    print(
        f"\n{job}: {trace.name}, peak {trace.peak_utilisation:.0%} of 24 workers, {FAILURES} failures in {HOURS:g} h\n"
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        cells = (
            f"{row['policy']}",
            f"{row['workers']:.1f} +- {row['workers_sd']:.1f}",
            f"{row['saved_pct']:.0f} %",
            f"{row['rescales']:.0f} ({row['rescales_most']})",
            _recoveries(row),
            f"{row['late']} of {row['failures']}",
            f"{_percent(row['error_pct'])} ({_percent(row['error_all_pct'])})",
            _percent(row["least_error_pct"]),
            f"{row['above_2s_pct']:.0f} %",
            f"{row['profiling_pct']:.0f} %",
        )
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

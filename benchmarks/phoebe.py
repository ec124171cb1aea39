"""Phoebe against its baselines, as its paper compares them (section 4): recoveries from eight failures, and workers.

Run ``python -m benchmarks.phoebe [--seeds 5] [--only ysb tsw] [--policies LIST] [--own-workload] [--json]``. The jobs
are the twins of the paper's two, under the workloads that were measured in its experiments; ``--own-workload`` takes
those of conf/twins instead, and needs no data. Checkpoints every 10 s, eight failures in six hours, 180 s to recover.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.harness import Columns, Row, complain, grouped, markdown, options, seeds_of, spread, write_json
from benchmarks.measured import DATA, phoebe
from benchmarks.recovery_floor import mean_pct, with_floors
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
    parser = options(__doc__, seeds=5)
    parser.add_argument("--only", nargs="*", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--forecaster", default="ensemble")
    parser.add_argument("--own-workload", action="store_true")
    asked = parser.parse_args(arguments)
    if not asked.own_workload and not DATA.exists():
        print("the measured workloads are not beside the project; give --own-workload", file=sys.stderr)
        return 2
    rows: list[Row] = []
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
            seeds=tuple(seeds_of(asked)),
            hours=HOURS,
            peak_utilisation=trace.peak_utilisation,
            noise=trace.noise,
            slow_noise=trace.slow_noise,
            failures=FAILURES,
            forecaster=asked.forecaster,
            objectives=OBJECTIVES,
        )
        campaign = run_campaign(setup)
        failures += complain(campaign.failed)
        table = [
            row_of(job, policy, [replay.outcome for replay in played])
            | {"least_error_pct": _least_error_pct(parameters, played)}
            for policy, played in grouped(campaign.played, lambda replay: replay.outcome.policy).items()
        ]
        rows += table
        if not asked.json:
            show(job, trace, table)
    if asked.json:
        write_json(rows)
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
    return mean_pct(
        [
            floor
            for recovery, floor in with_floors(parameters, played)
            if recovery.cause == "failure" and floor is not None
        ]
    )


def row_of(job: str, policy: str, outcomes: Sequence[Outcome]) -> Row:
    """Return the figures of one policy over seeds."""
    failures = [recovery for outcome in outcomes for recovery in outcome.recoveries if recovery.cause == "failure"]
    whole = [failure for failure in failures if not failure.interrupted]
    taken_s = np.array([NEVER_S if recovery.true_s is None else recovery.true_s for recovery in whole])
    errors = [failure.error for failure in failures if failure.error is not None]
    every = [recovery.error for outcome in outcomes for recovery in outcome.recoveries if recovery.error is not None]
    workers = [outcome.average_workers for outcome in outcomes]
    cost = [(outcome.profiling_worker_s or 0.0) / outcome.worker_s for outcome in outcomes]
    return {
        "job": job,
        "policy": policy,
        "seeds": len(outcomes),
        **spread("workers", workers),
        "saved_pct": 100.0 * (1.0 - float(np.mean(workers)) / 24.0),
        "rescales": float(np.mean([outcome.rescales for outcome in outcomes])),
        "rescales_most": max(outcome.rescales for outcome in outcomes),
        "recovery_mean_s": _taken_s(taken_s, np.mean),
        "recovery_p90_s": _taken_s(taken_s, lambda every_s: np.quantile(every_s, 0.9)),
        "recovery_most_s": _taken_s(taken_s, np.max),
        "late": int(np.count_nonzero(taken_s > ALLOWED * TARGET_S)),
        "failures": len(whole),
        "error_pct": mean_pct(errors),
        "error_n": len(errors),
        "error_all_pct": mean_pct(every),
        "above_2s_pct": 100.0 * float(np.mean([outcome.share_above_objective for outcome in outcomes])),
        "latency_mean_ms": float(np.mean([outcome.latency_ms.mean for outcome in outcomes])),
        "unprocessed": max(outcome.unprocessed for outcome in outcomes),
        "profiling_pct": 100.0 * float(np.mean(cost)),
    }


def _taken_s(every_s: Values, figure: Callable[[Values], np.floating]) -> float | None:
    """Return a figure of recoveries; ``None`` where one without an end makes it endless, and where none is judged."""
    found = float(figure(every_s)) if len(every_s) else NEVER_S
    return found if found < NEVER_S / max(1.0, len(every_s)) else None


def _recoveries(row: Row) -> str:
    figures = (row[f"recovery_{name}_s"] for name in ("mean", "p90", "most"))
    return " / ".join("never" if figure is None else f"{figure:.0f}" for figure in figures) if row["failures"] else "-"


def show(job: str, trace: Trace, rows: Sequence[Row]) -> None:
    peak = f"peak {trace.peak_utilisation:.0%} of 24 workers"
    print(f"\n{job}: {trace.name}, {peak}, {FAILURES} failures in {HOURS:g} h\n")
    columns: Columns = {
        "policy": "{policy}",
        "workers": "{workers:.1f} +- {workers_sd:.1f}",
        "less than static-24": "{saved_pct:.0f} %",
        "rescales (most)": "{rescales:.0f} ({rescales_most})",
        "recovery mean / p90 / most, s": _recoveries,
        f"above {ALLOWED * TARGET_S:.0f} s": "{late} of {failures}",
        "% off in prediction: failures (all)": "{error_pct:.1f} ({error_all_pct:.1f})",
        "% off knowing all but luck": "{least_error_pct:.1f}",
        "p95 above 2 s": "{above_2s_pct:.0f} %",
        "profiling, of the run's cost": "{profiling_pct:.0f} %",
    }
    markdown(rows, columns)


if __name__ == "__main__":
    raise SystemExit(main())

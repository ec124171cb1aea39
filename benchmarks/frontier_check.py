"""Plans of the frontier played on the twin: how far what is said of them is off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.frontier_plan import played, without_luck
from benchmarks.harness import Row
from perdix.replay.campaign import Setup, frontier_of
from perdix.replay.frontier.curve import REPORTED_AT

LUCK = {True: "as it is", False: "without luck"}


def checked(name: str, peak: float, setup: Setup) -> Iterator[Row]:
    """Yield the plans that come nearest to the shares at which the frontier is reported, of every seed.

    They are played on the twin as it is, whose keys fall and whose restarts take as luck has it, and on one without
    that luck: there everything comes out as it is said, but for the seconds of work that each restart does again.
    ``of_frontier`` is what luck alone costs: the plan knows everything else.
    """
    for with_luck in (True, False):
        parameters = setup.parameters if with_luck else without_luck(setup.parameters)
        for seed in setup.seeds:
            case = replace(setup, parameters=parameters).cases(seed)[0]
            found = frontier_of(case)
            late = np.array([plan.late_s / found.seconds for plan in found.plans])
            nearest = dict.fromkeys(int(np.argmin(np.abs(late - share))) for share in REPORTED_AT)
            for plan in (found.plans[at] for at in nearest):
                outcome = played(case, plan).outcome
                yield {
                    "trace": name,
                    "peak": peak,
                    "seed": seed,
                    "twin": LUCK[with_luck],
                    "said_late_pct": 100.0 * plan.late_s / found.seconds,
                    "late_pct": 100.0 * outcome.share_above_objective,
                    "said_workers": plan.worker_s / found.seconds,
                    "workers": outcome.average_workers,
                    "of_frontier": outcome.worker_s / found.worker_s_at(outcome.share_above_objective),
                }


def off(rows: Sequence[Row]) -> str:
    """Return in words how far what was said of some plans is off."""
    workers = np.array([row["workers"] / row["said_workers"] - 1.0 for row in rows])
    late = np.array([row["late_pct"] - row["said_late_pct"] for row in rows])
    return (
        f"{len(rows)} plans: workers off by at most {100 * np.abs(workers).max():.2f} %; late seconds by "
        f"{late.mean():+.2f} points in the mean, {np.abs(late).mean():.2f} without sign, "
        f"{np.abs(late).max():.2f} at most; x frontier {np.mean([row['of_frontier'] for row in rows]):.3f} in the mean"
    )

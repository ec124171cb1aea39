"""What all jobs come to: per policy, per kind of workload, the worst of them, and where a target was missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import geometric_mean
from benchmarks.zoo import coverage
from benchmarks.zoo.contenders import BEST_STATIC
from benchmarks.zoo.jobs import CALM
from perdix.replay.frontier import FRONTIER
from perdix.replay.frontier.curve import Frontier
from perdix.replay.frontier.programme import Plan

Row = Mapping[str, Any]

WORST = 5
CALM_WORKERS, CALM_RESCALES = 1, 4  # above the best fixed size; a day
DEARER = 1.15  # times the worker-seconds of the best fixed size
COVERED = (0.85, 0.95)  # what a 90 % interval should hold the truth in
FEWEST = 50  # intervals below which a share says nothing


def summary(rows: Sequence[Row], policies: Sequence[str]) -> dict[str, Any]:
    """Return the figures of a set of jobs as JSON-serialisable values; the first policy is the one that is judged.

    ``held_share``, ``of_best_static`` and ``most_of_best_static`` are over the jobs in which the best fixed size holds
    the objective, the last one only over those of them in which the policy holds it too. ``of_frontier`` is over those
    that :func:`against_frontier` found one for.
    """
    judged = policies[0]
    pairs = against_best(rows)
    mine = [row for row in rows if row["policy"] == judged]
    covered = coverage.of_rows(mine)
    return {
        "policies": [_policy(name, rows, pairs) for name in (*policies, BEST_STATIC)],
        "kinds": _kinds(judged, pairs),
        "worst": _worst(judged, pairs, mine),
        "coverage": covered,
        "violations": violations(judged, pairs, covered),
        "judged": judged,
        "hopeless": sorted(row["job"] for row in rows if row["policy"] == BEST_STATIC and row.get("held") is False),
        "failed": [
            {"job": row["job"], "policy": row["policy"], "reason": row["failed"]} for row in rows if "failed" in row
        ],
    }


def against_best(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return each row that came to its end beside that of the best fixed size of the same job."""
    best = {row["job"]: row for row in rows if row["policy"] == BEST_STATIC and "failed" not in row}
    return [(row, best[row["job"]]) for row in rows if "failed" not in row and row["job"] in best]


def against_frontier(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, with ``of_frontier`` where the job's frontier was worked out.

    It is the worker-seconds as a multiple of the fewest of any plan that is late as often.
    """
    frontiers = {row["job"]: _frontier(row) for row in rows if row["policy"] == FRONTIER and "failed" not in row}
    return [
        {**row, "of_frontier": row["worker_s"] / frontiers[row["job"]].worker_s_at(row["late_share"])}
        if row["job"] in frontiers and "failed" not in row
        else row
        for row in rows
    ]


def _frontier(row: Row) -> Frontier:
    plans = (Plan(corner["worker_s"], corner["late_s"], first=0, changes=()) for corner in row["corners"])
    return Frontier(tuple(plans), round(3600 * row["hours"]))


def ratio(row: Row, best: Row) -> float:
    """Return worker-seconds as a multiple of those of the best fixed size."""
    return float(row["worker_s"] / best["worker_s"])


def _policy(name: str, rows: Sequence[Row], pairs: Sequence[tuple[Row, Row]]) -> dict[str, Any]:
    mine = [(row, best) for row, best in pairs if row["policy"] == name]
    holdable = [(row, best) for row, best in mine if best["held"]]
    held = [ratio(row, best) for row, best in holdable if row["held"]]
    return {
        "policy": name,
        "jobs": len(mine),
        "failed": sum(1 for row in rows if row["policy"] == name and "failed" in row),
        "holdable": len(holdable),
        "held_share": _mean([float(row["held"]) for row, _ in holdable]),
        "late_share": _mean([row["late_share"] for row, _ in holdable]),
        "of_best_static": _geometric([ratio(row, best) for row, best in holdable]),
        "most_of_best_static": max(held, default=None),
        "of_frontier": _geometric([row["of_frontier"] for row, _ in holdable if "of_frontier" in row]),
        "rescales_per_day": _mean([row["rescales_per_day"] for row, _ in mine]),
    }


def _kinds(policy: str, pairs: Sequence[tuple[Row, Row]]) -> list[dict[str, Any]]:
    kinds = sorted({row["kind"] for row, _ in pairs})
    return [
        {"kind": kind, **_policy(policy, [], [(row, best) for row, best in pairs if row["kind"] == kind])}
        for kind in kinds
    ]


def _worst(policy: str, pairs: Sequence[tuple[Row, Row]], mine: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the jobs that failed, then those late in more of the time than the best fixed size, then the dearest."""
    found = [{"why": f"failed: {row['failed']}", **_named(row)} for row in mine if "failed" in row]
    judged = [(row, best) for row, best in pairs if row["policy"] == policy]

    def badness(pair: tuple[Row, Row]) -> tuple[bool, float]:
        row, best = pair
        lost = bool(best["held"] and not row["held"])
        return lost, row["late_share"] - best["late_share"] if lost else ratio(row, best)

    for row, best in sorted(judged, key=badness, reverse=True):
        why = (
            f"late in {row['late_share']:.1%} of the time (best fixed size, {best['size']}: {best['late_share']:.1%}), "
            f"{ratio(row, best):.2f} x its worker-seconds, {row['rescales']} rescales"
        )
        found.append({"why": why, **_named(row)})
    return found[:WORST]


def _named(row: Row) -> dict[str, Any]:
    hours = "" if row["hours"] == 24.0 else f" --hours {row['hours']:g}"
    regime = f" --regime {row['regime']}" if row["regime"] else ""
    which = f"--seed {row['seed']} --job {row['job']}{hours}{regime}"
    command = f"python -m benchmarks.zoo {which} --policy {row['policy']}"
    return {"job": row["job"], "kind": row.get("kind"), "policy": row["policy"], "command": command}


def violations(policy: str, pairs: Sequence[tuple[Row, Row]], covered: Sequence[Row]) -> list[dict[str, Any]]:
    """Return each target: what it asks for, how many cases were judged, and every one that missed it."""
    mine = [(row, best) for row, best in pairs if row["policy"] == policy]
    calm = [(row, best) for row, best in mine if row["kind"] in CALM]
    enough = [row for row in covered if row["intervals"] >= FEWEST]
    return [
        {
            "target": "calm",
            "asks": f"on {', '.join(CALM)}: never asks for more than the best fixed size + {CALM_WORKERS}, at most "
            f"{CALM_RESCALES} rescales a day, held wherever the best fixed size holds",
            "judged": len(calm),
            "missed": [{**_named(row), "why": why} for row, best in calm if (why := _not_calm(row, best))],
        },
        {
            "target": "beaten",
            "asks": f"no job with more than {DEARER} x the worker-seconds of the best fixed size and late more often",
            "judged": len(mine),
            "missed": [
                {**_named(row), "why": f"{ratio(row, best):.2f} x, late {row['late_share']:.2%}"}
                for row, best in mine
                if ratio(row, best) > DEARER and row["late_share"] > best["late_share"]
            ],
        },
        {
            "target": "coverage",
            "asks": f"90 % intervals hold the truth in {COVERED[0]:.0%} to {COVERED[1]:.0%}, at every utilisation",
            "judged": len(enough),
            "missed": [
                {"where": row["where"], "utilisation": row["utilisation"], "why": f"held in {row['held']:.1%}"}
                for row in enough
                if not COVERED[0] <= row["held"] <= COVERED[1]
            ],
        },
    ]


def _not_calm(row: Row, best: Row) -> str:
    asked, size = row["asked_workers"], best["size"]
    wrong = []
    if asked is not None and asked > size + CALM_WORKERS:
        wrong.append(f"{asked} workers (best fixed size {size})")
    if row["rescales_per_day"] > CALM_RESCALES:
        wrong.append(f"{row['rescales_per_day']:.1f} rescales a day")
    if best["held"] and not row["held"]:
        wrong.append(f"late in {row['late_share']:.1%}")
    return ", ".join(wrong)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _geometric(values: Sequence[float]) -> float | None:
    return geometric_mean(values) if values else None

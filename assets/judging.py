"""Expectations judged job by job: one job's bad rows keep none of the others back. Knows no Dagster."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdix.assets.expectations import ExpectationOutcome
    from perdix.settings.home import Home


@dataclass(frozen=True)
class Judged:
    """What came of a table's expectations."""

    jobs: Sequence[str]  # those that were judged
    together: Sequence[ExpectationOutcome]  # outcomes on all of them as one table
    # Job -> the critical expectations that it fails by itself; such a job goes no further
    blocked: Mapping[str, Sequence[ExpectationOutcome]]

    def outcomes(self) -> list[ExpectationOutcome]:
        """Return the outcomes with the jobs that each one blocks; they are critical only where no job goes on."""
        some_go_on = len(self.blocked) < len(self.jobs)
        found = []
        for one in self.together:
            jobs = tuple(job for job, failed in self.blocked.items() if one.name in {rule.name for rule in failed})
            success = one.success and not jobs
            severity = "warning" if some_go_on and not success else one.severity
            found.append(replace(one, success=success, severity=severity, blocked=jobs))
        return found


def judge_by_job(jobs: Collection[str], judge: Callable[[Sequence[str]], Sequence[ExpectationOutcome]]) -> Judged:
    """Judge jobs together, and each by itself only when all together fail a critical expectation.

    ``judge``: given some of the jobs, judges their rows as one table.
    """
    names = sorted(set(jobs))
    together = judge(names)
    if not any(one.blocks for one in together):
        return Judged(names, together, {})
    alone = {job: together if len(names) == 1 else judge([job]) for job in names}
    failed = {job: [one for one in outcomes if one.blocks] for job, outcomes in alone.items()}
    return Judged(names, together, {job: rules for job, rules in failed.items() if rules})


def why_blocked(table: str, failed: Sequence[tuple[str, str]]) -> str:
    """Return in words why a job goes no further, given the names and the meanings of what it fails."""
    return "; ".join(f"{table} failed {name}: {meaning}" for name, meaning in failed)


def outcomes_file(home: Home, table: str, day: str, job: str | None = None) -> Path:
    """Return where the outcomes of a day are kept; those of a run for one job only stand apart."""
    folder = home.validations / table
    return (folder if job is None else folder / job) / f"{day}.json"


def blocked_reasons(path: Path) -> dict[str, str]:
    """Return job -> why it goes no further, from a file of outcomes; nobody is blocked where nothing was judged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    failed: dict[str, list[tuple[str, str]]] = {}
    for outcome in document["outcomes"]:
        for job in outcome.get("blocked", ()):
            failed.setdefault(job, []).append((outcome["name"], outcome["meaning"]))
    return {job: why_blocked(document["table"], rules) for job, rules in failed.items()}

"""Expectations judged by job and day: one's bad rows keep none of the others back. Knows no Dagster."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdix.assets.expectations import ExpectationOutcome
    from perdix.settings.home import Home

Key = tuple[str, str]  # job and day


@dataclass(frozen=True)
class Judged:
    """What came of a table's expectations."""

    keys: Sequence[Key]  # those that were judged
    together: Sequence[ExpectationOutcome]  # outcomes on all of them as one table
    # Job and day -> the critical expectations that it fails by itself; such a day of a job goes no further
    blocked: Mapping[Key, Sequence[ExpectationOutcome]]

    def outcomes(self, days: Collection[str] | None = None) -> list[ExpectationOutcome]:
        """Return the outcomes with the jobs that each one blocks; they are critical only where nothing goes on.

        ``days``: those on which a job is blocked; every day when left out.
        """
        here = [key for key in self.keys if days is None or key[1] in days]
        some_go_on = any(key not in self.blocked for key in here)
        fails = {key: {rule.name for rule in failed} for key, failed in self.blocked.items()}
        found = []
        for candidate in self.together:
            jobs = tuple(dict.fromkeys(job for job, day in here if candidate.name in fails.get((job, day), ())))
            elsewhere = not jobs and any(candidate.name in names for names in fails.values())
            success = not jobs and (candidate.success or elsewhere)
            severity = "warning" if some_go_on and not success else candidate.severity
            found.append(replace(candidate, success=success, severity=severity, blocked=jobs))
        return found


def judge_each(keys: Collection[Key], judge: Callable[[Sequence[Key]], Sequence[ExpectationOutcome]]) -> Judged:
    """Judge days of jobs together, and each by itself where rows fail a critical expectation.

    So it depends on nobody else whether a day of a job goes on. Jobs are divided by halves, and then the days of one.

    ``judge``: given some of the keys (several jobs with all of their days, or some days of one job), judges their rows
    as one table.
    """
    ordered = sorted(set(keys))
    together = judge(ordered)
    return Judged(ordered, together, dict(_failing(ordered, together, judge)))


def jobs_of(keys: Iterable[Key]) -> list[str]:
    """Return the jobs of some keys, sorted."""
    return sorted({job for job, _ in keys})


def _failing(
    keys: Sequence[Key],
    outcomes: Sequence[ExpectationOutcome],
    judge: Callable[[Sequence[Key]], Sequence[ExpectationOutcome]],
) -> Iterator[tuple[Key, list[ExpectationOutcome]]]:
    if not any(outcome.severity == "critical" and (outcome.unexpected or not outcome.success) for outcome in outcomes):
        return
    if len(keys) > 1:
        part = 0 if keys[0][0] != keys[-1][0] else 1
        names = sorted({key[part] for key in keys})
        middle = names[len(names) // 2]
        for half in ([key for key in keys if key[part] < middle], [key for key in keys if key[part] >= middle]):
            yield from _failing(half, judge(half), judge)
    elif keys and (failed := [outcome for outcome in outcomes if outcome.blocks]):
        yield keys[0], failed


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

"""What a check of ``perdix doctor`` found, and how that is printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cli.output import console, number, styled, table
from control.checkup.facts import QueryFact, Verdict
from settings.durations import in_words


@dataclass(frozen=True)
class Finding:
    """One check.

    Attributes
    ----------
    mend
        The fix where it is not well; several are parted by semicolons.
    better, doubt
        What would be better, and what may be wrong, where it is well.
    queries
        What was found of each query, where a job's metrics were checked.
    """

    check: str
    ok: bool
    found: str
    mend: str = ""
    better: str = ""
    doubt: str = ""
    queries: tuple[QueryFact, ...] = ()


def show(finding: Finding, *, in_full: bool) -> None:
    """Print a finding for people; of queries all where ``in_full``, else those that are not well."""
    mark = styled("ok    ", "green") if finding.ok else styled("broken", "red")
    console.print(mark, f"{finding.check}: {finding.found}", highlight=False)
    asked = [one for one in finding.queries if one.verdict is not Verdict.NOT_ASKED]
    shown = asked if in_full else [one for one in asked if not one.ok]
    if shown:
        table("", ["metric", "series", "newest", "age", "verdict"], [_row(one) for one in shown])
    if not finding.ok and finding.mend:
        console.print(f"       fix: {finding.mend}", highlight=False)
    for word, text in (("check", finding.doubt), ("better", finding.better)):
        if text:
            console.print(f"       {word}: {text}" if word == "better" else f"       {word} {text}", highlight=False)


def in_sentence(facts: Iterable[QueryFact]) -> str:
    """Return what was found of queries in one line: those with the same finding and fix together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in facts:
        alike.setdefault((one.found, one.fix), []).append(one.metric)
    return "; ".join(f"{', '.join(names)}: {found}" for (found, _), names in alike.items())


def _row(fact: QueryFact) -> list[str]:
    unit = "" if fact.unit == "ratio" else f" {fact.unit}"
    newest = "-" if fact.newest is None else f"{number(fact.newest)}{unit}"
    age = "-" if fact.age_s is None else in_words(fact.age_s)
    verdict = fact.verdict.value
    if not fact.ok:
        verdict = f"{verdict}: {fact.found}"
    elif fact.verdict is Verdict.MISSING:
        verdict = "missing, not needed"
    return [fact.metric, str(fact.series), newest, age, verdict]

"""What a check of ``perdix doctor`` found, and how that is printed."""

from collections.abc import Iterable
from dataclasses import dataclass

from perdix.cli.output import console, number, styled, table
from perdix.control.checkup.facts import HARMLESS, QueryFact, Verdict
from perdix.settings.durations import in_words

BETWEEN = "; "  # what was found by one check


@dataclass(frozen=True)
class Finding:
    """One check."""

    check: str
    ok: bool
    found: str
    fix: str = ""  # what to do where it is not well: a line each
    # better, doubt: what would be better, and what may be wrong, where it is well
    better: str = ""
    doubt: str = ""
    queries: tuple[QueryFact, ...] = ()  # what was found of each query, where a job's metrics were checked


def show(finding: Finding, *, in_full: bool) -> None:
    """Print a finding for people; of queries all where ``in_full``, else those that are not well."""
    mark = styled("ok    ", "green") if finding.ok else styled("broken", "red")
    asked = [query for query in finding.queries if query.verdict is not Verdict.NOT_ASKED]
    console.print(mark, f"{finding.check}: {finding.found}")
    shown = asked if in_full else [query for query in asked if not query.ok]
    if shown:
        table("", ["metric", "series", "newest", "age", "verdict"], [_row(query) for query in shown])
    for fix in () if finding.ok else filter(None, finding.fix.split("\n")):
        console.print(f"       fix: {fix}")
    for word, text in (("check ", finding.doubt), ("better: ", finding.better)):
        if text:
            console.print(f"       {word}{text}")


def in_sentence(facts: Iterable[QueryFact]) -> str:
    """Return what was found of queries in one line: those of which the same was found together."""
    alike: dict[str, list[str]] = {}
    for fact in facts:
        alike.setdefault(fact.found, []).append(fact.metric)
    return BETWEEN.join(f"{', '.join(names)}: {found}" for found, names in alike.items())


def fixes(facts: Iterable[QueryFact]) -> list[str]:
    """Return the fix of each query; what fixes several is named once, and only then without the query's name."""
    alike: dict[str, list[str]] = {}
    for fact in facts:
        if fact.fix:
            alike.setdefault(fact.fix, []).append(fact.metric)
    return [fix if len(names) > 1 else f"{names[0]}: {fix}" for fix, names in alike.items()]


def _row(fact: QueryFact) -> list[str]:
    unit = "" if fact.unit == "ratio" else f" {fact.unit}"
    newest = "-" if fact.newest is None else f"{number(fact.newest)}{unit}"
    age = "-" if fact.age_s is None else in_words(fact.age_s)
    verdict = fact.verdict.value.replace("_", " ")
    if fact.ok and fact.verdict not in HARMLESS:
        verdict = f"{verdict}, not needed"
    if fact.rejected:
        verdict = f"{verdict}, {number(fact.rejected)} values rejected"
    return [fact.metric, str(fact.series), newest, age, verdict]

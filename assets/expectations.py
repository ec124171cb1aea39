"""Running a suite of Great Expectations on a table and reading its results. Knows no Dagster.

A suite is judged in two passes. The first counts, in one aggregate for all rules. Only the rules that failed are judged
again for examples, because collecting them costs Great Expectations several Spark jobs per rule.
"""

import difflib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial, reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perdix.assets.checked_frames import Frame, checked_rows, counted_rows, facts_of
from perdix.assets.expectation_suite import Rule, Suite
from perdix.assets.expectation_validator import great_expectations, validated
from perdix.settings.yaml_files import SettingsError

MOST_EXAMPLES = 20
_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}
_EXAMPLES = {"result_format": "BASIC", "partial_unexpected_count": MOST_EXAMPLES}


@dataclass(frozen=True)
class ExpectationOutcome:
    """What came of one expectation.

    ``success``: false also when the expectation could not be judged; ``error`` then says why.
    ``observed``: what a whole-table expectation saw (a number as float); ``None`` for one that is judged row by row.
    ``checked``, ``unexpected``, ``unexpected_percent``: rows that were judged (missing values take no part in a range),
    those that are unexpected, and their percentage.
    ``examples``: at most twenty unexpected rows: the columns that the suite shows and the value.
    ``blocked``: jobs that fail it by themselves and therefore go no further (:mod:`perdix.assets.judging`).
    """

    name: str
    success: bool
    severity: str
    meaning: str
    expectation: str
    kwargs: Mapping[str, Any]
    observed: Any = None
    checked: int | None = None
    unexpected: int | None = None
    unexpected_percent: float | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    error: str | None = None
    blocked: tuple[str, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether this failure stops what is downstream."""
        return not self.success and self.severity == "critical"


def run_suite(frame: Frame, suite: Suite, *, now_s: float) -> list[ExpectationOutcome]:
    """Judge a table.

    Raises ``SettingsError`` when Great Expectations does not know an expectation or refuses its arguments; names file
    and line.

    Returns one per rule and fact of the suite, in its order.

    ``frame``: Spark or pandas frame with the table's columns (and ``kind`` for samples with counters, see
    :func:`perdix.assets.judged_frames.judged_frame`). A column that is missing fails the expectations that need it.
    ``suite``: see :func:`perdix.assets.expectation_suite.load_suite`.
    ``now_s``: epoch seconds of the caller's clock.
    """
    judged_columns = list(dict.fromkeys(name for rule in suite.rules for name in rule.columns))
    rows = partial(checked_rows, frame, suite.table, list(dict.fromkeys([*suite.key, *suite.shown, *judged_columns])))
    outcomes: dict[str, ExpectationOutcome] = {}
    if suite.rules:
        looks_at_one = all(len(rule.columns) == 1 for rule in suite.rules)
        counted = counted_rows(frame, suite.table, judged_columns) if looks_at_one else rows()
        outcomes = _validated(counted, suite, suite.rules, _COUNTS)
        broken = [rule for rule in suite.rules if not outcomes[rule.name].success and outcomes[rule.name].unexpected]
        whole = rows() if broken else None
        for name, outcome in (_validated(whole, suite, broken, _EXAMPLES) if broken else {}).items():
            outcomes[name] = replace(outcome, examples=_rows_like(whole, outcome, suite.shown))
    if suite.facts:
        facts = facts_of(frame, suite.key, now_s)
        judged = _validated(pd.DataFrame([facts]), suite, suite.facts, _COUNTS)
        outcomes |= {rule.name: _about_the_table(judged[rule.name], rule, facts) for rule in suite.facts}
    return [outcomes[rule.name] for rule in (*suite.rules, *suite.facts)]


def write_outcomes(outcomes: Sequence[ExpectationOutcome], path: Path, *, suite: Suite, at_s: float) -> Path:
    """Write everything that is known about the outcomes as one JSON document, whole or not at all."""
    document = {
        "table": suite.table,
        "suite": suite.file.name,
        "at_s": at_s,
        "success": all(outcome.success for outcome in outcomes),
        "blocks": any(outcome.blocks for outcome in outcomes),
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(document, indent=2, default=str), encoding="utf-8")
    return partial.replace(path)


def _validated(
    frame: Frame, suite: Suite, rules: Sequence[Rule], result_format: Mapping[str, Any]
) -> dict[str, ExpectationOutcome]:
    named = {rule.name: rule for rule in rules}  # by name: Great Expectations reorders results
    found = validated(frame, [_expectation(suite, rule) for rule in rules], result_format)
    return {name: _outcome(named[name], item) for item in found if (name := item["expectation_config"]["meta"]["rule"])}


def _expectation(suite: Suite, rule: Rule) -> Any:
    expectations = great_expectations().expectations
    known = {name: value for name, value in vars(expectations).items() if name.startswith("Expect")}
    wanted = "".join(part.capitalize() for part in rule.expect.split("_"))
    names = {name.lower(): name for name in known}
    if wanted.lower() not in names:
        close = difflib.get_close_matches(wanted, known, n=1)
        hint = f"; did you mean '{_snake(close[0])}'?" if close else ""
        raise SettingsError(f"{suite.place(rule)}: Great Expectations knows no '{rule.expect}'{hint}")
    try:
        return known[names[wanted.lower()]](**rule.arguments(), severity=rule.severity, meta={"rule": rule.name})
    except (TypeError, ValueError) as error:  # pydantic's errors are ValueErrors
        reason = "; ".join(line.strip() for line in str(error).splitlines()[1:]) or str(error)
        raise SettingsError(f"{suite.place(rule)}: '{rule.expect}' refuses its kwargs: {reason}") from None


def _outcome(rule: Rule, item: Mapping[str, Any]) -> ExpectationOutcome:
    result = item.get("result") or {}
    observed = result.get("observed_value")
    examples = (result.get("partial_unexpected_list") or [])[:MOST_EXAMPLES]
    checked, missing = result.get("element_count"), result.get("missing_count")
    return ExpectationOutcome(
        name=rule.name,
        success=bool(item["success"]),
        severity=rule.severity,
        meaning=rule.meaning,
        expectation=rule.expect,
        kwargs=rule.arguments(),
        observed=float(observed) if isinstance(observed, int | float) else observed,
        checked=None if checked is None else int(checked) - int(missing or 0),
        unexpected=result.get("unexpected_count"),
        unexpected_percent=result.get("unexpected_percent"),
        examples=tuple({"value": value} for value in examples),
        error=_error_of(item.get("exception_info") or {}),
    )


def _plain(value: Any) -> Any:
    """Return a cell as JSON can hold it: numbers, text, null, and times in ISO form."""
    if value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool | int | str):
        return value
    return float(value) if isinstance(value, float | np.number) else str(value)


def _error_of(info: Mapping[str, Any]) -> str | None:
    """Return why an expectation could not be judged, from either form that Great Expectations gives it."""
    nested = [value for value in info.values() if isinstance(value, Mapping)]
    for entry in (info, *nested):
        if entry.get("raised_exception"):
            return str(entry.get("exception_message") or "no reason given").removeprefix("Error: ")
    return None


def _about_the_table(outcome: ExpectationOutcome, rule: Rule, facts: Mapping[str, float | None]) -> ExpectationOutcome:
    """Tell the fact itself: that one row of one was unexpected says nothing."""
    unknown = [name for name in rule.columns if facts.get(name) is None]
    fields = {**asdict(outcome), "checked": None, "unexpected": None, "unexpected_percent": None, "examples": ()}
    if unknown and facts["rows"]:
        fields |= {"success": False, "error": f"the table lacks the columns for {', '.join(unknown)}"}
    return ExpectationOutcome(
        **{**fields, "observed": facts.get(rule.columns[0]) if rule.columns else outcome.observed}
    )


def _rows_like(rows: Frame, outcome: ExpectationOutcome, shown: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Return rows that hold the unexpected values found, with the columns that the suite shows.

    Great Expectations can do so itself, but walks over every unexpected row in Python: 20 s for half a million.
    """
    columns = [outcome.kwargs[key] for key in ("column", "column_A", "column_B") if key in outcome.kwargs]
    found = [example["value"] for example in outcome.examples]
    tuples = [value if isinstance(value, list | tuple) else (value,) for value in found]
    kept = list(dict.fromkeys(name for name in (*columns, *shown) if name in rows.columns))
    if not columns or not tuples or any(None in values for values in tuples):
        return outcome.examples
    alike = [reduce(and_, (rows[name] == value for name, value in zip(columns, row, strict=True))) for row in tuples]
    chosen = rows[reduce(or_, alike)][kept]  # the same words for pandas and Spark
    if isinstance(chosen, pd.DataFrame):
        picked = chosen.head(MOST_EXAMPLES).to_dict("records")
    else:
        picked = [row.asDict() for row in chosen.limit(MOST_EXAMPLES).collect()]
    return tuple({str(name): _plain(value) for name, value in row.items()} for row in picked)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

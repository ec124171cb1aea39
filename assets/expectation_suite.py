"""Expectation suites as an operator writes them in ``conf/expectations``; reading one imports no Great Expectations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from perdix.assets.checked_frames import FACTS, checked_columns
from perdix.settings.home import SHIPPED, conf_folder
from perdix.settings.nearest_name import meant
from perdix.settings.strict import Strict
from perdix.settings.yaml_files import SettingsError, load_model, read_yaml
from perdix.telemetry.metrics import CANONICAL


class Rule(Strict):
    """One expectation."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]  # becomes the name of the Dagster asset check
    # expect, kwargs: a core expectation of Great Expectations in its own words, for example
    # ``expect_column_values_to_be_between`` with ``{column: cpu_load, mostly: 0.99}``
    expect: Annotated[str, Field(pattern=r"^expect_[a-z0-9_]+$")]
    kwargs: dict[str, Any] = Field(default_factory=dict)
    bounds_of: str | None = None  # a canonical metric whose physical bounds become ``min_value`` and ``max_value``
    severity: Literal["critical", "warning"] = "warning"  # ``critical`` stops what is downstream, ``warning`` is shown
    meaning: Annotated[str, Field(min_length=10)]  # what it means when it fails, for a reader who did not write it

    @model_validator(mode="after")
    def _bounded_by_a_metric(self) -> Self:
        if self.bounds_of is not None and self.bounds_of not in CANONICAL:
            raise ValueError(_unknown("metric", self.bounds_of, CANONICAL))
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the expectation reads."""
        named = (self.kwargs.get(key) for key in ("column", "column_A", "column_B"))
        return tuple(name for name in named if name is not None)

    def arguments(self) -> dict[str, Any]:
        """Return ``kwargs`` with the bounds of the metric filled in."""
        if self.bounds_of is None:
            return dict(self.kwargs)
        metric = CANONICAL[self.bounds_of]
        return {"min_value": metric.low, "max_value": metric.high, **self.kwargs}


class Suite(Strict):
    """The expectations of one table of the lake."""

    file: Path  # the file it was read from
    table: str
    key: tuple[str, ...]  # columns that name a row: what the fact ``duplicate_share`` counts
    shown: tuple[str, ...] = ()  # columns shown beside an unexpected value
    rules: tuple[Rule, ...] = ()  # judged on every row
    # Judged on figures of the whole table, each a column of :data:`perdix.assets.checked_frames.FACTS`
    facts: tuple[Rule, ...] = ()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        columns = checked_columns(self.table)
        for name in (*self.key, *self.shown):
            if name not in columns:
                raise ValueError(_unknown("column", name, columns))
        for known, rules in ((columns, self.rules), (FACTS, self.facts)):
            for rule in rules:
                for name in rule.columns:
                    if name not in known:
                        raise ValueError(f"{rule.name}: {_unknown('column', name, known)}")
        names = [rule.name for rule in (*self.rules, *self.facts)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"more than one expectation is named {', '.join(twice)}")
        return self

    def only(self, names: Collection[str]) -> Suite:
        """Return the suite with the named expectations only."""
        rules = tuple(rule for rule in self.rules if rule.name in names)
        facts = tuple(rule for rule in self.facts if rule.name in names)
        return self.model_copy(update={"rules": rules, "facts": facts})

    def place(self, rule: Rule) -> str:
        """Return ``file:line`` of an expectation, for errors that only Great Expectations can find."""
        document = read_yaml(self.file)
        for section in ("rules", "facts"):
            for index, item in enumerate(document.get(section) or []):
                if item.get("name") == rule.name:
                    return f"{self.file}:{document[section].lc.item(index)[0] + 1}"
        return str(self.file)


def load_suite(path: Path) -> Suite:
    """Read one suite. Raises ``SettingsError``, naming file, line and fix."""
    return load_model(path, Suite, file=path)


def load_suites(conf: Path | None = None) -> Mapping[str, Suite]:
    """Read every suite of ``expectations`` in the configuration, by table; of others what comes with perdix.

    Raises ``SettingsError`` when one cannot be used, or two judge the same table.
    """
    suites: dict[str, Suite] = {}
    own, shipped = (conf or conf_folder()) / "expectations", SHIPPED / "expectations"
    for path in dict.fromkeys((*sorted(own.glob("*.yaml")), *sorted(shipped.glob("*.yaml")))):
        suite = load_suite(path)
        judging = suites.setdefault(suite.table, suite)
        if judging is not suite and path.parent == own:
            raise SettingsError(f"{path}:1: table '{suite.table}' is judged in {judging.file} already")
    return suites


def _unknown(kind: str, name: str, known: Collection[str]) -> str:
    return f"no {kind} '{name}'; " + meant(name, known, f"known: {', '.join(known)}")

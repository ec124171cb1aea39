"""``perdix replay --help``: forty options are found by their group."""

from __future__ import annotations

import re

import typer
from typer.testing import CliRunner

from perdix.cli.main import app

GROUPS = [
    "Workload",
    "Twin",
    "Policies",
    "Objectives",
    "Failures",
    "Prices",
    "Runs",
    "Instead of a job: a dataflow, sized by operator",
    "Instead of a job: a topology on leased hosts",
    "Output",
]


def helped() -> str:
    return CliRunner().invoke(app, ["replay", "--help"], env={"COLUMNS": "120"}).stdout


def test_every_option_is_in_one_group() -> None:
    options = typer.main.get_command(app).commands["replay"].params  # type: ignore[attr-defined]
    assert {option.rich_help_panel for option in options if option.name != "help"} == set(GROUPS)
    shown = re.findall(r"^│ (--[a-z-]+)", helped(), re.MULTILINE)
    assert (
        len(shown) == len(set(shown)) == len(options) + ("--help" in shown and "help" not in {o.name for o in options})
    )
    assert re.findall(r"^╭─ (.+?) ─+╮", helped(), re.MULTILINE) == ["Options", *GROUPS]


def test_it_ends_with_examples() -> None:
    *_, last = (line.strip() for line in helped().splitlines() if line.strip())
    assert last.startswith("Example: perdix replay --topology")
    assert helped().index("Example:") > helped().index("--json")

"""The page on Daedalus says what the code does: its options, its modules and its tests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perdix.policies.daedalus_options import AS_PRINTED, DaedalusOptions

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "daedalus.md").read_text(encoding="utf-8")
DEFECTS = (ROOT / "tests" / "policies" / "test_daedalus_original_defects.py").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a title."""
    section = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


OPTIONS = {quoted(row[0])[0]: row for row in rows("Options")}


def test_every_option_is_there_in_the_order_of_the_code() -> None:
    assert list(OPTIONS) == list(DaedalusOptions.model_fields)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_has_its_default_and_what_the_paper_prints(name: str) -> None:
    _, default, printed, meaning = OPTIONS[name]
    assert json.loads(default.strip("`")) == getattr(DaedalusOptions(), name)
    assert json.loads(printed.strip("`")) == getattr(DaedalusOptions(**AS_PRINTED), name)
    assert meaning


def test_each_part_of_the_paper_names_modules_and_tests_that_are_there() -> None:
    parts = rows("Where each part is")
    assert [row[0] for row in parts] == [f"D{number}" for number in range(1, 9)]
    for _, _, modules, tests in parts:
        named = quoted(modules) + quoted(tests)
        assert quoted(modules)
        assert quoted(tests)
        assert [path for path in named if not (ROOT / path).is_file()] == []


def test_each_defect_has_its_test_and_each_test_its_defect() -> None:
    named = [name for row in rows("The defects of the original program") for name in quoted(row[2])]
    assert sorted(named) == sorted(re.findall(r"^def (test_\w+)", DEFECTS, re.MULTILINE))

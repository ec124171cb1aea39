"""What a page names can be switched on by that name, and what can be switched on is named by a page."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from perdix.assets.shared_training import known_families
from perdix.models import forecasting
from perdix.models.forecasting.families import FAMILIES
from perdix.models.forecasting.member import Member
from perdix.policies.build import POLICIES
from perdix.policies.dataflow.build import DATAFLOW_POLICIES
from perdix.policies.hosts.build import HOSTS_POLICIES
from perdix.replay.contenders import contenders
from perdix.replay.hosts.run import hosts_contenders
from perdix.replay.operators.campaign import dataflow_contenders
from perdix.settings.yaml_files import SettingsError

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PER_OPERATOR = " per operator"


def named_in_table(page: str, header: str) -> set[str]:
    """Names in the first column of the table whose header begins so."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = text[text.index(f"| {header} |") :].split("\n\n", maxsplit=1)[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def headed(page: str) -> list[str]:
    return re.findall(r"^## (.+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)


def fittable() -> Iterable[type[Member]]:
    """Every class in `models/forecasting` that can be fitted and has a name of its own."""
    for module in pkgutil.iter_modules(forecasting.__path__):
        for found in vars(importlib.import_module(f"{forecasting.__name__}.{module.name}")).values():
            if inspect.isclass(found) and issubclass(found, Member) and "family" in vars(found):
                yield found


def test_every_forecaster_can_be_named_in_conf_and_the_page_lists_all_of_them() -> None:
    assert {family.family: family for family in fittable()} == FAMILIES
    assert named_in_table("forecasting.md", "family") == set(FAMILIES)
    assert known_families(FAMILIES) == FAMILIES


def test_every_policy_has_a_section_and_every_section_a_policy() -> None:
    sections = headed("policies.md")
    assert set(POLICIES) == {name for name in sections if name in POLICIES}
    of_operators = {name.removesuffix(PER_OPERATOR) for name in sections[sections.index("static") + 1 :]}
    assert set(DATAFLOW_POLICIES) <= of_operators
    assert named_in_table("hosts.md", "name") == set(HOSTS_POLICIES)


def listed() -> list[tuple[str, str]]:
    """Page and labels of every list of policies in a command.

    Other programs, which only take part, and what only a benchmark knows (``frontier``) are left out.
    """
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for said in re.findall(r"(?:--polic(?:y|ies) |POLICY=)\\?\s*([a-z][^\s`\\]*)", text):
            labels = said.removesuffix(":...").rstrip(",;.)").split(",")
            if known := [name for name in labels if not name.startswith(("apache-", "frontier"))]:
                found.append((page.name, ",".join(known)))
    return found


def test_pages_name_policies_in_commands() -> None:
    assert len(listed()) > 25
    assert {page for page, _ in listed()} >= {"README.md", "replay.md", "prices.md"}


@pytest.mark.parametrize(("page", "labels"), listed())
def test_every_list_of_policies_in_a_command_can_be_built(page: str, labels: str) -> None:
    kinds: tuple[Callable[[str], Any], ...] = (contenders, dataflow_contenders, hosts_contenders)
    assert any(_builds(kind, labels) for kind in kinds), f"{page}: --policy {labels}"


def _builds(kind: Callable[[str], Any], labels: str) -> bool:
    try:
        return bool(kind(labels))
    except SettingsError:
        return False


def test_every_variable_that_an_operator_sets_is_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    folders = ("perdix", "models", "assets", "pipelines")
    code = "".join(path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py"))
    internal = {"PERDIX_MLFLOW_UI", "PERDIX_DEBUG"}  # the latter is named where it helps
    assert [name for name in set(re.findall(r'"(PERDIX_[A-Z_]+)"', code)) - internal if name not in pages] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_is_broken_by_an_empty_line(page: Path) -> None:
    parted = re.findall(r"^\|.*\n\n(\|.*)\n(?!\|[ :]*-)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert parted == [], "a row after an empty line is in no table"

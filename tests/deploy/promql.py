"""Expressions of the files under ``deploy``, the metrics they name, and ``promtool`` to check them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "perdix.json"
SCALED_OBJECT = DEPLOY / "keda" / "scaledobject.yaml"
# Words of PromQL that stand where a metric could; every function is followed by a bracket.
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


def promtool(*arguments: str, cwd: Path | None = None, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``promtool``; without it the test is skipped, and says what to install."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: apt-get install prometheus (Debian), or brew install prometheus")
    return subprocess.run(
        [program, *arguments], check=False, capture_output=True, text=True, cwd=cwd, input=given, timeout=120
    )


def read_yaml(path: Path) -> object:
    return YAML(typ="safe").load(path.read_text())


def rules() -> list[dict[str, object]]:
    return [rule for group in read_yaml(ALERTS)["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, object]:
    return json.loads(DASHBOARD.read_text())


def dashboard_expressions() -> Iterator[tuple[str, str]]:
    """Where, and what, with the dashboard's variable in place."""
    board = dashboard()
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield f"{panel['title']} {target['refId']}", target["expr"].replace("$job", "wordcount")
    for row in board["annotations"]["list"]:
        if "expr" in row:
            yield f"annotation {row['name']}", row["expr"].replace("$job", "wordcount")
    for row in board["templating"]["list"]:
        if row["type"] == "query":
            inner = re.fullmatch(r"label_values\((\w+), \w+\)", row["definition"])
            assert inner, row["definition"]
            yield f"variable {row['name']}", inner[1]


def expressions() -> list[tuple[str, str]]:
    alerts = [(str(rule.get("alert") or rule["record"]), str(rule["expr"])) for rule in rules()]
    trigger = read_yaml(SCALED_OBJECT)["spec"]["triggers"][0]["metadata"]["query"]
    return [*alerts, *dashboard_expressions(), ("scaledobject.yaml", trigger)]


def metrics_named(expression: str) -> set[str]:
    """The metrics of an expression: what is left when strings, labels, groupings, ranges and functions are gone."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}", "", bare)
    bare = re.sub(r"\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    found = re.findall(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\()\b(?!\s*\()", bare)
    return {name for name in found if name.lower() not in WORDS}

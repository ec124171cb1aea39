"""The alert rules: accepted by promtool, tested by it, explained in the docs, and about metrics that there are."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from perdix.control.publish.names import METRICS, Kind
from tests.deploy.promql import DEPLOY, expressions, metrics_named, promtool, read_yaml, rules

PROMETHEUS = DEPLOY / "prometheus"
PROJECT = DEPLOY.parent


def known() -> set[str]:
    """Every name that a query may use: what the collector exposes, and what the rules record."""
    names = {metric.name for metric in METRICS}
    histograms = {metric.name for metric in METRICS if metric.kind is Kind.HISTOGRAM}
    names |= {f"{name}_{end}" for name in histograms for end in ("bucket", "sum", "count")}
    return (names - histograms) | {str(rule["record"]) for rule in rules() if "record" in rule}


def test_promtool_accepts_the_rules_and_the_example_configuration() -> None:
    for arguments in (("check", "rules", "alerts.yaml"), ("check", "config", "scrape.yaml")):
        checked = promtool(*arguments, cwd=PROMETHEUS)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_rules_do_what_they_say() -> None:
    tested = promtool("test", "rules", "alerts_test.yaml", cwd=PROMETHEUS)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_is_tested() -> None:
    said = (PROMETHEUS / "alerts_test.yaml").read_text()
    silent = read_yaml(PROMETHEUS / "alerts_test.yaml")["tests"][0]["alert_rule_test"]
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    assert {row["alertname"] for row in silent} == alerts, "the healthy job sets off none of them"
    assert all(said.count(f"{alert}\n") + said.count(f"{alert}}}") + said.count(f'"{alert}"') >= 1 for alert in alerts)
    firing = {alert for alert in alerts if f'alertname="{alert}"' in said or f"alertname: {alert}\n" in said}
    assert firing == alerts, "and each of them is once expected to fire"


@pytest.mark.parametrize("rule", [rule for rule in rules() if "alert" in rule], ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_how_bad_and_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    page, anchor = rule["annotations"]["runbook"].split("#")
    headings = [line for line in (PROJECT / page).read_text().splitlines() if line.startswith("### ")]
    assert f"### {rule['alert']}" in headings
    assert anchor == str(rule["alert"]).lower()


@pytest.mark.parametrize(("where", "expression"), expressions(), ids=[where for where, _ in expressions()])
def test_a_query_names_only_metrics_that_there_are(where: str, expression: str) -> None:
    named = metrics_named(expression) - {"ALERTS"}
    assert named <= known(), f"{where}: {named - known()}"
    assert named or "ALERTS" in expression


def test_every_query_parses(tmp_path: Path) -> None:
    """As rules of a generated file: promtool 2 has no other way to parse an expression."""
    given = [{"record": f"parsed:{number}", "expr": text} for number, (_, text) in enumerate(expressions())]
    path = tmp_path / "rules.yaml"
    with path.open("w") as stream:
        YAML().dump({"groups": [{"name": "parsed", "rules": given}]}, stream)
    checked = promtool("check", "rules", str(path))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    broken = path.read_text().replace("max by", "max bye", 1)
    path.write_text(broken)
    assert promtool("check", "rules", str(path)).returncode != 0, "or the check would find nothing"


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('sum by (le) (rate(a_bucket{x="b{c}"}[5m])) > 2 and on (d) e offset 5m', {"a_bucket", "e"}),
        ("x:y:max != z unless on (j) max by (j) (w) == 1", {"x:y:max", "z", "w"}),
        ("a > on () group_left () clamp_min(3 * max(b), 90)", {"a", "b"}),
    ],
)
def test_the_names_in_a_query_are_found(expression: str, names: set[str]) -> None:
    assert metrics_named(expression) == names

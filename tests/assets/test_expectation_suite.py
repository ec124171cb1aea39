"""Suites: the shipped ones are sound, and a bad one is reported with file, line and fix."""

from pathlib import Path

import pandas as pd
import pytest

from perdix.assets.expectation_suite import load_suite, load_suites
from perdix.assets.expectations import run_suite
from perdix.settings.home import PROJECT
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.metrics import CANONICAL

HEAD = "table: samples\nkey: [job, series_id, ts]\n"
RULE = """rules:
  - name: cpu_in_range
    expect: expect_column_values_to_be_between
    kwargs: {column: cpu_load}
    bounds_of: cpu_load
    meaning: more than a CPU can be loaded
"""


def suite_file(folder: Path, text: str, name: str = "samples") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("table", ["samples", "job_observations"])
def test_the_shipped_suites_have_rules_of_both_severities_that_say_what_they_mean(table: str) -> None:
    suite = load_suites(PROJECT / "conf")[table]
    rules = (*suite.rules, *suite.facts)
    assert len(rules) >= 8
    assert {rule.severity for rule in rules} == {"critical", "warning"}
    assert all(len(rule.meaning.split()) > 5 for rule in rules)


def test_bounds_come_from_the_metric_and_can_be_overridden(tmp_path: Path) -> None:
    (rule,) = load_suite(suite_file(tmp_path, HEAD + RULE)).rules
    assert rule.arguments() == {"column": "cpu_load", "min_value": 0.0, "max_value": 1.5}
    stricter = RULE.replace("{column: cpu_load}", "{column: cpu_load, max_value: 1.0}")
    (rule,) = load_suite(suite_file(tmp_path, HEAD + stricter)).rules
    assert rule.arguments()["max_value"] == 1.0


@pytest.mark.parametrize("metric", CANONICAL)
def test_every_metric_has_an_upper_bound_so_that_an_absurd_value_is_named(tmp_path: Path, metric: str) -> None:
    (rule,) = load_suite(suite_file(tmp_path, HEAD + RULE.replace("bounds_of: cpu_load", f"bounds_of: {metric}"))).rules
    assert rule.arguments()["max_value"] < 1e19


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("column: cpu_load", "column: cpu_lod"), 1, "did you mean 'cpu_load'?"),
        (("bounds_of: cpu_load", "bounds_of: workload"), 4, "did you mean 'workload_per_s'?"),
        (("severity: warning", "severity: bad"), 5, "'critical' or 'warning'"),
        (("meaning: more", "meening: more"), 9, "did you mean 'meaning'?"),
        (("table: samples", "table: sampels"), 1, "no table 'sampels'"),
        (("name: cpu_in_range", "name: CPU in range"), 4, "should match pattern"),
        (("expect: expect_", "expect: "), 6, "should match pattern"),
        (("key: [job, series_id, ts]", "key: [job, series, ts]"), 1, "did you mean 'series_id'?"),
    ],
)
def test_a_wrong_suite_names_file_line_and_mend(tmp_path: Path, change: tuple[str, str], line: int, words: str) -> None:
    text = HEAD + RULE.replace("    expect:", "    severity: warning\n    expect:")
    assert change[0] in text
    path = suite_file(tmp_path, text.replace(*change))
    with pytest.raises(SettingsError) as caught:
        load_suite(path)
    assert f"{path}:{line}:" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("values_to_be_between", "values_to_be_betwen"), "did you mean 'expect_column_values_to_be_between'?"),
        (("{column: cpu_load}", "{column: cpu_load, mostly: 7}"), "refuses its kwargs"),
        (("{column: cpu_load}", "{column: cpu_load, minimum: 0}"), "refuses its kwargs"),
    ],
)
def test_what_only_great_expectations_can_tell_has_a_line_too(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    path = suite_file(tmp_path, HEAD + RULE.replace(*change))
    with pytest.raises(SettingsError) as caught:
        run_suite(pd.DataFrame({"cpu_load": [0.5]}), load_suite(path), now_s=0.0)
    assert str(caught.value).startswith(f"{path}:4: ")
    assert words in str(caught.value)


def test_two_expectations_of_one_name_are_refused(tmp_path: Path) -> None:
    facts = (
        RULE.replace("rules:", "facts:")
        .replace("column: cpu_load", "column: rows")
        .replace("    bounds_of: cpu_load\n", "")
    )
    with pytest.raises(SettingsError, match="more than one expectation is named cpu_in_range"):
        load_suite(suite_file(tmp_path, HEAD + RULE + facts))


def test_two_suites_of_one_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "expectations").mkdir()
    suite_file(tmp_path / "expectations", HEAD + RULE)
    suite_file(tmp_path / "expectations", HEAD + RULE, "samples_too")
    with pytest.raises(SettingsError, match=r"samples_too\.yaml:1: table 'samples' is judged"):
        load_suites(tmp_path)


def test_who_writes_the_suite_of_one_table_keeps_that_of_the_other(tmp_path: Path) -> None:
    (tmp_path / "expectations").mkdir()
    suite_file(tmp_path / "expectations", HEAD + RULE, "ours")
    suites = load_suites(tmp_path)
    assert [rule.name for rule in suites["samples"].rules] == ["cpu_in_range"]
    assert suites["job_observations"] == load_suites(PROJECT / "conf")["job_observations"]

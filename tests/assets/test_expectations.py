"""Suites judged by the real Great Expectations, on pandas and on Spark alike."""

import gc
import json
import math
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from perdix.assets import expectation_validator, expectations
from perdix.assets.checked_frames import checked_rows, facts_of
from perdix.assets.expectation_suite import Suite, load_suite, load_suites
from perdix.assets.expectations import ExpectationOutcome, run_suite, write_outcomes
from perdix.assets.judged_frames import judged_frame
from perdix.settings.home import PROJECT
from perdix.telemetry.lake import Lake, LakeError

NOW_S = pd.Timestamp("2026-01-02", tz="UTC").timestamp()
METRICS = {
    "cpu_load": 0.5,
    "throughput_per_s": 900.0,
    "workload_per_s": 1000.0,
    "consumer_lag_records": 10.0,
    "latency_p95_ms": 250.0,
    "scale_out": 4.0,
    "uptime_s": 60.0,
}


@pytest.fixture(scope="module")
def suites() -> dict[str, Suite]:
    return dict(load_suites(PROJECT / "conf"))


def samples(steps: int = 50, job: str = "orders") -> pd.DataFrame:
    times = pd.date_range("2026-01-01T06:00:00", periods=steps, freq="15s", tz="UTC")
    parts = [
        pd.DataFrame({"series_id": number, "metric": metric, "ts": times, "value": value})
        for number, (metric, value) in enumerate(METRICS.items())
    ]
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(worker=None, mask=None, job=job, day="2026-01-01", source="a.json").astype({"mask": object})


def observations(steps: int = 100) -> pd.DataFrame:
    times = pd.date_range("2026-01-01T06:00:00", periods=steps, freq="15s", tz="UTC")
    return pd.DataFrame(
        {
            "ts": times,
            "workload_per_s": 1000.0,
            "throughput_per_s": 990.0,
            "consumer_lag_records": 5.0,
            "latency_p95_ms": np.nan,
            "scale_out": 4.0,
            "uptime_s": np.arange(steps) * 15.0,
            "cpu_load_mean": 0.5,
            "cpu_load_max": 0.6,
            "workers_reporting": 4,
            "job": "orders",
            "day": "2026-01-01",
        }
    )


def judged(frame: Any, suite: Suite) -> dict[str, ExpectationOutcome]:
    return {outcome.name: outcome for outcome in run_suite(frame, suite, now_s=NOW_S)}


def failed(outcomes: dict[str, ExpectationOutcome]) -> set[str]:
    return {name for name, outcome in outcomes.items() if not outcome.success}


def test_good_tables_pass_and_every_expectation_is_answered_in_order(suites: dict[str, Suite]) -> None:
    for table, frame in (("samples", samples()), ("job_observations", observations())):
        outcomes = run_suite(frame, suites[table], now_s=NOW_S)
        suite = suites[table]
        assert [outcome.name for outcome in outcomes] == [rule.name for rule in (*suite.rules, *suite.facts)]
        assert all(outcome.success and outcome.error is None for outcome in outcomes)


def with_value(metric: str, value: float, share: float = 0.1) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame.index[frame["metric"] == metric]
        frame.loc[rows[: math.ceil(share * len(rows))], "value"] = value
        return frame

    return change


def timeless(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(ts=frame["ts"].where(frame.index > 0))


def tomorrow(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(ts=frame["ts"] + pd.Timedelta("1d"), day="2026-01-02")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (with_value("cpu_load", 55.0, 1.0), {"cpu_load_is_a_ratio"}),
        (with_value("cpu_load", 55.0, 0.005), {"cpu_load_is_a_ratio"}),  # one of 50: more than 1 %
        (with_value("workload_per_s", -5.0), {"workload_is_not_negative"}),
        (with_value("throughput_per_s", -5.0), {"throughput_is_not_negative"}),
        (with_value("consumer_lag_records", -1.0), {"lag_is_not_negative"}),
        (with_value("latency_p95_ms", 1e9), {"latency_is_plausible"}),
        (with_value("scale_out", 1e6), {"scale_out_is_plausible"}),
        (with_value("uptime_s", -1.0), {"uptime_is_not_negative"}),
        (lambda frame: frame.iloc[:0], {"has_rows"}),
        (timeless, {"keys_are_whole", "days_match_their_partition"}),
        (lambda frame: frame.assign(value=frame["value"].where(frame.index > 0)), {"missing_values_have_a_reason"}),
        (lambda frame: frame.assign(mask="nan"), {"missing_values_have_a_reason", "few_values_are_masked"}),
        (lambda frame: frame.assign(mask="nan", value=np.nan), {"few_values_are_masked"}),
        (lambda frame: frame.assign(day="2026-01-02"), {"days_match_their_partition"}),
        (tomorrow, {"no_sample_is_from_the_future"}),
        (lambda frame: pd.concat([frame, frame.iloc[:20].assign(source="b.json")]), {"few_duplicates"}),
    ],
)
def test_what_is_wrong_with_samples_is_named(
    suites: dict[str, Suite], change: Callable[[pd.DataFrame], pd.DataFrame], names: set[str]
) -> None:
    assert failed(judged(change(samples()), suites["samples"])) == names


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"workload_per_s": -1.0}, {"workload_in_range"}),
        ({"throughput_per_s": np.nan}, {"throughput_is_covered"}),
        ({"cpu_load_max": 2.0}, {"cpu_load_in_range"}),
        ({"cpu_load_max": 0.4}, {"hottest_worker_is_hottest"}),
        ({"consumer_lag_records": -3.0}, {"lag_in_range"}),
        ({"workload_per_s": np.nan}, {"workload_is_covered"}),
        ({"workers_reporting": 3}, {"workers_all_report"}),
        ({"ts": pd.Timestamp("2026-01-01", tz="UTC")}, {"keys_are_unique"}),
        ({"job": None}, {"keys_are_whole"}),
    ],
)
def test_what_is_wrong_with_observations_is_named(
    suites: dict[str, Suite], changes: dict[str, Any], names: set[str]
) -> None:
    assert failed(judged(observations().assign(**changes), suites["job_observations"])) == names


def test_a_failure_says_how_much_and_shows_examples(suites: dict[str, Suite]) -> None:
    frame = with_value("cpu_load", 55.0, 0.8)(samples())
    outcome = judged(frame, suites["samples"])["cpu_load_is_a_ratio"]
    assert (outcome.checked, outcome.unexpected, outcome.unexpected_percent) == (50, 40, 80.0)
    assert outcome.blocks
    assert len(outcome.examples) == 20
    assert outcome.examples[0]["cpu_load"] == 55.0
    assert outcome.examples[0]["job"] == "orders"
    assert outcome.examples[0]["ts"].startswith("2026-01-01T06:00:00")
    assert json.loads(json.dumps(asdict(outcome)))["examples"][0]["cpu_load"] == 55.0


def test_examples_of_a_pair_are_rows_that_break_it(suites: dict[str, Suite]) -> None:
    frame = observations(200).assign(cpu_load_mean=np.linspace(0.1, 0.9, 200))
    frame["cpu_load_max"] = frame["cpu_load_mean"].where(frame.index % 2 == 0, frame["cpu_load_mean"].iloc[::-1].values)
    outcome = judged(frame, suites["job_observations"])["hottest_worker_is_hottest"]
    assert outcome.unexpected == 50
    assert len(outcome.examples) == 20
    assert all(row["cpu_load_max"] < row["cpu_load_mean"] for row in outcome.examples)


def test_a_warning_does_not_block(suites: dict[str, Suite]) -> None:
    outcome = judged(with_value("consumer_lag_records", -1.0)(samples()), suites["samples"])["lag_is_not_negative"]
    assert not outcome.success
    assert not outcome.blocks


def test_a_missing_column_fails_its_expectations_and_says_so(suites: dict[str, Suite]) -> None:
    outcomes = judged(observations().drop(columns=["consumer_lag_records", "day"]), suites["job_observations"])
    assert failed(outcomes) == {"lag_in_range", "days_match_their_partition"}
    assert "consumer_lag_records" in str(outcomes["lag_in_range"].error)
    assert "wrong_day_share" in str(outcomes["days_match_their_partition"].error)


def test_bounds_spare_counters(suites: dict[str, Suite]) -> None:
    frame = with_value("cpu_load", 1e9, 1.0)(samples())
    assert failed(judged(frame.assign(kind="counter"), suites["samples"])) == set()
    assert failed(judged(frame.assign(kind="gauge"), suites["samples"])) == {"cpu_load_is_a_ratio"}


def test_a_part_of_a_suite_can_be_run(suites: dict[str, Suite]) -> None:
    chosen = suites["samples"].only({"has_rows", "lag_is_not_negative"})
    assert list(judged(samples(), chosen)) == ["lag_is_not_negative", "has_rows"]


def test_everything_is_written_beside_the_data(suites: dict[str, Suite], tmp_path: Path) -> None:
    outcomes = run_suite(with_value("cpu_load", 55.0, 1.0)(samples()), suites["samples"], now_s=NOW_S)
    path = write_outcomes(outcomes, tmp_path / "a" / "2026-01-01.json", suite=suites["samples"], at_s=NOW_S)
    written = json.loads(path.read_text())
    assert (written["table"], written["success"], written["blocks"]) == ("samples", False, True)
    assert [item["name"] for item in written["outcomes"]] == [outcome.name for outcome in outcomes]
    assert [item.name for item in path.parent.iterdir()] == ["2026-01-01.json"]


QUANTILES = """table: job_observations
key: [job, ts]
rules:
  - name: most_cpu_loads_are_low
    expect: expect_column_quantile_values_to_be_between
    kwargs: {column: cpu_load_max, quantile_ranges: {quantiles: [0.5], value_ranges: [[0, 0.5]]}}
    meaning: Half of the workers are at their limit.
"""


def test_what_an_expectation_finds_need_not_be_numbers(tmp_path: Path) -> None:
    """Great Expectations cannot store the result of this one, and used to end all others with it."""
    (tmp_path / "observations.yaml").write_text(QUANTILES)
    (outcome,) = run_suite(observations(), load_suite(tmp_path / "observations.yaml"), now_s=NOW_S)
    assert (outcome.success, outcome.error) == (False, None)
    assert outcome.observed == {"quantiles": [0.5], "values": [0.6]}


@pytest.mark.parametrize(
    "frame",
    [samples(), with_value("cpu_load", 55.0, 0.8)(samples()), samples().drop(columns=["value"])],
    ids=["good", "bad", "a column is missing"],
)
def test_a_second_run_finds_what_a_first_one_does(suites: dict[str, Suite], frame: pd.DataFrame) -> None:
    """What is kept of the first one is about the expectations, and nothing about the table."""
    expectation_validator._kept.clear()
    first = judged(frame, suites["samples"])
    other = with_value("cpu_load", 7.0, 0.2)(samples(60))
    assert judged(other, suites["samples"])["cpu_load_is_a_ratio"].unexpected == 12
    assert judged(frame, suites["samples"]) == first


def test_no_table_is_held_when_its_judging_is_over(suites: dict[str, Suite], monkeypatch: pytest.MonkeyPatch) -> None:
    expectation_validator._kept.clear()
    held = []

    def seen(frame: Any, *args: Any) -> Any:
        held.append(weakref.ref(frame))
        return expectation_validator.validated(frame, *args)

    monkeypatch.setattr(expectations, "validated", seen)
    judged(with_value("cpu_load", 55.0)(samples()), suites["samples"])
    gc.collect()
    assert [reference() for reference in held] == [None, None, None]  # counts, examples, facts


def usual_way(frame: pd.DataFrame, asked: list[Any], result_format: dict[str, Any]) -> list[dict[str, Any]]:
    """What Great Expectations finds when it is used as its manual says."""
    gx = expectation_validator.great_expectations()
    context = gx.get_context(mode="ephemeral")
    batch = context.data_sources.add_pandas("t").add_dataframe_asset("t").add_batch_definition_whole_dataframe("t")
    suite = context.suites.add(gx.ExpectationSuite(name="s", expectations=asked))
    definition = gx.ValidationDefinition(name="v", data=batch, suite=suite)
    found = definition.run(batch_parameters={"dataframe": frame}, result_format=result_format)
    return [item.to_json_dict() for item in found.results]


@pytest.mark.parametrize("most_examples", [0, 20])
def test_great_expectations_finds_the_same_when_used_as_its_manual_says(
    suites: dict[str, Suite], most_examples: int
) -> None:
    """Also in a second run, which asks no expectation what it needs. Without one column, to see a failure, too."""
    frame = observations().assign(cpu_load_max=0.4).drop(columns=["consumer_lag_records"])
    suite = suites["job_observations"]
    result_format = {"result_format": "BASIC", "partial_unexpected_count": most_examples}

    def told(found: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            item["expectation_config"]["meta"]["rule"]: (
                item["success"],
                item["result"],
                expectations._error_of(item["exception_info"]),
            )
            for item in found
        }

    def asked() -> list[Any]:
        return [expectations._expectation(suite, rule) for rule in suite.rules]

    usual = told(usual_way(frame, asked(), result_format))
    assert {success for success, _, _ in usual.values()} == {True, False}
    for _ in range(2):
        assert told(expectation_validator.validated(frame, asked(), result_format)) == usual


def test_judging_prints_nothing(suites: dict[str, Suite], capfd: pytest.CaptureFixture[str]) -> None:
    judged(with_value("cpu_load", 55.0)(samples()).drop(columns=["mask"]), suites["samples"])
    assert capfd.readouterr() == ("", "")


def as_spark(session: Any, frame: pd.DataFrame) -> Any:
    """Text columns without a value have no type of their own, so every one of them is said to be text."""
    texts = {"metric", "worker", "mask", "job", "day", "source", "kind"}
    kinds = {"ts": "timestamp", "series_id": "long", "workers_reporting": "long"}
    schema = ", ".join(f"{name} {'string' if name in texts else kinds.get(name, 'double')}" for name in frame.columns)
    return session.createDataFrame(frame, schema)


def bad_samples() -> pd.DataFrame:
    bad = with_value("cpu_load", 55.0, 0.8)(samples())
    return pd.concat([bad, bad.iloc[:20].assign(source="b.json"), bad.iloc[:3].assign(value=np.nan, ts=pd.NaT)])


def bad_observations() -> pd.DataFrame:
    return observations().assign(cpu_load_max=0.4).drop(columns=["consumer_lag_records"])


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "made"),
    [
        pytest.param("samples", bad_samples, id="samples"),
        pytest.param("job_observations", bad_observations, id="observations", marks=pytest.mark.e2e),
    ],
)
def test_spark_and_pandas_judge_alike(
    spark: Any, suites: dict[str, Suite], table: str, made: Callable[[], pd.DataFrame]
) -> None:
    frame = made()
    on_spark, on_pandas = judged(as_spark(spark, frame), suites[table]), judged(frame, suites[table])
    assert list(on_spark) == list(on_pandas)
    for name, outcome in on_spark.items():
        other = on_pandas[name]
        assert (outcome.success, outcome.checked, outcome.unexpected, outcome.error) == (
            other.success,
            other.checked,
            other.unexpected,
            other.error,
        ), name
        assert outcome.observed == pytest.approx(other.observed), name
        assert len(outcome.examples) == len(other.examples), name


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A day of gauges, and of a counter of CPU seconds that no CPU load could reach."""
    lake = Lake(tmp_path / "lake")
    frame = with_value("cpu_load", 1e9, 1.0)(samples())
    keys = {"job": "orders", "source": "a.json"}
    stored = frame.drop(columns=["job", "day", "source"])
    lake.put("samples", {**keys, "day": "2026-01-01"}, stored)
    series = stored[["series_id", "metric", "worker"]].drop_duplicates().assign(name="", labels="{}", mapped=True)
    kinds = ["counter" if metric == "cpu_load" else "gauge" for metric in series["metric"]]
    lake.put("series", keys, series.assign(kind=kinds))
    lake.replace("job_observations", "orders", "2026-01-01", observations().drop(columns=["job", "day"]))
    return lake


def no_spark() -> Any:
    pytest.fail("a small table needs no Spark")


@pytest.mark.parametrize("table", ["samples", "job_observations"])
def test_a_small_table_is_judged_in_memory_with_the_kinds_of_its_series(
    lake: Lake, suites: dict[str, Suite], table: str
) -> None:
    frame = judged_frame(lake, table, ["2026-01-01"], no_spark)
    assert failed(judged(frame, suites[table])) == set()
    assert failed(judged(judged_frame(lake, table, ["2026-01-02"], no_spark), suites[table])) >= {"has_rows"}


@pytest.mark.parametrize("table", ["samples", "series"])
def test_the_files_of_a_job_that_are_broken_keep_no_other_from_being_judged(
    lake: Lake, suites: dict[str, Suite], table: str
) -> None:
    stored = samples().drop(columns=["job", "day", "source"])
    lake.put("samples", {"job": "broken", "source": "a.json", "day": "2026-01-01"}, stored)
    series = stored[["series_id", "metric", "worker"]].drop_duplicates().assign(name="", labels="{}", mapped=True)
    lake.put("series", {"job": "broken", "source": "a.json"}, series.assign(kind="gauge"))
    (path,) = lake.files(table, "broken")
    path.write_bytes(b"PAR1")
    frame = judged_frame(lake, "samples", ["2026-01-01"], no_spark)
    assert set(frame["job"]) == {"orders"}
    assert failed(judged(frame, suites["samples"])) == set()
    with pytest.raises(LakeError, match="ingest its source again"):
        judged_frame(lake, "samples", None, no_spark, keys=[("broken", "2026-01-01"), ("orders", "2026-01-01")])


@pytest.mark.spark
@pytest.mark.slow
def test_a_large_table_is_judged_on_spark_with_the_kinds_of_its_series(
    spark: Any, lake: Lake, suites: dict[str, Suite]
) -> None:
    frame = judged_frame(lake, "samples", ["2026-01-01"], lambda: spark, in_memory=10)
    assert frame.count() == 350
    outcomes = judged(frame, suites["samples"])
    in_memory = judged(judged_frame(lake, "samples", None, no_spark), suites["samples"])
    assert failed(outcomes) == failed(in_memory) == set()
    assert {name: item.checked for name, item in outcomes.items()} == {
        name: item.checked for name, item in in_memory.items()
    }


def test_facts_of_a_table_without_rows_are_not_known() -> None:
    facts = facts_of(samples().iloc[:0], ["job", "series_id", "ts"], NOW_S)
    assert facts["rows"] == 0.0
    assert facts["duplicate_share"] is None


def keyed(**changes: Any) -> pd.DataFrame:
    """Three rows of series 1 and three of series 2, in the types of the lake."""
    frame = pd.DataFrame(
        {
            "job": "orders",
            "series_id": [1, 1, 1, 2, 2, 2],
            "ts": pd.date_range("2026-01-01", periods=6, freq="15s", tz="UTC"),
            "day": "2026-01-01",
        }
    )
    return frame.assign(**changes).astype({"job": "category", "day": "category"})


@pytest.mark.parametrize(
    ("frame", "different"),
    [
        (keyed(), 6),
        (keyed(ts=pd.Timestamp("2026-01-01", tz="UTC")), 2),
        (keyed(series_id=[1, 2, 1, 2, 1, 2]), 6),  # no series stands together, and still none is there twice
        (keyed(series_id=[1, 2, 1, 2, 1, 2], ts=pd.Timestamp("2026-01-01", tz="UTC")), 2),
        (pd.concat([keyed(), keyed()]), 6),  # each part rises
        (pd.concat([keyed(), keyed().iloc[:2]]), 6),
        (keyed().iloc[::-1], 6),
        (pd.concat([keyed(), keyed().assign(job=pd.Categorical(["ads"] * 6))]).astype({"job": "category"}), 12),
        (keyed(ts=pd.to_datetime([None] * 6, utc=True)), 2),
        (keyed(job=["orders", None, None, "orders", None, None]), 6),
        (keyed(job=None), 6),
        (keyed().iloc[:1], 1),
        (keyed().astype({"series_id": "float64"}), 6),
        (keyed().astype({"series_id": "object", "job": "object", "ts": "object"}), 6),
    ],
)
def test_keys_are_counted_however_the_rows_stand(frame: pd.DataFrame, different: int) -> None:
    facts = facts_of(frame, ["job", "series_id", "ts"], NOW_S)
    assert facts["duplicate_share"] == pytest.approx(1 - different / len(frame))


@pytest.mark.parametrize("repeated", [1, 50])  # as few rows as are looked at one by one, and many that stand together
@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, 0),
        ({"day": ["2026-01-01"] * 5 + ["2026-01-02"]}, 1),
        ({"day": "2025-12-31"}, 6),
        ({"day": ["2026-01-01"] * 4 + ["no day", None]}, 2),
        ({"ts": pd.date_range("2026-01-01", periods=6, freq="12h", tz="UTC")}, 4),
        ({"ts": pd.to_datetime([None, *["2026-01-01"] * 5], utc=True)}, 1),
        ({"ts": pd.to_datetime(["2026-01-01T23:59:59.999999", None] * 3, utc=True)}, 3),
        ({"ts": pd.date_range("2026-01-01T23:30", periods=6, freq="1s", tz="Etc/GMT+1")}, 6),
    ],
)
def test_rows_of_another_day_than_their_partition_are_counted(
    changes: dict[str, Any], wrong: int, repeated: int
) -> None:
    frame = keyed(**changes)
    frame = frame.loc[frame.index.repeat(repeated)]
    assert facts_of(frame, ["job"], NOW_S)["wrong_day_share"] == pytest.approx(wrong / 6)


def test_only_wanted_columns_are_looked_at() -> None:
    rows = checked_rows(samples(), "samples", ["ts", "cpu_load", "uptime_s"])
    assert list(rows.columns) == ["ts", "cpu_load", "uptime_s"]
    assert rows["cpu_load"].notna().sum() == 50


def test_importing_this_part_imports_no_great_expectations() -> None:
    code = "import sys, perdix.assets.expectations, perdix.assets.checks; sys.exit('great_expectations' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0

"""Outcomes as Dagster shows them, and what a blocking one stops: driven through Dagster itself."""

import dagster as dg
import pandas as pd
import pytest

from perdix.assets.checks import check_results, check_specs, suite_checks
from perdix.assets.expectation_suite import Suite, load_suite
from perdix.assets.expectations import run_suite
from perdix.assets.judging import Judged
from perdix.assets.partitions import one_run
from perdix.settings.home import PROJECT

pytestmark = [  # backfill policies, partitions of checks
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]
DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-05")


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite(PROJECT / "conf" / "expectations" / "observations.yaml")


def observations(cpu_load_max: float = 0.6, workload_per_s: float | None = 1000.0) -> pd.DataFrame:
    times = pd.date_range("2026-01-01T06:00:00", periods=40, freq="15s", tz="UTC")
    return pd.DataFrame({"ts": times, "job": "orders", "day": "2026-01-01"}).assign(
        workload_per_s=workload_per_s,
        throughput_per_s=990.0,
        consumer_lag_records=5.0,
        scale_out=4.0,
        cpu_load_mean=0.5,
        cpu_load_max=cpu_load_max,
        workers_reporting=4,
    )


def defs_of(suite: Suite, frame: pd.DataFrame, trained: list[str]) -> dg.Definitions:
    @dg.asset(partitions_def=DAYS)
    def observed() -> None: ...

    @dg.asset(deps=[observed], partitions_def=DAYS)
    def champion() -> None:
        trained.append("champion")

    def judge(context: dg.AssetCheckExecutionContext, chosen: Suite) -> Judged:
        return Judged((), run_suite(frame, chosen, now_s=2e9), {})

    checks = suite_checks("observed", suite, judge, partitions=DAYS)
    return dg.Definitions(assets=[observed, champion], asset_checks=[checks])


def run(defs: dg.Definitions, selection: dg.AssetSelection | None = None) -> tuple[dg.ExecuteInProcessResult, dict]:
    everything = dg.AssetSelection.all() | dg.AssetSelection.all_asset_checks()
    job = dg.define_asset_job("all_of_it", selection=selection or everything)
    resolved = dg.Definitions(assets=defs.assets, asset_checks=defs.asset_checks, jobs=[job])
    with dg.DagsterInstance.ephemeral() as instance:
        result = resolved.resolve_job_def("all_of_it").execute_in_process(
            instance=instance, raise_on_error=False, partition_key="2026-01-01"
        )
        return result, {item.check_name: item for item in result.get_asset_check_evaluations()}


def test_good_observations_let_training_run(suite: Suite) -> None:
    trained: list[str] = []
    result, checks = run(defs_of(suite, observations(), trained))
    assert result.success
    assert trained == ["champion"]
    assert set(checks) == {rule.name for rule in (*suite.rules, *suite.facts)}
    assert all(check.passed for check in checks.values())


def test_a_critical_failure_stops_training(suite: Suite) -> None:
    trained: list[str] = []
    result, checks = run(defs_of(suite, observations(cpu_load_max=7.0), trained))
    assert not result.success
    assert trained == []
    check = checks["cpu_load_in_range"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert check.metadata["unexpected_percent"].value == 100.0
    assert check.metadata["checked"].value == 40.0
    assert check.metadata["examples"].records[0].data["cpu_load_max"] == 7.0
    assert "40 of 40 rows (100 %) are unexpected" in check.description


def test_a_warning_lets_training_run(suite: Suite) -> None:
    trained: list[str] = []
    result, checks = run(defs_of(suite, observations(workload_per_s=None), trained))
    assert result.success
    assert trained == ["champion"]
    check = checks["workload_is_covered"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.metadata["observed"].value == 0.0


def test_a_single_check_can_be_run(suite: Suite) -> None:
    defs = defs_of(suite, observations(), [])
    key = dg.AssetCheckKey(dg.AssetKey("observed"), "has_rows")
    observed = dg.AssetSelection.assets("observed").without_checks()
    result, checks = run(defs, observed | dg.AssetSelection.checks(key))
    assert result.success
    assert set(checks) == {"has_rows"}
    assert checks["has_rows"].metadata["observed"].value == 40.0


def test_specs_say_what_blocks_and_what_it_means(suite: Suite) -> None:
    specs = {spec.name: spec for spec in check_specs("observed", suite, DAYS)}
    assert specs["keys_are_unique"].blocking
    assert not specs["workload_is_covered"].blocking
    assert "Forecasts rest on what is left" in str(specs["workload_is_covered"].description)


def test_an_expectation_that_could_not_be_judged_says_why(suite: Suite) -> None:
    frame = observations().drop(columns=["workers_reporting"])
    results = check_results("observed", run_suite(frame, suite, now_s=2e9), "2026-01-01")
    result = next(result for result in results if result.check_name == "workers_all_report")
    assert not result.passed
    assert "workers_reporting" in str(result.metadata["error"].value)
    assert str(result.description).startswith("could not be judged")


def judged_days(suite: Suite, *days: str) -> list[dg.AssetCheckEvaluation]:
    """Run the checks of a table that has days, over some of them at once."""

    @dg.asset(partitions_def=DAYS, backfill_policy=one_run)
    def observed() -> None: ...

    checks = suite_checks(
        observed.key,
        suite.only({"has_rows"}),
        lambda _, s: Judged((), run_suite(observations(), s, now_s=2e9), {}),
        partitions=DAYS,
    )
    job = dg.define_asset_job("days", selection=dg.AssetSelection.all() | dg.AssetSelection.all_asset_checks())
    defs = dg.Definitions(assets=[observed], asset_checks=[checks], jobs=[job])
    with dg.DagsterInstance.ephemeral() as instance:
        tags = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
        result = defs.resolve_job_def("days").execute_in_process(instance=instance, tags=tags)
    return list(result.get_asset_check_evaluations())


def test_the_day_is_shown_with_the_result(suite: Suite) -> None:
    (check,) = judged_days(suite, "2026-01-01")
    assert check.metadata["partition"].value == "2026-01-01"


def test_each_day_of_a_run_gets_the_outcomes(suite: Suite) -> None:
    """Dagster plans a check for each partition: one that has no outcome of its own would be shown as skipped."""
    found = judged_days(suite, "2026-01-01", "2026-01-02")
    assert {(evaluation.partition, evaluation.passed) for evaluation in found} == {
        ("2026-01-01", True),
        ("2026-01-02", True),
        (None, True),
    }
    shown = {evaluation.partition: evaluation.metadata["partition"].value for evaluation in found}
    assert shown == {day: day or "2026-01-01 to 2026-01-02" for day in ("2026-01-01", "2026-01-02", None)}

"""Shipped queries whose PromQL the twin's server does not know, evaluated by Prometheus' own engine (``promtool``)."""

import json
from pathlib import Path

from perdix.telemetry.queries import load_queries
from tests.deploy.promql import promtool


def evaluated(folder: Path, promql: str, series: dict[str, str], expected: list[tuple[str, float]]) -> str:
    """Return what ``promtool`` says of a query at the tenth minute; nothing where it finds what is expected.

    ``series``: of a minute each, as ``promtool`` writes values.
    """
    samples = [{"labels": labels, "value": value} for labels, value in expected]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": promql, "eval_time": "10m", "exp_samples": samples}],
    }
    (folder / "test.yaml").write_text(json.dumps({"rule_files": [], "tests": [test]}))
    done = promtool("test", "rules", "test.yaml", cwd=folder)
    return done.stdout + done.stderr if done.returncode else ""


def test_the_slowest_of_a_spark_jobs_queries_says_how_late_it_is(tmp_path: Path) -> None:
    """Their series differ in their names alone; so do those of before and after a restart of the driver."""
    series = {
        f'metrics_{app}_driver_spark_streaming_{query}_latency_Value{{app="clicks",instance="driver:4040"}}': values
        for app, query, values in [
            ("spark_1", "clicks", "900x4 stale"),
            ("spark_2", "clicks", "_x4 400x9"),
            ("spark_2", "sessions", "_x4 2500x9"),
        ]
    }
    queries = load_queries("spark-structured-streaming")
    promql = queries.promql("latency_p95_ms", {"app": "clicks"}, 60.0)
    assert evaluated(tmp_path, promql, series, [("{}", 2500.0)]) == ""

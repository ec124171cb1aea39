"""What Prometheus kept of a run: a window of canonical metrics, exports to ingest, the latency of all records."""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import httpx

from perdix.settings.access import HttpAccess
from perdix.telemetry.alignment import align
from perdix.telemetry.prometheus import Prometheus, pages
from perdix.telemetry.queries import load_queries
from perdix.telemetry.window import Window
from testbed.settings import Testbed

STEP_S = 1.0
LE = "flink_taskmanager_job_task_operator_le_latencyCount"


def selector(testbed: Testbed) -> dict[str, str]:
    """Return the labels that tell the job of a testbed from others."""
    return {"job_name": testbed.job, "topic": testbed.topic}


def window(testbed: Testbed, start_s: float, end_s: float) -> Window:
    """Return the canonical metrics of a run, a step per second.

    Raises ``PrometheusError`` when Prometheus cannot be asked.
    """
    with Prometheus(HttpAccess.model_validate({"url": testbed.prometheus_url})) as client:
        series = client.pull(load_queries("flink"), selector(testbed), start_s, end_s, STEP_S)
    return align(testbed.job, series, start_s, end_s, STEP_S)


def records_below(testbed: Testbed, start_s: float, end_s: float) -> dict[float, float]:
    """Return latency in ms -> records of the run at or below it, cumulative; the last bound is infinite.

    Raises ``PrometheusError`` when Prometheus cannot be asked.
    """
    promql = f'sum by (le) (increase({LE}{{job_name="{testbed.job}"}}[{round(end_s - start_s)}s]))'
    with Prometheus(HttpAccess.model_validate({"url": testbed.prometheus_url})) as client:
        found = client.query_range(promql, end_s, end_s, STEP_S)
    return {float(stream.labels["le"]): float(stream.values[-1]) for stream in found if len(stream.values)}


def export(testbed: Testbed, start_s: float, end_s: float, folder: Path) -> list[Path]:
    """Write the raw series that perdix knows, as ``query_range`` answers: what an operator would export to train on.

    A file per metric name and for each three hours, gzip, in ``folder``. Raises ``HTTPError`` when Prometheus cannot be
    asked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with httpx.Client(base_url=testbed.prometheus_url, timeout=60.0, trust_env=False) as client:
        names = client.get("/api/v1/label/__name__/values").raise_for_status().json()["data"]
        for name, (first_ms, last_ms, _) in itertools.product(_known(names), pages(start_s, end_s, STEP_S)):
            asked: dict[str, str | float] = {
                "query": name,
                "start": first_ms / 1_000,
                "end": last_ms / 1_000,
                "step": STEP_S,
            }
            answer = client.get("/api/v1/query_range", params=asked).raise_for_status()
            if answer.json()["data"]["result"]:
                path = folder / f"{name}-{first_ms}.json.gz"
                path.write_bytes(gzip.compress(answer.content))
                written.append(path)
    return written


def _known(names: list[str]) -> Iterator[str]:
    rules = load_queries("flink").series
    return (name for name in names if any(re.fullmatch(rule.name, name) for rule in rules))

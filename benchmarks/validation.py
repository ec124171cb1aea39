"""What do expectations cost: Great Expectations in memory and on Spark against one plain Spark aggregate, in turns.

    python benchmarks/validation.py --rows 500000 --cores 2

Writes one day of samples of one job (VictoriaMetrics lines; seeded), ingests them, and then measures on the lake table
with the shipped suite ``conf/expectations/samples.yaml``:

- ``suite``: what the asset check runs (in memory up to 5 million rows), the table read from the lake.
- ``suite, failing``: the same with three rules broken, examples collected.
- ``suite on Spark``: the same suite on the Spark frame, as for larger tables.
- ``aggregate``: every rule and fact of the suite as one Spark aggregate written by hand; no examples, no words.

Prints the first run (cold) and the median of the warm ones, the ratio, and the share of ingest + validation that
validation takes. The import of Great Expectations (once per process) is reported on its own.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.harness import in_turns, options, seconds, write_json
from perdix.assets.expectation_suite import Suite, load_suite
from perdix.assets.expectations import ExpectationOutcome, run_suite
from perdix.assets.judged_frames import MOST_ROWS_IN_MEMORY, judged_frame
from perdix.settings.home import PROJECT, Home
from perdix.telemetry.ingest import ingest
from perdix.telemetry.lake import Lake
from perdix.telemetry.metrics import CANONICAL, Scope
from perdix.telemetry.spark.session import spark_session

START_S, STEP_S = 1_767_225_600, 15  # 2026-01-01 00:00 UTC
STEPS = 86_400 // STEP_S
TYPICAL = {
    "cpu_load": 0.5,
    "busy_ratio": 0.5,
    "throughput_per_s": 900.0,
    "workload_per_s": 9_000.0,
    "consumer_lag_records": 50.0,
    "latency_p95_ms": 250.0,
    "scale_out": 12.0,
    "memory_ratio": 0.4,
    "uptime_s": 3_600.0,
}


def write_day(path: Path, rows: int, seed: int = 7) -> int:
    """Write about ``rows`` samples of one day and return how many they are."""
    rng = np.random.default_rng(seed)
    job_level = [name for name, metric in CANONICAL.items() if metric.scope is Scope.JOB]
    worker_level = [name for name in CANONICAL if name not in job_level]
    workers = max(1, round((rows / STEPS - len(job_level)) / len(worker_level)))
    series = [{"__name__": name} for name in job_level]
    series += [{"__name__": name, "tm_id": f"tm-{number}"} for name in worker_level for number in range(workers)]
    times_ms = ((START_S + np.arange(STEPS) * STEP_S) * 1000).tolist()
    with path.open("w", encoding="utf-8") as file:
        for labels in series:
            values = np.abs(rng.normal(TYPICAL[labels["__name__"]], 0.05 * TYPICAL[labels["__name__"]], STEPS))
            file.write(json.dumps({"metric": labels, "values": values.tolist(), "timestamps": times_ms}) + "\n")
    return len(series) * STEPS


def aggregate(frame: DataFrame, now_s: float) -> dict[str, Any]:
    """Judge every rule of the shipped suite in one aggregate."""
    gauge = sf.coalesce("kind", sf.lit("gauge")) == "gauge"

    def beyond(name: str, low: float, high: float) -> Any:
        outside = (sf.col("value") < low) | (sf.col("value") > high)
        return sf.count(sf.when((sf.col("metric") == name) & gauge & outside, 1)).alias(name)

    row = frame.agg(
        *[beyond(name, metric.low, metric.high) for name, metric in CANONICAL.items()],
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_distinct(sf.xxhash64("job", "series_id", "ts")).alias("keys"),
        sf.count("mask").alias("masked"),
        sf.count(sf.when(sf.col("value").isNull() != sf.col("mask").isNotNull(), 1)).alias("unexplained"),
        sf.count(sf.when(sf.to_date("ts") != sf.col("day").cast("date"), 1)).alias("wrong_day"),
        (sf.max(sf.unix_micros("ts")) / 1e6 - now_s).alias("ahead_s"),
    ).first()
    return row.asDict() if row else {}


def break_three(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with CPU in percent, negative throughput, and an impossible number of workers."""
    factors = {"cpu_load": 100.0, "throughput_per_s": -1.0, "scale_out": 1e6}
    factor = np.array([factors.get(name, 1.0) for name in frame["metric"].cat.categories])
    return frame.assign(value=frame["value"] * factor[frame["metric"].cat.codes])


def measure(rows: int, cores: int, repeats: int) -> dict[str, Any]:
    """Return the figures, seconds each."""
    suite = load_suite(PROJECT / "conf" / "expectations" / "samples.yaml")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        written = write_day(root / "day.jsonl", rows)
        spark = spark_session(Home(root / "home").make(), f"local[{cores}]")
        lakes = [Lake(root / f"lake-{number}") for number in range(1 + repeats)]  # a new one each: nothing is known yet
        ingests = [seconds(partial(ingest, spark, lake, [root / "day.jsonl"], "benchmark")) for lake in lakes]
        imported = seconds(lambda: __import__("great_expectations"))
        times = _in_turns(spark, lakes[-1], suite, repeats)
        spark.stop()
    warm = {name: statistics.median(taken[1:]) for name, taken in times.items()}
    ingest_s = statistics.median(ingests[1:])
    return {
        "rows": written,
        "cores": cores,
        "ingest_s": ingest_s,
        "import_s": imported,
        "first_s": {name: taken[0] for name, taken in times.items()},
        "warm_s": warm,
        "ratio": warm["suite"] / warm["aggregate"],
        "ratio_on_spark": warm["suite on Spark"] / warm["aggregate"],
        "share_of_ingest": warm["suite"] / (warm["suite"] + ingest_s),
    }


def _in_turns(spark: SparkSession, lake: Lake, suite: Suite, repeats: int) -> dict[str, list[float]]:
    now_s = START_S + 86_400.0

    def table(in_memory: int = MOST_ROWS_IN_MEMORY) -> Any:
        return judged_frame(lake, "samples", None, lambda: spark, in_memory=in_memory)

    def judged(frame: Any, failing: int) -> None:
        outcomes: list[ExpectationOutcome] = run_suite(frame, suite, now_s=now_s)
        failed = [outcome.name for outcome in outcomes if not outcome.success]
        if len(failed) != failing:
            raise SystemExit(f"{failing} expectations should have failed, these did: {failed}")

    works: dict[str, Callable[[], object]] = {
        "suite": lambda: judged(table(), 0),
        "suite, failing": lambda: judged(break_three(table()), 3),
        "suite on Spark": lambda: judged(table(0), 0),
        "aggregate": lambda: aggregate(table(0), now_s),
    }
    return in_turns(works, repeats + 1)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="samples of the day, about (default 500,000)")
    parser.add_argument("--cores", type=int, default=2, help="Spark's local cores (default 2)")
    parser.add_argument("--repeats", type=int, default=5, help="warm repeats (default 5)")
    asked = parser.parse_args()
    found = measure(asked.rows, asked.cores, asked.repeats)
    if asked.json:
        write_json(found)
        return
    print(f"{found['rows']:,} samples, {found['cores']} cores; ingest {found['ingest_s']:.2f} s")
    print(f"import of Great Expectations {found['import_s']:.1f} s, once per process")
    for name, warm_s in found["warm_s"].items():
        print(f"{name:16s} first {found['first_s'][name]:6.2f} s   warm {warm_s:6.2f} s")
    print(f"suite / aggregate: {found['ratio']:.2f}   suite on Spark / aggregate: {found['ratio_on_spark']:.2f}")
    print(f"share of ingest + validation: {found['share_of_ingest']:.0%}")


if __name__ == "__main__":
    main()

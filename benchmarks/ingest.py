"""How fast exports are ingested, against DuckDB reading the same files on the same cores, in turns.

    python -m benchmarks.ingest --files 4 --cores 2

Writes ``query_range`` documents (300 series x 4,320 samples = 1.3 M samples, 28 MB each; seeded), then measures, in
turns and after one warm-up each:

- ``perdix``: the whole ingest: Spark session warm, files read, named, checked, hashed, split by day, written as
  Parquet, published with manifests, series, quarantine and sources tables.
- ``duckdb``: ``read_json`` + ``unnest`` into one Parquet file of the columns series, metric, worker, ts, value.
- ``duckdb, read only``: the same query, but only counted and summed.

The ratio is perdix's rate over DuckDB's, both the median of the repeats.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.harness import Row, in_turns, markdown, options, write_json
from perdix.settings.home import Home
from perdix.telemetry.ingest import ingest
from perdix.telemetry.lake import Lake
from perdix.telemetry.spark.session import spark_session

SERIES, SAMPLES = 300, 4_320
START_S, STEP_S = 1_700_000_000, 15
NAME = "flink_taskmanager_Status_JVM_CPU_Load"

_QUERY = """
select hash(m.__name__, m.tm_id) as series_id, m.__name__ as metric, m.tm_id as worker,
       to_timestamp(cast(p[1] as double)) as ts, try_cast(p[2] as double) as value
from (select r.metric as m, unnest(r."values") as p from (select unnest(data.result) as r from read_json(
    [{files}], maximum_object_size = 1000000000, columns = {{status: 'VARCHAR', data:
    'STRUCT(resultType VARCHAR, result STRUCT(metric STRUCT(__name__ VARCHAR, tm_id VARCHAR),
     "values" VARCHAR[][])[])'}})))
"""


def _fetched(database: duckdb.DuckDBPyConnection, query: str) -> list[tuple[object, ...]]:
    return database.execute(query).fetchall()


def write_document(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = START_S + np.arange(SAMPLES) * STEP_S
    result = []
    for number in range(SERIES):
        values = np.round(np.abs(np.cumsum(rng.normal(size=SAMPLES))), 4 if number % 3 else 0)
        texts = [f"{value:g}" if number % 3 == 0 else repr(float(value)) for value in values]
        labels = {"__name__": NAME, "job": "flink", "tm_id": f"tm-{seed}-{number}"}
        result.append({"metric": labels, "values": list(zip(times.tolist(), texts, strict=True))})
    document = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    path.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")


def measure(files: int, cores: int, repeats: int) -> list[Row]:
    """Return one row per number of files: 1, 2, 4, ... up to ``files``."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        paths = [root / f"export-{seed}.json" for seed in range(files)]
        for seed, path in enumerate(paths):
            write_document(path, seed)
        spark = spark_session(Home(root / "home").make(), f"local[{cores}]")
        database = duckdb.connect()
        database.execute(f"set threads = {cores}")
        counts = sorted({min(2**power, files) for power in range(files.bit_length())} | {files})
        rows = []
        for count in counts:
            chosen = paths[:count]
            query = _QUERY.format(files=", ".join(f"'{path}'" for path in chosen))
            works: dict[str, Callable[[], object]] = {
                "perdix": partial(ingest, spark, Lake(root / "lake"), chosen, "benchmark"),
                "duckdb": partial(
                    database.execute, f"copy ({query}) to '{root}/duckdb.parquet' (format parquet, compression zstd)"
                ),
                "duckdb_read": partial(
                    _fetched, database, f"select count(*), sum(value), max(ts), max(worker) from ({query})"
                ),
            }
            samples = count * SERIES * SAMPLES
            times = in_turns(works, repeats + 1)  # the first one warms up
            rates = {name: samples / statistics.median(taken[1:]) for name, taken in times.items()}
            rows.append(
                {
                    "files": count,
                    "samples": samples,
                    **{f"{name}_samples_per_s": round(rate) for name, rate in rates.items()},
                    "ratio": round(rates["perdix"] / rates["duckdb"], 2),
                    "ratio_to_read_only": round(rates["perdix"] / rates["duckdb_read"], 2),
                }
            )
        spark.stop()
        return rows


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--files", type=int, default=4, help="documents of 1.3 M samples (default 4)")
    parser.add_argument("--cores", type=int, default=2, help="Spark's local cores and DuckDB's threads (default 2)")
    parser.add_argument("--repeats", type=int, default=5, help="repeats after one warm-up (default 5)")
    asked = parser.parse_args()
    rows = measure(asked.files, asked.cores, asked.repeats)
    if asked.json:
        write_json({"cores": asked.cores, "repeats": asked.repeats, "rows": rows})
    else:
        markdown(rows)


if __name__ == "__main__":
    main()

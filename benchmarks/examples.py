"""``python -m benchmarks.examples`` writes ``conf/examples``, what the README's tour runs on, from a seed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.ds2_logs import write_ds2_logs
from benchmarks.export_forms import write_exports
from perdix.settings.home import conf_folder
from perdix.telemetry.series import Series
from perdix.twin.dataflow.job import DataflowTwin
from perdix.twin.dataflow.parameters import load_dataflow
from perdix.twin.emission import Scraping, emit
from perdix.twin.job import JobTwin
from perdix.twin.parameters import load_twin
from perdix.twin.tending import tend
from perdix.twin.workloads import workload

JOB = "ads"
START_S = 1_780_293_600  # 2026-06-01 06:00 UTC, a Monday
EXPORTED_S = 2 * 3_600
SCRAPE_S = 15.0
WORKLOAD = "workload_per_s"
TRACE_S, TRACE_STEP_S = 8 * 3_600, 60
DATAFLOW, EPOCHS = "flink-wordcount", 3


def write_examples(folder: Path, seed: int) -> list[Path]:
    """Write the examples under ``folder`` and return the files; nothing else there is touched."""
    written = [*_exports(folder / "exports", seed), _trace(folder / "workload.csv", seed)]
    return [*written, *_ds2(folder / "ds2", seed)]


def _exports(folder: Path, seed: int) -> list[Path]:
    """Write two hours of a job that a plain CPU rule looked after: its workload from Grafana, the rest by query."""
    twin = JobTwin(load_twin(JOB), seed, start_s=START_S)
    tend(twin, EXPORTED_S)
    series = [_rounded(entry) for entry in emit(twin, Scraping(interval_s=SCRAPE_S))]
    panel = [entry for entry in series if entry.metric == WORKLOAD]
    rest = [entry for entry in series if entry.metric != WORKLOAD]
    return [
        *write_exports(panel, folder, "grafana-csv", JOB),
        *write_exports(rest, folder, "query-range", JOB, gzipped=True),
    ]


def _rounded(entry: Series) -> Series:
    """Return a series with five digits of each value, as many as are worth shipping."""
    values = [float(f"{value:.5g}") for value in entry.values]
    return Series(entry.metric, entry.worker, entry.times_ms, np.array(values), entry.labels, entry.kind)


def _trace(path: Path, seed: int) -> Path:
    """Write eight hours of another workload with two peaks, a mean for each minute."""
    twin = load_twin(JOB)
    spec = twin.workload.scaled_to(twin.workers.maximum * twin.workers.capacity_per_s)
    per_s = workload(spec, TRACE_S, seed + 1, START_S).reshape(-1, TRACE_STEP_S).mean(axis=1)
    times = (datetime.fromtimestamp(START_S + TRACE_STEP_S * row, UTC) for row in range(len(per_s)))
    rows = [f"{at:%Y-%m-%dT%H:%M:%SZ},{value:.0f}" for at, value in zip(times, per_s, strict=True)]
    path.write_text("\n".join(["time,records_per_s", *rows]) + "\n", encoding="utf-8")
    return path


def _ds2(folder: Path, seed: int) -> list[Path]:
    """Write what a word count logged while it was too small, the rates in a file per operator."""
    written = write_ds2_logs(DataflowTwin(load_dataflow(DATAFLOW), seed), folder, epochs=EPOCHS)
    topology, sources = written["topology"], written["source_rates"]
    found = [topology.rename(folder / "topology.csv"), sources.rename(folder / "source-rates.csv")]
    header, *lines = written["rates"].read_text(encoding="utf-8").splitlines()
    written["rates"].unlink()
    (folder / "rates").mkdir(exist_ok=True)
    for operator in dict.fromkeys(line.partition(",")[0] for line in lines):
        path = folder / "rates" / f"{operator}.log"
        own = [line for line in lines if line.startswith(f"{operator},")]
        path.write_text("\n".join([header, *own]) + "\n", encoding="utf-8")
        found.append(path)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the examples; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.examples", description=__doc__)
    parser.add_argument("--folder", type=Path, default=conf_folder() / "examples", help="default: conf/examples")
    parser.add_argument("--seed", type=int, default=7, help="the same seed gives the same files (default: 7)")
    options = parser.parse_args(arguments)
    for path in write_examples(options.folder, options.seed):
        sys.stdout.write(f"{path.stat().st_size:>9,} {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What Daedalus' and Phoebe's authors measured, read from the data pack beside the project.

Belongs here: files, columns, units. Does not belong here: any judgement.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from perdix.telemetry.window import Values
from perdix.twin.workloads import read_trace

DATA = Path(__file__).parents[1] / "../shared/data"
TRACES = {  # the three that were published with Daedalus: file, and the twin of its job
    "sine": ("sine_60000_6h.csv", "wordcount"),
    "advertising": ("advertising_6h_550K_max.csv", "ads"),
    "traffic": ("tm_6h_100K_max.csv", "traffic"),
}
EVERY_S = 15  # Daedalus' samples
FAILURES_S = tuple(1_200 + 2_743 * k for k in range(8))  # Phoebe: a worker's network is delayed for 60 s


def there(folder: Path = DATA) -> bool:
    """Whether there is measured data; complains where there is none."""
    if not folder.is_dir():
        print(f"{folder}: no measured data; put the data pack beside the project", file=sys.stderr)
    return folder.is_dir()


def published(trace: str) -> Values:
    """Return records/s for every second of one of :data:`TRACES`."""
    return read_trace(DATA / "workloads" / TRACES[trace][0])


@dataclass(frozen=True)
class OneWorker:
    """A run of one worker, a row every 15 s; CPU is a mean of the last minute. Shape ``(n,)`` each."""

    workload_per_s: Values
    throughput_per_s: Values
    cpu: Values
    latency_ms: Values


@dataclass(frozen=True)
class Run:
    """A six-hour run of Phoebe's authors, second by second from its start; shape ``(seconds,)`` each.

    ``latency_ms`` is the mean over sinks of the 95th percentile; a second without a sample keeps the one before.
    """

    arrived: Values
    latency_ms: Values


def one_worker(run: str) -> OneWorker:
    """Read ``ramp`` (0 to 80,000 records/s, into saturation) or ``assumptions`` (a slow wave below capacity)."""
    kinds = ("workload", "throughput", "cpu", "latency")
    files = {
        "ramp": [f"{kind}_1" for kind in kinds],
        "assumptions": [f"assumption{'' if kind == 'latency' else 's'}_{kind}_1" for kind in kinds],
    }[run]
    table = pd.concat([by_worker(f"figures/{file}.csv").iloc[:, 0] for file in files], axis=1).dropna()
    return OneWorker(*(table.iloc[:, k].to_numpy(dtype=np.float64) for k in range(4)))


def twelve_workers() -> tuple[Values, Values]:
    """Return CPU (minute means) and records/s of 12 saturated workers, shape ``(62, 12)`` each, every 15 s."""
    cpu, throughput = (by_worker(f"figures/data_skew_{kind}_12.csv") for kind in ("cpu", "throughput"))
    return cpu.to_numpy(dtype=np.float64), throughput[cpu.columns].to_numpy(dtype=np.float64)


def static_twelve() -> tuple[Values, Values]:
    """Return the workload, records/s, and the mean CPU of 12 workers of the advertising job over six hours, every 20 s.

    The workload trails by a minute: that is where the two agree best.
    """
    cpu = by_worker("figures/ysb_cpu_20.csv")["daedalus/flink-static-metrics"].to_numpy(dtype=np.float64)
    trace = pd.read_csv(DATA / "workloads/advertising_6h_550K_max.csv")
    seconds = 20.0 * np.arange(len(cpu)) - 60.0
    known = ~np.isnan(cpu) & (seconds >= 0)
    return np.interp(seconds, trace["second"], trace["tuples_per_second"])[known], cpu[known]


def phoebe(job: str, approach: str) -> Run:
    """Read run 1 of ``cars`` or ``ads`` under ``baseline_4``, ``_12``, ``_24``, ``reactive`` or ``twres``."""
    arrived, latency = (_seconds(job, approach, kind) for kind in ("workRate", "latency"))
    times_s = np.arange(latency.index[0], latency.index[-1] + 1)
    latency_ms = latency.reindex(times_s).ffill().bfill().to_numpy()
    return Run(arrived.reindex(times_s).interpolate().bfill().to_numpy(), latency_ms)


def profiles() -> pd.DataFrame:
    """Return Phoebe's profiling set: columns ``scaleOut``, ``avgLat`` (ms), ``avgThr`` (records/s), ``isBckPres``."""
    return pd.read_csv(DATA / "phoebe/profiles2.csv")


def most_per_s() -> dict[int, float]:
    """Return what Phoebe's cars job took at most, records/s, by scale-out: one back-pressured run each."""
    rows = profiles().query("isBckPres == 1")
    return dict(zip(rows["scaleOut"].astype(int), rows["avgThr"], strict=True))


def nexmark() -> pd.DataFrame:
    """Return the ability of Nexmark Q1's mapper: ``parallelism``, ``observation``, ``records_per_second``."""
    return pd.read_csv(DATA / "nexmark/q1_mapper_processing_ability.csv")


def by_worker(file: str) -> pd.DataFrame:
    """Return a metric of a run of Daedalus, a column per worker."""
    table = pd.read_csv(DATA / "metrics" / file, encoding="utf-8-sig", index_col=0, parse_dates=True)
    return pd.DataFrame(table.apply(pd.to_numeric, errors="coerce"))


def _seconds(job: str, approach: str, kind: str) -> pd.Series:
    file = DATA / f"phoebe/measured/{job}/1_{approach}_{kind}.out.gz"
    table = pd.read_csv(file, sep="|", na_values=["null"], index_col=0)
    series = table.iloc[:, 0].astype(np.float64)
    return series[~series.index.duplicated()]

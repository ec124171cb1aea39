"""Daedalus' runs of the advertising job, simulated: one worker's line, 12 saturated workers, latency against load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks import measured
from perdix.telemetry.window import Values
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters, Workers, load_twin
from perdix.twin.workloads import arrivals_from

Row = tuple[str, float, Sequence[float], bool]  # name, observed, simulated per seed, whether the error is relative
SATURATED_CPU = 0.95
FULL_PER_S = 2_000_000.0  # more than any deployment takes


def line(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield idle share, capacity, R2 and lag of the line of one worker, ramp and slow wave.

    The worker is a mean one: the spread between workers is judged among twelve.
    """
    for run in ("ramp", "assumptions"):
        seen = measured.one_worker(run)
        played = [_one_worker(seen, seed) for seed in seeds]
        for name, of, relative in (
            ("idle share of CPU", _idle, False),
            ("capacity at CPU 1, records/s", _capacity, True),
            ("R2", _r2, False),
            ("CPU best explained by throughput s before", _lag_s, False),
        ):
            yield f"{run}: {name}", of(seen), [of(replay) for replay in played], relative
        if run == "ramp":
            yield f"{run}: records/s at CPU > .95", _saturated(seen), [_saturated(replay) for replay in played], True


def skew(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield total capacity, and how workers differ and vary, of 12 workers with more to do than they can."""
    cpu, throughput = measured.twelve_workers()
    played = [_twelve_workers(len(cpu), seed) for seed in seeds]
    of: tuple[tuple[str, Callable[[Values, Values], float], bool], ...] = (
        ("total, records/s", lambda _, records: records.sum(axis=1).mean(), True),
        ("mean CPU", lambda cpu, _: cpu.mean(), False),
        ("CPU of the idlest worker", lambda cpu, _: cpu.mean(axis=0).min(), False),
        ("CPU of the busiest worker", lambda cpu, _: cpu.mean(axis=0).max(), False),
        ("throughput / CPU of workers: relative sd", _efficiency_sd, False),
        ("shares of workers: relative sd", lambda _, records: _relative(records.mean(axis=0)), False),
        ("minute means of the total: relative sd", lambda _, records: _relative(records.sum(axis=1)[10:]), False),
        ("minute means of a share: relative sd", _share_sd, False),
        ("minute means of CPU: sd", lambda cpu, _: cpu.std(axis=0, ddof=1).mean(), False),
        ("R2 of a worker's CPU and throughput, mean", _mean_r2, False),
    )
    for name, value, relative in of:
        yield name, float(value(cpu, throughput)), [float(value(*replay)) for replay in played], relative


def cpu_of_twelve(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield the mean CPU of 12 workers by load, as the twin is and with its CPU bent as far as it goes."""
    workload, cpu = measured.static_twelve()
    for shuffling in (0.0, 1.0):
        for low, high in (
            (20_000, 60_000),
            (100_000, 140_000),
            (240_000, 290_000),
            (290_000, 350_000),
            (500_000, 550_000),
        ):
            rows = (workload >= low) & (workload < high)
            simulated = [_mean_cpu(workload[rows].mean(), shuffling, seed) for seed in seeds]
            bent = "" if shuffling == 0.0 else ", bent"
            yield (
                f"mean CPU at {low // 1000}-{high // 1000} thousand/s{bent}",
                float(cpu[rows].mean()),
                simulated,
                False,
            )


def latency(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield p95 latency of one worker by arrivals, on the ramp and on the slow wave."""
    for run, bands in (
        ("ramp", ((300, 700), (700, 1_300), (1_300, 3_000), (4_000, 8_000), (20_000, 40_000), (45_000, 56_000))),
        ("assumptions", ((5_000, 6_000), (10_000, 25_000), (25_000, 40_000), (40_000, 46_000), (48_000, 50_000))),
    ):
        seen = measured.one_worker(run)
        played = [_one_worker(seen, seed) for seed in seeds]
        for low, high in bands:
            rows = (seen.throughput_per_s >= low) & (seen.throughput_per_s < high)
            simulated = [float(np.nanmedian(replay.latency_ms[rows])) for replay in played]
            yield f"{run}: ms at {low:,}-{high:,} records/s", float(np.median(seen.latency_ms[rows])), simulated, True


# ---- the simulated runs -----------------------------------------------------------------------------------------


def _one_worker(seen: measured.OneWorker, seed: int) -> measured.OneWorker:
    """Play what arrived; read it off as it was measured: every 15 s, CPU and throughput as minute means.

    The recorded workload trails (it is a one-minute average), so the larger of workload and throughput arrives.
    """
    seconds = measured.EVERY_S * np.arange(len(seen.cpu))
    before_s = 300
    times_s = np.arange(-before_s, seconds[-1] + 1)
    arrived = np.interp(times_s, seconds, np.maximum(seen.workload_per_s, seen.throughput_per_s))
    alike = with_workers(load_twin("ads"), speed_spread=0.0)
    twin = JobTwin(alike, seed, scale_out=1, arrivals=arrivals_from(arrived, 0))
    twin.step(len(arrived))
    rows = before_s + seconds
    column = twin.history.column
    return measured.OneWorker(
        seen.workload_per_s,
        means(column("worker_processed")[:, 0], 60)[rows],
        means(column("worker_cpu")[:, 0], 60)[rows],
        means(column("latency_p95_ms"), measured.EVERY_S)[rows],
    )


def _twelve_workers(samples: int, seed: int) -> tuple[Values, Values]:
    warm_s, seconds = 300, measured.EVERY_S * samples
    everything = arrivals_from(np.full(warm_s + seconds, FULL_PER_S), 0)
    twin = JobTwin(load_twin("ads"), seed, scale_out=12, arrivals=everything)
    twin.step(warm_s + seconds)
    rows = warm_s + measured.EVERY_S * np.arange(samples)
    return _at(rows, twin.history.column("worker_cpu")), _at(rows, twin.history.column("worker_processed"))


def _at(rows: NDArray[np.int64], table: Values) -> Values:
    return np.column_stack([means(column, 60) for column in table.T])[rows]


def _mean_cpu(rate_per_s: float, shuffling: float, seed: int) -> float:
    parameters = load_twin("ads")
    cpu = parameters.cpu.model_copy(update={"shuffling": shuffling})
    parameters = parameters.model_copy(update={"cpu": cpu})
    twin = JobTwin(parameters, seed, scale_out=12, arrivals=arrivals_from(np.full(300, rate_per_s), 0))
    twin.step(300)
    return float(np.nanmean(twin.history.column("worker_cpu", 120)))


def with_workers(parameters: TwinParameters, **changes: float) -> TwinParameters:
    """Return a twin whose workers have other properties."""
    workers = Workers(**{**parameters.workers.model_dump(), **changes})
    return parameters.model_copy(update={"workers": workers})


def means(values: Values, seconds: int) -> Values:
    """Return means of the last ``seconds`` values, fewer at the start; shape of ``values``."""
    sums = np.concatenate(([0.0], np.cumsum(np.nan_to_num(values))))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - seconds, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first))


# ---- what is read off a run, measured or simulated -------------------------------------------------------------------


def _fit(run: measured.OneWorker) -> tuple[float, float]:
    slope, idle = np.polyfit(run.throughput_per_s, run.cpu, 1)
    return float(slope), float(idle)


def _idle(run: measured.OneWorker) -> float:
    return _fit(run)[1]


def _capacity(run: measured.OneWorker) -> float:
    slope, idle = _fit(run)
    return (1.0 - idle) / slope


def _r2(run: measured.OneWorker) -> float:
    return float(np.corrcoef(run.cpu, run.throughput_per_s)[0, 1] ** 2)


def _lag_s(run: measured.OneWorker) -> float:
    count = len(run.cpu)
    r = [np.corrcoef(run.cpu[late:], run.throughput_per_s[: count - late])[0, 1] for late in range(8)]
    return float(measured.EVERY_S * int(np.argmax(r)))


def _saturated(run: measured.OneWorker) -> float:
    return float(run.throughput_per_s[run.cpu > SATURATED_CPU].mean())


def _relative(values: Values) -> float:
    return float(np.std(values, ddof=1) / np.mean(values))


def _efficiency_sd(cpu: Values, throughput: Values) -> float:
    return _relative(throughput.mean(axis=0) / cpu.mean(axis=0))


def _share_sd(_: Values, throughput: Values) -> float:
    shares = throughput / throughput.sum(axis=1, keepdims=True)
    return float(np.mean([_relative(column) for column in shares.T]))


def _mean_r2(cpu: Values, throughput: Values) -> float:
    return float(np.mean([np.corrcoef(c, t)[0, 1] ** 2 for c, t in zip(cpu.T, throughput.T, strict=True)]))

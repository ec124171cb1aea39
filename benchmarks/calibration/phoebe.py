"""Phoebe's runs of the cars and the ads job, simulated: Tmax, latency, recoveries, static scale-outs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks import measured
from benchmarks.calibration.daedalus import FULL_PER_S, Row, means, with_workers
from perdix.telemetry.window import Values
from perdix.twin import physics
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters, load_twin
from perdix.twin.workloads import arrivals_from

TWINS = {"cars": "tsw", "ads": "ysb"}
METRIC_MEAN_S = 60  # the recorded latency is a moving mean: the shorter a backlog, the lower its peak
SLOW_MS = 2_000.0
NEXMARK_CONTENTION = 0.033  # fitted to the curve itself: whether the law has the right shape
CAPACITY_OF_THE_DAY = {"cars": 0.80, "ads": 1.0}  # static runs against the profiling runs of another day
EVENTS = 12  # of each kind, for each of the two jobs and each seed
UTILISATION = (0.2, 0.75)  # mean: 91,000/s by 14.4 workers (cars), 100,000/s by 14.1 (ads); the range is assumed
OBSERVED_RECOVERY_S = {  # events in the logs of ads 5 and cars 3 to 5 that began below 2 s; not in the data pack
    "rescale out, median": 132.0,
    "rescale in, median": 101.0,
    "rescale, median": 125.0,
    "rescale, 90 %": 237.0,
    "failure, median": 217.0,
    "failure, 90 %": 329.0,
}
CAUSES = {"rescale out": ("out",), "rescale in": ("in",), "rescale": ("out", "in"), "failure": ("failure",)}


def capacity(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield Tmax of the cars job by scale-out, its scatter, and the scaling law on Nexmark Q1."""
    most = measured.most_per_s()
    played = {n: [_most_per_s("tsw", n, seed) for seed in seeds] for n in most}
    for n, observed in most.items():
        yield f"tsw: records/s of {n} workers", observed, played[n], True
    sizes = np.array(list(most))
    of_seeds = [np.array([played[n][k] for n in most]) for k in range(len(seeds))]
    observed = _scatter(sizes, np.array(list(most.values())))
    yield "tsw: scatter about a smooth curve", observed, [_scatter(sizes, course) for course in of_seeds], False
    means = measured.nexmark().groupby("parallelism")["records_per_second"].mean()
    law = np.array([n * physics.efficiency(int(n), NEXMARK_CONTENTION, 0.0) for n in means.index])
    single = float(np.exp(np.mean(np.log(means.to_numpy() / law))))
    for n in (1, 8, 14, 26):
        simulated = single * n * physics.efficiency(n, NEXMARK_CONTENTION, 0.0)
        yield f"nexmark Q1: records/s of {n} workers", float(means[n]), [simulated], True


def latency(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield p95 latency of the cars job by utilisation (rate over what that scale-out took at most)."""
    most = measured.most_per_s()
    rows = measured.profiles().query("isBckPres == 0")
    utilisation = rows["avgThr"].to_numpy() / rows["scaleOut"].map(most).to_numpy()
    observed_ms = rows["avgLat"].to_numpy()
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 0.8), (0.8, 0.92)):
        inside = (utilisation >= low) & (utilisation < high)
        simulated = [_latency_at("tsw", utilisation[inside], seed) for seed in seeds]
        yield f"tsw: ms at utilisation {low:.2f}-{high:.2f}", float(np.median(observed_ms[inside])), simulated, True


def recovery(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield how long p95 latency (as recorded) stays above 2 s after rescales and failures, under Phoebe's sizing."""
    played = [[*_recoveries("tsw", seed), *_recoveries("ysb", seed)] for seed in seeds]
    for name, observed in OBSERVED_RECOVERY_S.items():
        what, _, statistic = name.partition(", ")
        causes, share = CAUSES[what], 50 if statistic == "median" else 90
        simulated = [
            float(np.percentile([s for cause, s in recoveries if cause in causes], share)) for recoveries in played
        ]
        yield name, observed, simulated, True


def static(seeds: Sequence[int]) -> Iterator[Row]:
    """Yield latency over six measured hours under 4, 12 and 24 workers, with failures when they were injected."""
    statistics: tuple[tuple[str, Callable[[Values], float], bool], ...] = (
        ("median ms", lambda ms: float(np.median(ms)), True),
        ("p95 ms", lambda ms: float(np.percentile(ms, 95)), True),
        ("share below 2 s", lambda ms: float((ms < SLOW_MS).mean()), False),
    )
    after_failures: tuple[tuple[str, Callable[[Values], float], bool], ...] = (
        ("s until below 2 s after a failure", _slow_until_s, True),
        ("highest ms after a failure", _highest_ms, True),
    )
    for job, name in TWINS.items():
        for scale_out in (24, 12, 4):
            run = measured.phoebe(job, f"baseline_{scale_out}")
            played = [static_ms(job, run.arrived, scale_out, seed) for seed in seeds]
            for statistic, of, relative in (*statistics, *(after_failures if scale_out == 24 else ())):
                yield (
                    f"{name}, {scale_out}: {statistic}",
                    of(run.latency_ms),
                    [of(replay) for replay in played],
                    relative,
                )


# ---- the simulated runs -----------------------------------------------------------------------------------------


def _most_per_s(name: str, scale_out: int, seed: int) -> float:
    """Return the mean rate over 120 s with more to do than can be done, after 300 s, as Phoebe profiles it."""
    twin = JobTwin(load_twin(name), seed, scale_out=scale_out, arrivals=arrivals_from(np.full(420, FULL_PER_S), 0))
    twin.step(420)
    return float(twin.history.column("processed", 300).mean())


def _latency_at(name: str, utilisations: Values, seed: int) -> float:
    """Return the median over profiling runs of 300 s and 120 s in which latency is averaged."""
    values = []
    parameters = load_twin(name)
    capacity_per_s = JobTwin(parameters, seed, scale_out=11).current_capacity()
    for utilisation in utilisations:
        arrivals = arrivals_from(np.full(420, utilisation * capacity_per_s), 0)
        twin = JobTwin(parameters, seed, scale_out=11, arrivals=arrivals)
        twin.step(420)
        values.append(float(twin.history.column("latency_p95_ms", 300).mean()))
    return float(np.median(values))


def _recoveries(name: str, seed: int) -> list[tuple[str, float]]:
    """Let a twin be rescaled and crash at the utilisations that Phoebe ran at: see :data:`UTILISATION`."""
    rng = np.random.default_rng([seed, 1])
    parameters = load_twin(name)
    truth = JobTwin(parameters, seed)
    found: list[tuple[str, float]] = []
    for _ in range(EVENTS):
        before, after = (int(n) for n in rng.choice(np.arange(6, 20), 2, replace=False))
        for scale_out in (before, after):  # from the first it is rescaled; in the second a worker crashes
            rate = rng.uniform(*UTILISATION) * truth.true_capacity(min(scale_out, after))
            arrivals = arrivals_from(np.full(1_500, rate), 0)
            twin = JobTwin(parameters, int(rng.integers(1 << 30)), scale_out=scale_out, arrivals=arrivals)
            twin.step(began_s := int(rng.integers(300, 320)))
            if scale_out == before:
                twin.rescale(after, "once")
            else:
                twin.fail()
            twin.step(1_500 - began_s)
            slow = _slow(recorded_ms(twin.history.column("latency_p95_ms"))[began_s:])
            found.append((twin.outages[0].cause, float(slow[-1] + 1 if len(slow) else 0)))
    return found


def static_ms(job: str, arrived: Values, scale_out: int, seed: int) -> Values:
    """Play a static run with its eight failures; return latency as recorded, shape ``(seconds,)``."""
    twin = JobTwin(of_the_day(job), seed, scale_out=scale_out, arrivals=arrivals_from(arrived, 0))
    for failure_s in measured.FAILURES_S:
        twin.step(failure_s - twin.now_s)
        twin.fail(seed % scale_out)
    twin.step(len(arrived) - twin.now_s)
    return recorded_ms(twin.history.column("latency_p95_ms"))


def recorded_ms(latency_ms: Values) -> Values:
    """Return latency as Phoebe's metric shows it: the last value while nothing comes out, and a mean of a minute."""
    known = np.where(np.isnan(latency_ms), 0, np.arange(len(latency_ms)))
    held = np.nan_to_num(latency_ms[np.maximum.accumulate(known)])
    return means(held, METRIC_MEAN_S)


def of_the_day(job: str) -> TwinParameters:
    """Return the twin of ``cars`` or ``ads`` with the capacity that its static runs had."""
    parameters = load_twin(TWINS[job])
    capacity_per_s = CAPACITY_OF_THE_DAY[job] * parameters.workers.capacity_per_s
    return with_workers(parameters, capacity_per_s=capacity_per_s)


# ---- what is read off a run, measured or simulated -------------------------------------------------------------------


def _scatter(sizes: Values, most_per_s: Values) -> float:
    """Return the relative standard deviation about ``c n / (1 + a (n - 1))``, fitted."""
    ratio = sizes / most_per_s
    slope, level = np.polyfit(sizes - 1.0, ratio, 1)
    return float(np.std(np.log(ratio / (level + slope * (sizes - 1.0))), ddof=2))


def _slow_until_s(latency_ms: Values) -> float:
    """Return the median over failures of the seconds from a failure until p95 is below 2 s for good."""
    return float(np.median([slow[-1] + 1 if len(slow) else 0 for slow in map(_slow, _after_failures(latency_ms))]))


def _highest_ms(latency_ms: Values) -> float:
    """Return the median over failures of the highest p95."""
    return float(np.median([failure.max() for failure in _after_failures(latency_ms)]))


def _after_failures(latency_ms: Values) -> list[Values]:
    return [latency_ms[failure_s : failure_s + 600] for failure_s in measured.FAILURES_S]


def _slow(latency_ms: Values) -> NDArray[np.int64]:
    return np.flatnonzero(latency_ms > SLOW_MS)

"""Jobs of the zoo: number ``K`` of seed ``S`` is the same job however many are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.measured import DATA
from benchmarks.zoo import traces
from benchmarks.zoo.contenders import TICK_S, contender_of
from benchmarks.zoo.properties import drawn_parameters, objective_ms
from benchmarks.zoo.workloads import DAY_S, MINUTE_S, SHAPES
from perdix.replay.case import START_S, Case
from perdix.replay.contenders import needs_beliefs
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.window import Values
from perdix.twin.emission import Scraping, Silence
from perdix.twin.exposition import worker_name
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters
from perdix.twin.regimes import under

TRACE, GAPS = "trace", "metric-gaps"
KINDS = (*SHAPES, TRACE)
QUIET = {"idle": (0.01, 0.02), "near-idle": (0.02, 0.08)}  # mean load as a share of what one worker takes
CALM = ("idle", "near-idle", "white-noise")  # kinds on which nobody gains by rescaling
PEAKS = (0.2, 0.95)  # the highest minute as a share of what the best scale-out takes
SETTLE_S = 900  # beyond the end, for the records that still wait by then
_KIND, _JOB, _SHAPE, _RECORDS, _SCRAPING = range(5)  # random streams


@dataclass(frozen=True)
class ZooJob:
    """One job and its workload, the same for every policy."""

    seed: int
    number: int
    hours: float
    kind: str
    parameters: TwinParameters
    objectives: Objectives
    scraping: Scraping
    about: str  # in words: its workload, and what is special about the job
    arrivals: Values = field(repr=False, compare=False)  # records in each second, longer than the run by ``SETTLE_S``

    @property
    def maximum(self) -> int:
        return self.parameters.workers.maximum

    def case(self, policy: str) -> Case:
        """Return the case of one policy; of one that needs none, without beliefs."""
        contender = contender_of(policy, self.maximum)
        return Case(
            contender,
            self.kind,
            self.parameters,
            twin_seed(self.seed, self.number),
            self.hours,
            objectives=self.objectives,
            bounds=Bounds(minimum=1, maximum=self.maximum),
            scraping=self.scraping,
            arrivals=self.arrivals,
            beliefs=needs_beliefs(contender),
        )


def twin_seed(seed: int, number: int) -> int:
    """Return the seed of everything random in a job's twin."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def kind_of(seed: int, number: int) -> str:
    """Return the kind of workload of a job: each is dealt once, then all of them anew in another order."""
    dealt, place = divmod(number, len(KINDS))
    return KINDS[int(np.random.default_rng([seed, _KIND, dealt]).permutation(len(KINDS))[place])]


def draw(seed: int, number: int, hours: float = 24.0, *, data: Path = DATA, regime: str | None = None) -> ZooJob:
    """Return job ``number`` (from 0 on) of a seed; in a restart ``regime`` its rescales cost what they do there.

    Raises ``NoTracesError`` when it is one of a real trace, and there is none in ``data``; ``ValueError`` when the
    hours do not cover a tick.
    """
    seconds = int(3600 * hours)
    if seconds < TICK_S:
        raise ValueError(f"{hours} hours do not cover one tick of {TICK_S} s")
    kind = kind_of(seed, number)

    def stream(which: int) -> np.random.Generator:
        return np.random.default_rng([seed, which, number])

    shape, shaped = _shape(kind, stream(_SHAPE), seconds + SETTLE_S, data)
    rng = stream(_JOB)
    parameters = drawn_parameters(f"zoo-{seed}-{number}", rng)
    twin = JobTwin(parameters, twin_seed(seed, number))
    peak = float(rng.uniform(*PEAKS))
    rates = shaped * _scale(kind, shaped[:seconds], twin, peak, rng)
    arrivals = _records(rates, float(rng.uniform(0.0, 0.08)), stream(_RECORDS))
    objectives = Objectives(
        latency_p95_ms=round(objective_ms(parameters.latency) + 1_000.0 * float(rng.uniform(1.0, 5.0))),
        checkpoint_interval_s=float(parameters.restart.checkpoint_interval_s),
        recovery_time_s=600.0,
    )
    scraping = _scraping(kind, stream(_SCRAPING), seconds, parameters)
    parameters = parameters if regime is None else under(parameters, regime)
    return ZooJob(
        seed,
        number,
        hours,
        kind,
        parameters,
        objectives,
        scraping,
        _about(shape, parameters, objectives),
        arrivals,
    )


def _shape(kind: str, rng: np.random.Generator, seconds: int, data: Path) -> tuple[str, Values]:
    if kind == TRACE:
        rates, name = traces.drawn(rng, seconds, data)
        return f"trace {name}", rates
    return kind, SHAPES[kind](rng, seconds)


def _scale(kind: str, shape: Values, twin: JobTwin, peak: float, rng: np.random.Generator) -> float:
    """Return records/s that 1 in the shape stands for."""
    if kind in QUIET:
        return float(rng.uniform(*QUIET[kind])) * twin.true_capacity(1) / float(shape.mean())
    most_per_s = max(twin.true_capacity(n) for n in range(1, twin.parameters.workers.maximum + 1))
    minutes = shape[: len(shape) // MINUTE_S * MINUTE_S].reshape(-1, MINUTE_S).mean(axis=1)
    return peak * most_per_s / float(minutes.max())


def _records(rates: Values, deviation: float, rng: np.random.Generator) -> Values:
    """Return whole records in each second: Poisson around a rate that flickers from second to second."""
    flicker = np.maximum(1.0 + deviation * rng.standard_normal(len(rates)), 0.0)
    return rng.poisson(rates * flicker).astype(np.float64)


def _scraping(kind: str, rng: np.random.Generator, seconds: int, parameters: TwinParameters) -> Scraping:
    interval_s, loss = float(rng.choice([5.0, 10.0, 15.0, 30.0])), float(rng.uniform(0.0, 0.03))
    silences: list[Silence] = []
    if kind == GAPS:
        days = seconds / DAY_S
        for at_s in rng.uniform(0.0, seconds, max(1, round(days * rng.integers(3, 11)))):
            begin_s = START_S + float(at_s)
            silences.append(Silence(begin_s, begin_s + float(rng.uniform(120.0, 1_500.0))))
        for at_s in rng.uniform(0.0, seconds, max(1, round(days * rng.integers(5, 40)))):
            worker = worker_name(parameters.name, int(rng.integers(parameters.workers.maximum)))
            begin_s = START_S + float(at_s)
            silences.append(Silence(begin_s, begin_s + float(rng.uniform(15.0, 90.0)), worker, restarted=True))
    return Scraping(interval_s, float(rng.uniform(0.0, 0.5)), loss, tuple(silences))


def _about(shape: str, parameters: TwinParameters, objectives: Objectives) -> str:
    workers, keys = parameters.workers, parameters.keys
    skew = f"spread {keys.skew_spread:.2f}"
    if keys.count is not None:
        skew = f"{keys.count:,} keys, Zipf {keys.zipf:.2f}"
    partitions = parameters.source.partitions
    read = "" if partitions is None else f", {partitions} partitions"
    return (
        f"{shape}; 1..{workers.maximum} workers of {workers.capacity_per_s:,.0f}/s, {skew}{read}, "
        f"restart {parameters.restart.out.median_s:.0f} s, idle CPU {parameters.cpu.idle:.0%}, "
        f"latency {parameters.latency.base_ms:,.0f} ms, at most {objectives.latency_p95_ms:,.0f} ms"
    )

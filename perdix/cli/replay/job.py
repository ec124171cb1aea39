"""``perdix replay job``: any policies on any workload against the twin of a job, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdix.cli import prices as priced
from perdix.cli.output import UserError
from perdix.cli.prices import AskedPrices
from perdix.cli.replay import options
from perdix.cli.replay.options import family_or_none, seeds_from, sink_of
from perdix.replay.labels import FORECASTER

if TYPE_CHECKING:
    from perdix.cli.replay.options import Sink
    from perdix.replay.campaign import Setup
    from perdix.replay.workload import Trace
    from perdix.settings.stream_job import Objectives
    from perdix.twin.parameters import TwinParameters

EXAMPLES = """
Example: perdix replay job --workload ads --policy perdix,hpa-80,static-12 --seeds 3 --hours 6

Example: perdix replay job --workload counts.csv --step 30m --from 2d --to 9d

Example: perdix replay job --workload ads --prices aws-ec2-us-east-1 --worker-memory 4096 --release end-of-unit
"""


def replay_job(
    *,
    workload: options.WorkloadOption = None,
    peak_utilisation: options.PeakUtilisationOption = None,
    hours: options.HoursOption = None,
    from_: options.FromOption = None,
    to: options.ToOption = None,
    step: options.StepOption = None,
    fill_gaps: options.FillGapsOption = False,
    noise: options.NoiseOption = None,
    slow_noise: options.SlowNoiseOption = None,
    twin: options.TwinOption = None,
    regime: options.RegimeOption = None,
    policy: options.PolicyOption = None,
    forecaster: options.ForecasterOption = FORECASTER,
    minimum: options.MinimumOption = 1,
    maximum: options.MaximumOption = None,
    recovery_time_s: options.RecoveryTimeOption = 600.0,
    latency_ms: options.LatencyOption = 5000.0,
    error_budget: options.ErrorBudgetOption = 0.05,
    failures: options.FailuresOption = 0,
    worker_price: options.WorkerPriceOption = None,
    prices: priced.PricesOption = None,
    instance_type: priced.InstanceTypeOption = None,
    worker_cpu: priced.WorkerCpuOption = None,
    worker_memory_mb: priced.WorkerMemoryOption = None,
    release: priced.ReleaseOption = None,
    seeds: options.SeedsOption = 1,
    first_seed: options.FirstSeedOption = 1,
    exact: options.ExactOption = False,
    processes: options.ProcessesOption = None,
    out: options.OutOption = None,
    pictures: options.PicturesOption = True,
    mlflow: options.MlflowOption = True,
    as_json: options.JsonFileOption = None,
) -> None:
    """Policies that size a job, on one workload against its twin.

    Every policy sees the same arrivals, workers and luck for a seed. Options of a policy follow colons:
    daedalus:grace_s=120:tick_s=30. What the figures mean: docs/replay.md.
    """
    from perdix.assets.history import ingested
    from perdix.cli.stores import lake
    from perdix.control.clock import WallClock
    from perdix.replay.asked import twin_and_trace
    from perdix.replay.pace import pace_of
    from perdix.replay.part import USUAL_HOURS, part_of
    from perdix.settings.stream_job import Objectives

    sink = sink_of(as_json, out, pictures=pictures, mlflow=mlflow)
    asked_prices = AskedPrices(prices, instance_type, worker_cpu, worker_memory_mb, release)
    asked_prices.check(worker_price)
    parameters, trace = twin_and_trace(
        workload,
        twin,
        round(3600 * (USUAL_HOURS if hours is None else hours)),
        fill_gaps=fill_gaps,
        step_s=_step_s(step),
        jobs=ingested(lake(), WallClock().now_s()),
        regime=regime,
    )
    asked_prices.check_sizes(worker_price, parameters)
    trace, hours = part_of(trace, hours, from_=from_, to=to)
    objectives = Objectives(
        recovery_time_s=recovery_time_s,
        latency_p95_ms=latency_ms,
        error_budget=error_budget,
        checkpoint_interval_s=float(parameters.restart.checkpoint_interval_s),
    )
    setup = _setup(
        parameters,
        trace,
        policy,
        (minimum, maximum),
        objectives,
        seeds=seeds_from(first_seed, seeds),
        hours=hours,
        peak_utilisation=trace.peak_utilisation if peak_utilisation is None else peak_utilisation,
        noise=trace.noise if noise is None else noise,
        slow_noise=trace.slow_noise if slow_noise is None else slow_noise,
        failures=failures,
        forecaster=family_or_none(forecaster),
        price_per_h=1.0 if worker_price is None else worker_price,
        pricing=asked_prices.pricing(),
        pace=pace_of(trace.step_s, 3_600.0 * hours, exact=exact),
    )
    _replay(setup, processes, sink)


def _step_s(text: str | None) -> float | None:
    """Return the seconds of ``--step``; ``None`` where it is not given."""
    from perdix.settings.durations import seconds_of

    seconds = None if text is None else seconds_of(text)
    if text is not None and not seconds:
        raise UserError(f"--step {text}: not a length of time; write it as 60, 30m or 1h")
    return seconds


def _setup(
    parameters: TwinParameters,
    trace: Trace,
    policies: str | None,
    bounds: tuple[int, int | None],
    objectives: Objectives,
    **how: Any,
) -> Setup:
    """Return the setup; ``bounds`` are the fewest and the most workers (``None``: the twin's), ``how`` all the rest."""
    from perdix.replay.campaign import Setup
    from perdix.replay.contenders import contenders
    from perdix.settings.stream_job import Bounds

    minimum, maximum = bounds[0], bounds[1] or parameters.workers.maximum
    if minimum > maximum:
        raise UserError(f"--min {minimum} is above the most, {maximum}; swap or widen them")
    chosen = Bounds(minimum=minimum, maximum=maximum)
    named = f"perdix,hpa-80,static-{maximum}" if policies is None else policies
    who = how["pace"].paced(contenders(named, chosen))
    return Setup(who, trace, parameters, chosen, objectives=objectives, **how)


def _replay(setup: Setup, processes: int | None, sink: Sink) -> None:
    from perdix.cli.how_long import COARSE_S_PER_H, REPLAYED_S_PER_H
    from perdix.cli.replay.job_text import show
    from perdix.cli.replay.results import carry_out
    from perdix.replay.kinds import JOB

    per_h_s = COARSE_S_PER_H if setup.pace.coarse else REPLAYED_S_PER_H
    runs = len(setup.labels) * len(setup.seeds)
    carry_out(JOB, setup, sink, runs=runs, per_h_s=per_h_s, processes=processes, show=show)

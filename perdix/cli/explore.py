"""Commands that look at one job: capacity, forecast, explain. They need neither Spark nor Dagster."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from perdix.cli.output import JobArgument, JsonOption, UserError, clock_time, console, emit, number, percent, table
from perdix.cli.stores import home, known, lake, say_skipped, state, stream_job, stream_jobs, usable_files
from perdix.settings.moments import LAST_YEAR
from perdix.settings.product import load_product_settings
from perdix.settings.stream_job import MOST_WORKERS

if TYPE_CHECKING:
    import pandas as pd

    from perdix.models.capacity.contract import Estimate
    from perdix.models.forecasting.contract import Forecast
    from perdix.models.forecasting.forecaster import Forecaster

T = TypeVar("T")
CAUGHT_UP_PARTS = 48
_CLOCK = re.compile(r"[^-W\d]\d\d(:?\d\d)?(:?\d\d)?([.,]\d)?")  # of a moment in ISO 8601: minutes, seconds, parts
_WEEK = re.compile(r"W\d\d(?!-?\d)")  # without a day: would be taken for its Monday
INGEST_FIRST = "ingest its exports first: perdix ingest FILES --job NAME"


def capacity(
    job: JobArgument,
    cpu_below: Annotated[
        float | None, typer.Option("--cpu-below", help="Learn from minutes below this CPU load only.", min=0, max=1)
    ] = None,
    maximum: Annotated[
        int | None, typer.Option("--maximum", help="Largest scale-out to show.", min=1, max=MOST_WORKERS)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a job can take at each scale-out, with a 90 % interval and how it is known.

    Example: perdix capacity ads --cpu-below 0.7
    """
    from perdix.assets.history import capacity_history
    from perdix.control.clock import WallClock
    from perdix.models.capacity.report import capacity_report

    store = lake()
    _with_history(job, store.jobs("capacity_features"))
    settings = load_product_settings().training
    rows = _or_user_error(lambda: capacity_history(store, job, settings.history_days, WallClock().now_s()))
    most = maximum or stream_job(job).bounds.maximum
    estimates = _or_user_error(lambda: capacity_report(rows, most, cpu_below))
    observed = _observed(rows)
    document = {"job": job, "cpu_below": cpu_below, "observed": observed, "capacities": estimates}
    emit("perdix.capacity/1", document, as_json=as_json, show=lambda: _show_capacity(job, estimates, observed))


def _with_history(job: str, names: Collection[str]) -> None:
    """Raise ``UserError`` with how to get a history, for a job that has none in the lake."""
    file = None if job in names else stream_jobs().get(job)
    if file is not None and file.prometheus is not None:
        fix = f"perdix ingest --from-prometheus --job {job} --days 1"
        raise UserError(f"job '{job}' has no history in the lake yet: {fix}")
    known(job, names, "job", INGEST_FIRST)


def _observed(rows: pd.DataFrame) -> dict[str, float]:
    """Return the highest scale-out's throughput while its hottest worker was saturated (CPU above 95 %)."""
    totals = rows.groupby("ts").agg(
        throughput=("throughput_per_s", "sum"), hottest=("cpu_load", "max"), workers=("worker", "nunique")
    )
    hot = totals[totals["hottest"] > 0.95]
    if hot.empty:
        return {}
    workers = int(hot["workers"].max())
    hot = hot[hot["workers"] == workers]
    return {"workers": workers, "saturated_rows": len(hot), "throughput_per_s": float(hot["throughput"].mean())}


def _show_capacity(job: str, estimates: list[Estimate], observed: dict[str, float]) -> None:
    table(
        f"capacity of {job}",
        ["workers", "records/s", "low", "high", "how it is known"],
        [[e.scale_out, e.per_s, e.low_per_s, e.high_per_s, e.basis] for e in estimates],
    )
    if observed:
        console.print(
            f"observed with the hottest worker above 95 % CPU, {observed['workers']:.0f} workers: "
            f"{number(observed['throughput_per_s'])} records/s"
        )


def forecast(
    job: JobArgument,
    horizon_s: Annotated[float, typer.Option("--horizon", help="Seconds ahead.", min=60, max=86_400)] = 900.0,
    family: Annotated[str | None, typer.Option("--family", help="Fit this family instead of the champion.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Forecast a job's workload from the newest exports: by its champion, or by the fallback, and say why.

    Beside it: what the workload stays below with 50, 80, 90 and 95 %, at each moment and over all of the time until
    then, and how much each member of the forecaster counts.

    Example: perdix forecast ads --horizon 1800
    """
    from perdix.assets.history import workload_history
    from perdix.control.clock import WallClock
    from perdix.control.job_memory import walked
    from perdix.control.standing import standings
    from perdix.models.forecasting.forecaster import fallback, fitted

    store, settings = lake(), load_product_settings().training
    _with_history(job, store.jobs("workload_features"))
    history = _or_user_error(lambda: workload_history(store, job, settings.history_days, WallClock().now_s()))
    champion, version, fault = (None, 0, "") if family else _champion(job)
    if family:
        model = _or_user_error(lambda: fitted(family, history, seed=settings.seed))
    elif champion is not None:
        model = _or_user_error(lambda: walked(champion, history, CAUGHT_UP_PARTS))
    else:
        model = _or_user_error(lambda: fallback(history))
    made = _or_user_error(lambda: model.forecast(horizon_s, max(1.0, round(horizon_s / 900))))
    why = "" if family or champion is not None else fault or why_no_champion(job)
    document = {
        "job": job,
        "family": made.family,
        "version": version,
        "no_champion": why or None,
        "registry_fault": fault or None,
        "origin_s": made.origin_s,
        "step_s": made.step_s,
        "mean_per_s": made.mean,
        **{f"p{round(100 * p)}_per_s": values for p, values in sorted(made.quantiles.items())},
        **{f"maximum_p{round(100 * p)}_per_s": values for p, values in sorted(made.maxima.items())},
        "members": standings(model),
        "failures": dict(model.failures),
    }
    said = [line for line in dict.fromkeys((why, fault)) if line]
    emit("perdix.forecast/1", document, as_json=as_json, show=lambda: _show_forecast(job, made, version, model, said))


def _champion(job: str) -> tuple[Forecaster | None, int, str]:
    """Return a job's champion, its version, and why the newest cannot be had."""
    import orjson

    from perdix.control.champions import Champions
    from perdix.control.clock import WallClock
    from perdix.models.forecasting.forecaster import forecaster_from_state
    from perdix.models.registry import FORECAST, Registry

    place = home()
    champions = Champions(place.champions, Registry(place.mlflow_url, place.mlflow_artifacts))
    champions.refresh(WallClock().now_s())
    fleet = champions.fleet(FORECAST)
    row, fault = fleet.rows.get(job), champions.fault(FORECAST)
    if row is None:
        return None, 0, fault
    try:
        return forecaster_from_state(orjson.loads(row.state)).given(fleet.shared), row.version, fault
    except ValueError as error:  # damaged, or of another format: then the loop uses its fallback, too
        return None, 0, f"{FORECAST} version {row.version} cannot be used for this job: {error}; no champion: fallback"


def why_no_champion(job: str) -> str:
    """Return in a sentence why a job has no champion forecaster: what its newest training said, if there was one."""
    from perdix.assets.kept_answers import why_not_promoted
    from perdix.assets.training.record import NEVER_TRAINED, read_gated
    from perdix.models.registry import FORECAST

    folder = home().trainings / FORECAST
    (trained,) = read_gated(folder, [job])
    if trained.error == NEVER_TRAINED:
        return f"no champion for {job}: it has never been trained; run perdix train --job {job}"
    challenged = trained.result.get("challenged")
    if trained.promoted and not challenged and why_not_promoted(folder, job, trained.digest) is None:
        late = "its newest training is not registered in MLflow yet; where its run has ended"
        return f"no champion for {job}: {late}, run perdix train --job {job}"
    if trained.promoted or challenged:
        gone = "the one that its newest training knew is no champion in MLflow any more"
        return f"no champion for {job}: {gone}; make it one again, or run perdix train --job {job}"
    return f"no champion for {job}: {trained.why}"


def _show_forecast(job: str, made: Forecast, version: int, model: Forecaster, said: Sequence[str]) -> None:
    from perdix.control.standing import standings

    known_as = f"champion version {version}" if version else "no champion" if said else "not from the registry"
    steps = len(made.mean)
    picked = sorted({0, *(round(steps * part / 10) - 1 for part in range(1, 11))})
    rows = [
        [
            clock_time(made.origin_s + (k + 1) * made.step_s),
            float(made.mean[k]),
            *(float(made.quantiles[p][k]) for p in (0.5, 0.9, 0.95)),
            made.maximum_per_s((k + 1) * made.step_s, 0.9),
        ]
        for k in picked
    ]
    columns = ["at", "mean", "p50", "p90", "p95", "peak, p90"]
    table(f"workload of {job}, records/s: {made.family} ({known_as})", columns, rows)
    bounds = ", ".join(f"p{100 * p:.0f} {number(made.maximum_per_s(None, p))}" for p in (0.5, 0.9, 0.95))
    for line in said:
        console.print(line)
    console.print(f"highest of all: mean {number(made.maximum_per_s())}, {bounds}")
    if len(model.members) > 1:
        counts = [[standing.family, f"{standing.weight:.0%}", percent(standing.wape)] for standing in standings(model)]
        table("members", ["member", "weight", "recent WAPE"], counts)
    for name, failure in model.failures.items():
        console.print(f"{name} takes no part: {failure}")


def explain(
    job: JobArgument,
    at: Annotated[
        str | None, typer.Option("--at", help="Moment, minute, hour or day, such as 2026-01-31T03:12Z.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="All that was seen, believed, examined and rejected.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say in a sentence what is wanted of a job and why, with the sizes around it; --verbose shows all of it.

    Example: perdix explain ads --at 2026-01-31T03:12Z
    """
    from perdix.control.clock import WallClock
    from perdix.control.explain import explain as explained
    from perdix.control.explain_text import render
    from perdix.control.freshness import freshness_of

    at_s, now_s = _moment(at) if at else None, WallClock().now_s()
    with state() as store:
        freshness = freshness_of(store.journal, load_product_settings().control.tick_interval_s)
        files = usable_files(but=job)
        known(job, {*store.journal.statuses(), *files.jobs}, "job", "no tick has been made yet: perdix tick", files)
        if job in files.faults:
            say_skipped(files.faults[job])
        file = files.jobs.get(job)
        until = None if file is None else file.paused_until
        explanation = explained(store, job, at_s, job_file_until=until, now_s=now_s)
    emit(
        "perdix.explain/1",
        {name: value for name, value in explanation.to_dict().items() if name != "schema"},
        as_json=as_json,
        show=lambda: console.print(render(explanation, verbose=verbose, now_s=now_s, freshness=freshness)),
    )


def _moment(text: str) -> float:
    """Return epoch seconds, of a day, hour, minute or second its end: whoever asks means what was decided within it."""
    try:
        moment = datetime.fromisoformat(_WEEK.sub("", text.removesuffix(" UTC")))  # as a decision's own time is printed
    except ValueError:
        raise UserError(f"--at {text}: not a moment; write it as 2026-01-31T03:12Z") from None
    if moment.year > LAST_YEAR:
        raise UserError(f"--at {text}: after the year {LAST_YEAR}; leave --at out for what holds now")
    at_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    clock = _CLOCK.search(text)
    if clock is None:
        return at_s + 86_399.999
    within_s = 0.0 if clock[3] else 0.999 if clock[2] else 59.999 if clock[1] else 3_599.999
    return at_s + within_s


def _or_user_error(make: Callable[[], T]) -> T:
    """Call ``make``; a ``ValueError`` of the models is about the data, so it is the user's to know."""
    try:
        return make()
    except ValueError as error:
        raise UserError(str(error)) from None

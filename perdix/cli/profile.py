"""``perdix profile``: deployments of a job at rising rates, and the models that are learned from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdix.cli.how_long import say_beforehand
from perdix.cli.output import JsonOption, UserError, console, emit, number, require_nothing_left, table
from perdix.settings.counting import counted
from perdix.settings.durations import DAY_S

if TYPE_CHECKING:
    from perdix.profiling.plan import Plan

USUAL_RATES = 20


def profile(
    twin: Annotated[
        str,
        typer.Argument(help="Twin to profile: a name in conf/twins; with --live, a stream job.", show_default=False),
    ],
    *,
    live: Annotated[
        bool, typer.Option("--live", help="Profile the running job itself, as 'profiling' in its file allows.")
    ] = False,
    job: Annotated[
        str | None, typer.Option("--job", help="Stream job that the profile is of.", show_default="called as the twin")
    ] = None,
    minimum: Annotated[int, typer.Option("--min", help="Fewest workers.", min=1)] = 2,
    maximum: Annotated[
        int | None, typer.Option("--max", help="Most workers.", show_default="as many as there are", min=1)
    ] = None,
    deployments: Annotated[
        int, typer.Option("--deployments", help="How many, at equal distances of the scale-out.", min=1, max=100)
    ] = 8,
    step: Annotated[
        float | None,
        typer.Option(
            "--step",
            help="First rate and distance of rates, records/s.",
            show_default="twenty rates to the most that the twin takes",
            min=0.001,
            max=1e12,
        ),
    ] = None,
    settle_s: Annotated[
        int, typer.Option("--settle", help="Seconds after a change of the rate.", min=0, max=DAY_S)
    ] = 300,
    measure_s: Annotated[
        int, typer.Option("--measure", help="Seconds that are measured then.", min=1, max=DAY_S)
    ] = 120,
    fail: Annotated[bool, typer.Option("--fail/--no-fail", help="Let a worker of each deployment fail once.")] = True,
    seed: Annotated[int, typer.Option("--seed", help="Of the twin's luck.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Profile a job and train its latency model: what Phoebe and TWRES decide by.

    Deployments of several scale-outs run side by side at rising rates, each until it no longer keeps up; a running job
    (--live) is rescaled to one after the other. The profile is kept, the models are compared in MLflow, and the winner
    becomes champion through the gate. Exit code 1 when no model could be learned of it.

    Example: perdix profile ysb --min 2 --max 24 --step 20000

    Example: perdix profile orders --live --deployments 3 --step 500
    """
    if live and job not in (None, twin):
        raise UserError(f"--job {job}: with --live the job itself is profiled, so leave it out")
    config: dict[str, Any] = {
        "twin": "" if live else twin,
        "live": live,
        "minimum": minimum,
        "maximum": maximum or 0,
        "deployments": deployments,
        "step_per_s": step or 0.0,
        "settle_s": settle_s,
        "measure_s": measure_s,
        "fail": fail,
        "seed": seed,
    }
    document = _profiled(job or twin, config, show=not as_json)
    emit("perdix.profile/1", document, as_json=as_json, show=lambda: _show(document))
    require_nothing_left(document["left"])
    if document["error"]:
        raise typer.Exit(1)


def _profiled(name: str, config: dict[str, Any], *, show: bool) -> dict[str, Any]:
    """Profile a job, train on it, and return what came of both: the profile also where nothing could be learned of it.

    Raises ``UserError`` when the profiling itself failed, and as :func:`live_plan_of` and :func:`plan_of` do;
    ``SettingsError`` when no job can be called so.
    """
    from perdix.assets.profile import ProfileConfig, live_plan_of, plan_of
    from perdix.assets.resources import Workspace
    from perdix.assets.running_job import profilable_job, require_name
    from perdix.cli import runs
    from perdix.cli.stores import home
    from perdix.twin.parameters import load_twin

    chosen = ProfileConfig(**config)  # what is wrong is said before anything is begun
    if chosen.live:
        plan = live_plan_of(chosen, *profilable_job(Workspace(), name))
    else:
        plan = plan_of(chosen, load_twin(chosen.twin))
        require_name(name)
    if show:
        say_beforehand(*_work_of(plan, live=chosen.live))
    restored = "the job gets the workers back that it had" if chosen.live else None
    produced, failed = runs.measure(home(), "profile", name, {"profiles": config}, restored, show=show)
    return _document(name, produced, "; ".join(failed))


def _work_of(plan: Plan, *, live: bool) -> tuple[str, float | None]:
    """Return what a profiling does in words, and the seconds that it takes: at most, where a job keeps up for long."""
    from perdix.cli.how_long import PROFILED_S_PER_H, SPARK_S, about

    count, rates = len(plan.scale_outs), min(plan.most_steps, USUAL_RATES)
    rate_s = plan.settle_s + plan.measure_s
    if live:
        listed = ", ".join(map(str, plan.scale_outs))
        return (
            f"{listed} workers, one after the other, {about(rate_s)} for each rate until they no longer keep up",
            None,
        )
    hours = count * (rates * rate_s + plan.fail_s * plan.fail) / 3600.0
    return f"{counted(count, 'deployment')} at up to {rates} rates each", SPARK_S + hours * PROFILED_S_PER_H


def _document(job: str, produced: dict[str, dict[str, Any]], failed: str) -> dict[str, Any]:
    """Return the profile as it was kept, and what came of the training, or why that ``failed``."""
    from perdix.assets.profile import rows_of_deployments
    from perdix.assets.training.record import Trained, read_gated
    from perdix.cli.stores import home
    from perdix.models.profiling.rows import read_profile

    path = Path(str(produced["profiles"]["file"]))
    found = read_profile(path)
    folder = home().trainings / "perdix-latency"
    trained = Trained(job, {}, failed, 0.0) if failed else read_gated(folder, [job])[0]
    champions = produced.get("latency_champions", {})
    return {
        "job": job,
        "profile": path.stem,
        "file": str(path),
        "worker_h": found.worker_s / 3600.0,
        "downtime_s": found.downtime_s,
        "deployments": rows_of_deployments(found),
        "points": len(found.points),
        "notes": list(found.notes),
        "left": produced["profiles"]["left"],
        "latency_model": trained.result.get("winner"),
        "why": trained.result.get("why"),
        "promoted": trained.promoted,
        "verdict": trained.result.get("verdict"),
        "error": trained.error,
        "version": champions.get("version"),
        "mlflow_run": champions.get("mlflow_run"),
    }


def _show(document: dict[str, Any]) -> None:
    rows = [
        [
            row["scale_out"],
            number(row["highest_per_s"]),
            number(row["per_worker_per_s"]),
            row["rates_held"],
            number(row["latency_ms"]),
        ]
        for row in document["deployments"]
    ]
    heads = ["workers", "highest rate, /s", "per worker, /s", "rates held", "latency, ms"]
    table(f"profile of {document['job']}: {number(document['worker_h'])} worker-hours", heads, rows)
    if document["downtime_s"] is not None:
        console.print(f"a failure stops the job for {document['downtime_s']:.0f} s")
    console.print(f"kept as {document['file']}", soft_wrap=True)
    console.print(f"latency model: {document['error'] or document['verdict']}", soft_wrap=True)
    for note in document["notes"]:
        if note == document["left"]:
            continue
        console.print(f"note: {note}")

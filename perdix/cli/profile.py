"""``perdix profile``: deployments of a job side by side at rising rates, and the models that are learned from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdix.cli.how_long import say_beforehand
from perdix.cli.options import JsonOption
from perdix.cli.output import console, emit, number, table

if TYPE_CHECKING:
    from perdix.profiling.plan import Plan

USUAL_RATES = 20


def profile(
    twin: Annotated[str, typer.Argument(help="Twin to profile: a name in conf/twins.", show_default=False)],
    *,
    job: Annotated[
        str | None, typer.Option("--job", help="Stream job that the profile is of.", show_default="called as the twin")
    ] = None,
    minimum: Annotated[int, typer.Option("--min", help="Fewest workers.", min=1)] = 2,
    maximum: Annotated[
        int | None, typer.Option("--max", help="Most workers.", show_default="the twin's", min=1)
    ] = None,
    deployments: Annotated[
        int, typer.Option("--deployments", help="How many, at equal distances of the scale-out.", min=1, max=100)
    ] = 8,
    step: Annotated[
        float | None,
        typer.Option(
            "--step",
            help="First rate and distance of rates, records/s.",
            show_default="twenty rates to the most",
            min=0,
        ),
    ] = None,
    settle_s: Annotated[int, typer.Option("--settle", help="Seconds after a change of the rate.", min=0)] = 300,
    measure_s: Annotated[int, typer.Option("--measure", help="Seconds that are measured then.", min=1)] = 120,
    fail: Annotated[bool, typer.Option("--fail/--no-fail", help="Let a worker of each deployment fail once.")] = True,
    seed: Annotated[int, typer.Option("--seed", help="Of the twin's luck.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Profile a job and train its latency model: what Phoebe and TWRES decide by.

    Deployments of several scale-outs run side by side at rising rates, each until it no longer keeps up; the profile is
    kept, the models are compared in MLflow, and the winner becomes champion through the gate.

    Example: perdix profile ysb --min 2 --max 24 --step 20000
    """
    config: dict[str, Any] = {
        "twin": twin,
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


def _profiled(name: str, config: dict[str, Any], *, show: bool) -> dict[str, Any]:
    """Profile a job, train on it, and return what came of both."""
    from perdix.assets.profile import ProfileConfig, plan_of
    from perdix.cli import runs
    from perdix.cli.stores import home
    from perdix.twin.parameters import load_twin

    plan = plan_of(ProfileConfig(**config), load_twin(config["twin"]))  # what is wrong is said before all begins
    if show:
        say_beforehand(*_work_of(plan))
    with runs.instance(home()) as opened:
        opened.add_dynamic_partitions("stream_jobs", [name])
        result = runs.run_job("profile", (name, name), opened, console if show else None, config={"profiles": config})
    return _document(name, runs.metadata(result))


def _work_of(plan: Plan) -> tuple[str, float]:
    """Return what a profiling does in words, and the seconds that it takes: at most, where a job keeps up for long."""
    from perdix.cli.how_long import PROFILED_S_PER_H, SPARK_S, counted

    count, rates = len(plan.scale_outs), min(plan.most_steps, USUAL_RATES)
    hours = count * (rates * (plan.settle_s + plan.measure_s) + plan.fail_s * plan.fail) / 3600.0
    return f"{counted(count, 'deployment')} at up to {rates} rates each", SPARK_S + hours * PROFILED_S_PER_H


def _document(job: str, told: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the profile as it was kept, and what came of the training."""
    from perdix.assets.profile import rows_of_deployments
    from perdix.assets.training.record import read_trained
    from perdix.cli.stores import home
    from perdix.models.profiling.rows import read_profile

    path = Path(str(told["profiles"]["file"]))
    found = read_profile(path)
    (trained,) = read_trained(home().trainings / "perdix-latency", [job])
    champions = told.get("latency_champions", {})
    return {
        "job": job,
        "profile": path.stem,
        "file": str(path),
        "worker_h": found.worker_s / 3600.0,
        "downtime_s": found.downtime_s,
        "deployments": rows_of_deployments(found),
        "points": len(found.points),
        "notes": list(found.notes),
        "latency_model": trained.result.get("winner"),
        "why": trained.result.get("why"),
        "promoted": bool(trained.result.get("promote")),
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
    table(f"profile of {document['job']}: {document['worker_h']:,.0f} worker-hours", heads, rows)
    if document["downtime_s"] is not None:
        console.print(f"a failure stops the job for {document['downtime_s']:.0f} s", highlight=False)
    console.print(
        f"latency model: {document['error'] or document['verdict']}", highlight=False, markup=False, soft_wrap=True
    )
    for note in document["notes"]:
        console.print(f"note: {note}", highlight=False, markup=False)

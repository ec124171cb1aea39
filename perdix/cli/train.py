"""``perdix train``: candidates fitted and judged, champions registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from perdix.cli.options import JsonOption
from perdix.cli.output import UserError, console, emit, styled, table
from perdix.cli.stores import home, known, lake, usable_files

MODELS = {"forecast": "wape", "capacity": "capacity_mape"}
OF_SAMPLES = {"performance": "relative_rmse"}  # where a job's sizes were sampled
_ERRORS = {"forecast": "WAPE, whole horizon", "performance": "RMSE, left out"}


def train(
    job: Annotated[str | None, typer.Option("--job", help="Train this job only.", show_default="every job")] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit and backtest every candidate of each job on Spark, compare them in MLflow, and promote the winners.

    What the lake lacks of a job with a Prometheus is pulled first. A challenger becomes champion only when it beats the
    champion on the same windows, after a drift on those since the drift began. Jobs whose sizes were sampled
    (perdix sample) get a performance model, too: what workers of each size process. A run that fails keeps no other
    job from being trained; the exit code is 1 then.

    Example: perdix train --job ads
    """
    files = usable_files(but=job)
    live = [name for name, one in files.jobs.items() if one.prometheus is not None]
    ingested, sampled = list(dict.fromkeys([*lake().jobs("workload_features"), *live])), sampled_jobs()
    fix = "ingest exports first (perdix ingest FILES --job NAME), or write conf/jobs/<job>.yaml with its Prometheus"
    every = list(dict.fromkeys([*ingested, *sampled]))
    jobs = [known(job, every, "job", fix, files)] if job else every
    if not jobs:
        known("", [], "job", fix)
    document = train_jobs(
        [one for one in jobs if one in ingested], sampled=[one for one in jobs if one in sampled], show=not as_json
    )
    emit("perdix.train/1", document, as_json=as_json, show=lambda: _show(document))
    if document["problems"]:
        raise typer.Exit(1)


def sampled_jobs() -> list[str]:
    """Return the jobs of whose sizes samples are kept."""
    return sorted({path.parent.name for path in home().operator_samples.glob("*/*.parquet")})


def train_jobs(jobs: list[str], *, show: bool, sampled: Sequence[str] = ()) -> dict[str, Any]:
    """Train ``jobs`` through Dagster in this process; returns what each was trained to, per model.

    A run that fails keeps no other job from being trained; it is in ``problems``.

    ``sampled``: jobs that get a performance model from their samples.
    """
    from perdix.cli import runs
    from perdix.cli.how_long import counted, say_beforehand, train_s

    if show:
        every = list(dict.fromkeys([*jobs, *sampled]))
        say_beforehand(f"training {counted(len(every), 'job')}", train_s(len(every)))
    wanted = [("train", MODELS, jobs), ("train_performance", OF_SAMPLES, list(sampled))]
    models: dict[str, Any] = {}
    with runs.instance(home()) as opened:
        problems: list[str] = []
        for name, trained, of in wanted:
            if of:
                results, failed = _run(name, of, opened, show=show)
                models |= {model: _trained(results, model, metric, of, failed) for model, metric in trained.items()}
                problems += [f"{job}: {why}" for job, why in failed.items()]
    return {"jobs": list(dict.fromkeys([*jobs, *sampled])), "models": models, "problems": problems}


def _run(name: str, jobs: list[str], opened: Any, *, show: bool) -> tuple[list[Any], dict[str, str]]:
    """Run a Dagster job over the partitions of ``jobs``: in one run where they follow each other.

    Returns the results of the runs that succeeded, and why each job of the others was not trained.
    """
    from perdix.cli import runs

    opened.add_dynamic_partitions("stream_jobs", jobs)
    every = opened.get_dynamic_partitions("stream_jobs")
    ordered = [one for one in every if one in jobs]
    unbroken = every[every.index(ordered[0]) : every.index(ordered[-1]) + 1] == ordered
    results: list[Any] = []
    failed: dict[str, str] = {}
    for stretch in [ordered] if unbroken else [[one] for one in ordered]:
        try:
            results.append(runs.run_job(name, (stretch[0], stretch[-1]), opened, console if show else None))
        except UserError as error:
            failed |= dict.fromkeys(stretch, "; ".join(str(error).splitlines()))
    return results, failed


def _trained(results: list[Any], model: str, metric: str, jobs: list[str], failed: Mapping[str, str]) -> dict[str, Any]:
    from perdix.assets.training.record import read_trained
    from perdix.cli import runs

    registered, version, url = f"perdix-{model}", 0, None
    for result in results:
        champions = runs.metadata(result).get(f"{model}_champions", {})
        version, url = champions.get("version", version), champions.get("mlflow_run", url)
    rows = [
        {
            "job": one.job,
            "winner": one.result.get("winner"),
            metric: one.score(metric),
            "promoted": bool(one.result.get("promote")),
            "verdict": one.result.get("verdict"),
            "error": one.error,
        }
        for one in read_trained(home().trainings / registered, [job for job in jobs if job not in failed])
    ]
    nothing = {"winner": None, metric: None, "promoted": False, "verdict": None}
    rows += [{"job": job, **nothing, "error": why} for job, why in failed.items()]
    return {"version": version, "mlflow_run": url, "jobs": rows}


def _show(document: dict[str, Any]) -> None:
    metrics = {**MODELS, **OF_SAMPLES}
    for model, trained in document["models"].items():
        metric = metrics[model]
        rows = [
            [row["job"], row["winner"] or "-", _percent(row[metric]), row["error"] or row["verdict"]]
            for row in trained["jobs"]
        ]
        error = _ERRORS.get(model, "error, held out")
        known_as = f"perdix-{model} version {trained['version']}" if trained["version"] else "no champion"
        table(f"{model}: {known_as}", ["job", "winner", error, "verdict"], rows)
    for problem in document["problems"]:
        console.print(styled("not trained", "yellow"), problem)
    console.print("compare the candidates: perdix dev, then the MLflow page")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"

"""``perdix train``: candidates fitted and judged, champions registered."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.options import JsonOption
from cli.output import console, emit, table
from cli.stores import home, known, lake

MODELS = {"forecast": "wape_900s", "capacity": "capacity_mape"}


def train(
    job: Annotated[str | None, typer.Option("--job", help="Train this job only.", show_default="every job")] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit and backtest every candidate of each job on Spark, compare them in MLflow, and promote the winners.

    A challenger becomes champion only when it beats the champion on the same windows.

    Example: perdix train --job ads
    """
    ingested = lake().jobs("workload_features")
    mend = "ingest exports first: perdix ingest FILES --job NAME"
    jobs = [known(job, ingested, "job", mend)] if job else ingested
    if not jobs:
        known("", [], "job", mend)
    document = train_jobs(jobs, show=not as_json)
    emit("perdix.train/1", document, as_json=as_json, show=lambda: _show(document))


def train_jobs(jobs: list[str], *, show: bool) -> dict[str, Any]:
    """Train ``jobs`` through Dagster in this process; returns what each was trained to, per model."""
    from cli import runs

    with runs.instance(home()) as opened:
        opened.add_dynamic_partitions("stream_jobs", jobs)
        ordered = [name for name in opened.get_dynamic_partitions("stream_jobs") if name in jobs]
        every = opened.get_dynamic_partitions("stream_jobs")
        unbroken = every[every.index(ordered[0]) : every.index(ordered[-1]) + 1] == ordered
        stretches = [(ordered[0], ordered[-1])] if unbroken else [(name, name) for name in ordered]
        results = [runs.run_job("train", stretch, opened, console if show else None) for stretch in stretches]
    return {"jobs": jobs, "models": {model: _trained(results, model, jobs) for model in MODELS}}


def _trained(results: list[Any], model: str, jobs: list[str]) -> dict[str, Any]:
    from assets.training_record import read_trained
    from cli import runs

    metric, registered = MODELS[model], f"perdix-{model}"
    version, url = 0, None
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
        for one in read_trained(home().trainings / registered, jobs)
    ]
    return {"version": version, "mlflow_run": url, "jobs": rows}


def _show(document: dict[str, Any]) -> None:
    for model, metric in MODELS.items():
        trained = document["models"][model]
        rows = [
            [row["job"], row["winner"] or "-", _percent(row[metric]), row["error"] or row["verdict"]]
            for row in trained["jobs"]
        ]
        error = "WAPE, 15 min" if model == "forecast" else "error, held out"
        table(f"{model}: perdix-{model} version {trained['version']}", ["job", "winner", error, "verdict"], rows)
    console.print("compare the candidates: perdix dev, then the MLflow page", highlight=False)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"

"""``perdix train``: candidates fitted and judged, champions registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from perdix.cli.output import JsonOption, UserError, console, emit, percent, styled, table
from perdix.cli.stores import home, known, lake, usable_files
from perdix.settings.counting import counted
from perdix.settings.home import job_file_to_write

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
    job and no other model from being trained; the exit code is 1 then.

    Example: perdix train --job ads
    """
    files = usable_files(but=job)
    live = [name for name, file in files.jobs.items() if file.prometheus is not None]
    ingested, sampled = list(dict.fromkeys([*lake().jobs("workload_features"), *live])), sampled_jobs()
    fix = f"ingest exports first (perdix ingest FILES --job NAME), or {job_file_to_write()}, with its Prometheus"
    every = list(dict.fromkeys([*ingested, *sampled]))
    jobs = every if job is None else [known(job, every, "job", fix, files)]
    if not jobs:
        raise UserError(f"there is no job yet: {fix}")
    document = train_jobs(
        [name for name in jobs if name in ingested],
        sampled=[name for name in jobs if name in sampled],
        show=not as_json,
    )
    emit("perdix.train/1", document, as_json=as_json, show=lambda: _show(document))
    if document["problems"]:
        raise typer.Exit(1)


def sampled_jobs() -> list[str]:
    """Return the jobs of whose sizes samples are kept."""
    return sorted({path.parent.name for path in home().operator_samples.glob("*/*.parquet")})


def train_jobs(jobs: list[str], *, show: bool, sampled: Sequence[str] = ()) -> dict[str, Any]:
    """Train ``jobs`` through Dagster in this process; returns what each was trained to, per model.

    A run that fails keeps no other job from being trained; it is in ``problems``. A model whose own steps succeeded in
    such a run is reported as the result.

    ``sampled``: jobs that get a performance model from their samples.
    """
    from perdix.cli import runs
    from perdix.cli.how_long import say_beforehand, train_s

    if show:
        every = list(dict.fromkeys([*jobs, *sampled]))
        say_beforehand(f"training {counted(len(every), 'job')}", train_s(len(every)))
    wanted = [("train", MODELS, jobs), ("train_performance", OF_SAMPLES, list(sampled))]
    models: dict[str, Any] = {}
    with runs.instance(home()) as opened:
        problems: list[str] = []
        for name, trained, of in wanted:
            if of:
                ran = _run(name, of, opened, show=show)
                models |= {model: _trained(ran, model, metric, of) for model, metric in trained.items()}
                problems += [f"{job}: {'; '.join(run.failed)}" for run in ran if run.failed for job in run.jobs]
    return {"jobs": list(dict.fromkeys([*jobs, *sampled])), "models": models, "problems": problems}


@dataclass(frozen=True)
class _Run:
    """A Dagster run, and what came of it."""

    jobs: Sequence[str]
    run_id: str
    produced: Mapping[str, Mapping[str, Any]]  # asset -> its metadata
    failed: Sequence[str]  # that it failed, and what its steps said; empty where it succeeded

    def why_not(self, model: str) -> str:
        """Return what kept a model from being trained in this run: its own steps, or others; empty if nothing did."""
        if not self.failed or f"{model}_champions" in self.produced:
            return ""
        return "; ".join([line for line in self.failed if line.startswith(f"{model}_")] or self.failed)


def _run(name: str, jobs: list[str], opened: Any, *, show: bool) -> list[_Run]:
    """Run a Dagster job over the partitions of ``jobs``: in one run where they follow each other."""
    from perdix.cli import runs

    opened.add_dynamic_partitions("stream_jobs", jobs)
    every = opened.get_dynamic_partitions("stream_jobs")
    ordered = [known for known in every if known in jobs]
    unbroken = every[every.index(ordered[0]) : every.index(ordered[-1]) + 1] == ordered
    found: list[_Run] = []
    for stretch in [ordered] if unbroken else [[job] for job in ordered]:
        bounds, progress = (stretch[0], stretch[-1]), console if show else None
        result = runs.run_job(name, bounds, opened, progress, must_succeed=False)
        found.append(_Run(stretch, result.run_id, runs.metadata(result), runs.why_failed(result)))
    return found


def _trained(ran: Sequence[_Run], model: str, metric: str, jobs: list[str]) -> dict[str, Any]:
    """Return the version of a model, its run in MLflow, and what each job was trained to, or why it was not."""
    from perdix.assets.kept_answers import Kept
    from perdix.assets.training.record import read_gated

    folder, version, url = home().trainings / f"perdix-{model}", 0, None
    why: dict[str, str] = {}
    for run in ran:
        champions = run.produced.get(f"{model}_champions", {})
        version, url = champions.get("version", version), champions.get("mlflow_run", url)
        if failed := run.why_not(model):
            own = {job: (Kept(folder, run.run_id).answer(job) or {}).get("error") for job in run.jobs}
            why |= {job: error or failed for job, error in own.items()}
    rows = [
        {
            "job": outcome.job,
            "winner": outcome.result.get("winner"),
            metric: outcome.score(metric),
            "promoted": outcome.promoted,
            "verdict": outcome.result.get("verdict"),
            "error": outcome.error,
        }
        for outcome in read_gated(folder, [job for job in jobs if job not in why])
    ]
    nothing = {"winner": None, metric: None, "promoted": False, "verdict": None}
    rows += [{"job": job, **nothing, "error": error} for job, error in why.items()]
    return {"version": version, "mlflow_run": url, "jobs": rows}


def _show(document: dict[str, Any]) -> None:
    metrics = {**MODELS, **OF_SAMPLES}
    for model, trained in document["models"].items():
        metric = metrics[model]
        rows = [
            [row["job"], row["winner"] or "-", percent(row[metric]), row["error"] or row["verdict"]]
            for row in trained["jobs"]
        ]
        error = _ERRORS.get(model, "error, held out")
        known_as = f"perdix-{model} version {trained['version']}" if trained["version"] else "no champion"
        table(f"{model}: {known_as}", ["job", "winner", error, "verdict"], rows)
    for problem in document["problems"]:
        console.print(styled("failed", "yellow"), problem)
    console.print("compare the candidates: perdix dev, then the MLflow page")

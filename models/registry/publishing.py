"""A training as MLflow shows it: a parent run, a nested run per candidate family, and runs of single jobs.

Things that are compared on the same data are shown likewise: a parent run, and a nested run for each.

How a run is written is in :mod:`perdix.models.registry.run_writer`.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perdix.models.registry.fleet_model import register
from perdix.models.registry.fleet_table import VERSION, Fleet, checked_fleet
from perdix.models.registry.publication import (
    CAPACITY,
    FLEET_MODELS,
    FORECAST,
    LATENCY,
    PERFORMANCE,
    Candidate,
    JobDetail,
    Parameter,
    Publication,
    Published,
    TrainingData,
)
from perdix.models.registry.run_writer import RunWriter, origin_tags
from perdix.settings.counting import counted

# MLflow shows no metric until a reader chooses some. A view that is kept with an experiment, as its *Share* button
# keeps one, is opened by its key in the address; MLflow reads it from a tag of the experiment.
KEY = "perdix"
NOT_JUDGED = "perdix.not_judged"  # tag of a run: why a family could not be judged on some job
WHOLE = ("chosen_share", "jobs_failed")
DECIDING: Mapping[str, Sequence[str]] = {  # few, for the list has room for some five, which it orders by name
    FORECAST: ("score_median", "wape_median", *WHOLE),
    CAPACITY: ("score_median", "capacity_mape_median", *WHOLE),
    LATENCY: ("balanced_error_median", *WHOLE),
    PERFORMANCE: ("relative_rmse_median", *WHOLE),
}


def view_tag(metrics: Sequence[str]) -> dict[str, str]:
    """Return the tag that keeps an experiment's view; empty where nobody said what decides."""
    if not metrics:
        return {}
    columns = [*(f"metrics.`{name}`" for name in metrics), f"tags.`{NOT_JUDGED}`"]
    return {f"mlflow.sharedViewState.{KEY}": json.dumps({"selectedColumns": columns})}


def page_of(ui_url: str, experiment_id: str) -> str:
    """Return the address of an experiment's list of runs, opened with its view."""
    return f"{ui_url}/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={KEY}"


DETAIL_LIMIT = 10  # jobs that get a run each
LONGEST_REASON = 500  # letters in a tag; all of it is in the table of jobs


def publish(client: Any, publication: Publication, run_url: Callable[[str, str], str]) -> Published:
    """Record a training and register its fleet; moves no alias."""
    if publication.name not in FLEET_MODELS:
        raise ValueError(f"no such fleet model: '{publication.name}'; known: {', '.join(FLEET_MODELS)}")
    fleet = checked_fleet(publication.fleet)
    _refuse_twins(publication.candidates)
    experiment_id = client.get_experiment_by_name(publication.name).experiment_id
    origin = {**origin_tags("training", publication.data.digest), "perdix.jobs": str(len(publication.fleet))}
    writer = RunWriter(client, experiment_id, publication.started_at_s, {**origin, **publication.tags})
    recorder = _Recorder(writer, publication)
    name = f"{publication.name.removeprefix('perdix-')} of {counted(len(fleet), 'job')}"
    with writer.run(name, {}) as parent:
        recorder.log_parent(parent, fleet)
        for candidate in publication.candidates:
            recorder.log_candidate(parent, candidate, fleet)
        for detail in publication.details if len(publication.details) <= DETAIL_LIMIT else ():
            recorder.log_detail(parent, detail)
        version = register(client, experiment_id, parent, publication.name, fleet)
    return Published(version, parent, run_url(experiment_id, parent))


def _refuse_twins(candidates: Sequence[Candidate]) -> None:
    families = [candidate.family for candidate in candidates]
    if len(set(families)) != len(families):
        raise ValueError(f"two candidates of one family: {', '.join(families)}; put their jobs into one table")


@dataclass(frozen=True)
class _Recorder:
    """Writes the runs of one publication."""

    writer: RunWriter
    publication: Publication

    def log_parent(self, run_id: str, fleet: Fleet) -> None:
        """Log what the whole fleet came to."""
        figures = fleet.jobs.drop(columns=["state", VERSION], errors="ignore")
        self.writer.log_values(run_id, aggregate(figures), self.publication.parameters)
        self.writer.log_dataset(run_id, self.publication.data, "training")
        self.writer.client.log_table(run_id, figures, "fleet.json")
        self.writer.log_pictures(run_id, self.publication.pictures)

    def log_candidate(self, parent: str, candidate: Candidate, fleet: Fleet) -> None:
        """Log one family over all jobs."""
        tags = {"mlflow.parentRunId": parent, "perdix.role": "candidate", "perdix.family": candidate.family}
        why_not = _why_not(candidate)
        if why_not:
            tags[NOT_JUDGED] = why_not
        metrics = aggregate(candidate.per_job)
        if len(candidate.per_job):
            chosen = fleet.jobs.loc[fleet.jobs["family"] == candidate.family, "job"]
            metrics["chosen_share"] = float(candidate.per_job["job"].isin(chosen).mean())
        with self.writer.run(candidate.family, tags) as run_id:
            self.writer.log_values(run_id, metrics, {"family": candidate.family, **candidate.parameters})
            self.writer.log_dataset(run_id, self.publication.data, "training")
            if len(candidate.per_job):
                self.writer.client.log_table(run_id, candidate.per_job, "jobs.json")
            self.writer.log_pictures(run_id, candidate.pictures)

    def log_detail(self, parent: str, detail: JobDetail) -> None:
        """Log one job under the family chosen for it."""
        tags = {
            "mlflow.parentRunId": parent,
            "perdix.role": "job",
            "perdix.family": detail.family,
            "perdix.job": detail.job,
        }
        with self.writer.run(detail.job, tags) as run_id:
            self.writer.log_values(
                run_id, detail.metrics, {"job": detail.job, "family": detail.family, **detail.parameters}
            )
            self.writer.log_pictures(run_id, detail.pictures)


def aggregate(per_job: pd.DataFrame) -> dict[str, float]:
    """Return what a table of per-job metrics says about the fleet.

    Numbers give ``<metric>_median`` and ``<metric>_p90`` (``fit_s`` its ``_total`` too), booleans ``<metric>_share``,
    and the column ``error`` the count of jobs that have one. Values that are missing or infinite take no part.
    """
    metrics: dict[str, float] = {}  # in the order of the columns: MLflow's compare page plots the first one
    for name in per_job.columns:
        known = per_job[name].dropna()
        if (
            known.empty
            or not known.map(lambda value: isinstance(value, bool | int | float | np.number | np.bool_)).all()
        ):
            continue  # text, or nothing to aggregate
        if known.map(lambda value: isinstance(value, bool | np.bool_)).all():
            metrics[f"{name}_share"] = float(known.astype(float).mean())
            continue
        values = known.astype(float)
        values = values[np.isfinite(values)]
        if values.empty:
            continue
        metrics[f"{name}_median"] = float(values.median())
        metrics[f"{name}_p90"] = float(values.quantile(0.9))
        if name == "fit_s":
            metrics["fit_s_total"] = float(values.sum())
    metrics["jobs"] = float(len(per_job))
    if "error" in per_job:
        metrics["jobs_failed"] = float(len(failures(per_job)))
    return metrics


def failures(per_job: pd.DataFrame) -> list[str]:
    """Return why jobs could not be judged: the texts of the column ``error``, where there are any."""
    if "error" not in per_job:
        return []
    reasons = per_job["error"].fillna("").astype(str)
    return reasons[reasons.ne("")].tolist()


def _why_not(candidate: Candidate) -> str:
    """Return on how many jobs a family could not be judged, and the most frequent reason; empty where it could."""
    reasons = Counter(failures(candidate.per_job))
    if not reasons:
        return ""
    (most, _), failed, tried = reasons.most_common(1)[0], reasons.total(), len(candidate.per_job)
    others = f" ({counted(len(reasons) - 1, 'other reason')}: jobs.json)" if len(reasons) > 1 else ""
    return f"on {failed:,} of {counted(tried, 'job')}: {most[:LONGEST_REASON]}{others}"


_DESCRIPTION = "mlflow.note.content"

Series = Sequence[tuple[int, float]]  # step, value


@dataclass(frozen=True)
class Compared:
    """One of the things compared: one nested run, one column of the compare page."""

    name: str
    metrics: Mapping[str, float]  # named alike in all that are compared; the unit is in the name
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    # Figures over time. A name with a slash, ``course/workers``, gets a section of its own among the charts
    series: Mapping[str, Series] = field(default_factory=dict)
    document: Any = None  # everything that is known of it, as JSON-serialisable values: the artifact ``figures.json``
    pictures: Sequence[Path] = ()


@dataclass(frozen=True)
class Comparison:
    """What is to be recorded."""

    experiment: str  # made when it is absent
    kind: str  # what was compared, for example ``replay``: the tag ``perdix.kind`` of every run
    name: str
    compared: Sequence[Compared]
    data: TrainingData
    started_at_s: float
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    # Of the parent run, by which whole comparisons are compared; MLflow folds nested runs away until one asks
    metrics: Mapping[str, float] = field(default_factory=dict)
    # Markdown: the description of the parent run. A link to the compare page is put before it
    note: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[str] = ()  # metrics of what is compared that MLflow's list opens with, by which one decides
    files: Sequence[Path] = ()  # artifacts of the parent run; PNGs go to its folder ``pictures``, Parquet to ``series``


@dataclass(frozen=True)
class Recorded:
    """The runs of a comparison, nested ones by name in the order in which they were given, and where they are seen."""

    run_id: str
    run_url: str
    compared_run_ids: Mapping[str, str]
    compare_url: str


def record(
    client: Any,
    experiment_id: str,
    comparison: Comparison,
    run_url: Callable[[str, str], str],
    compare_url: Callable[[str, Sequence[str]], str],
) -> Recorded:
    """Record a comparison.

    Raises ``ValueError`` when two of them have one name.

    ``run_url``, ``compare_url``: where a run of an experiment, and several side by side, are seen in MLflow's UI.
    """
    names = [item.name for item in comparison.compared]
    if len(set(names)) != len(names):
        raise ValueError(f"two of one name are compared: {', '.join(names)}; name them apart")
    tags = {**origin_tags("comparison", comparison.data.digest), "perdix.kind": comparison.kind, **comparison.tags}
    writer = RunWriter(client, experiment_id, comparison.started_at_s, tags)
    with writer.run(comparison.name, {}) as parent:
        writer.log_values(parent, comparison.metrics, comparison.parameters)
        writer.log_dataset(parent, comparison.data, comparison.kind)
        writer.log_files(parent, comparison.files)
        nested = {item.name: _record_one(writer, parent, comparison, item) for item in comparison.compared}
        together = compare_url(experiment_id, list(nested.values()))
        client.set_tag(parent, _DESCRIPTION, f"[All of them side by side]({together})\n\n{comparison.note}")
    return Recorded(parent, run_url(experiment_id, parent), nested, together)


def _record_one(writer: RunWriter, parent: str, comparison: Comparison, item: Compared) -> str:
    tags = {"mlflow.parentRunId": parent, "perdix.role": "compared", **item.tags}
    with writer.run(item.name, tags) as run_id:
        writer.log_values(run_id, item.metrics, {**comparison.parameters, **item.parameters})
        writer.log_series(run_id, item.series)
        writer.log_dataset(run_id, comparison.data, comparison.kind)
        writer.log_files(run_id, item.pictures)
        if item.document is not None:
            writer.client.log_dict(run_id, item.document, "figures.json")
    return run_id

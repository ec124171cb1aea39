"""A training as MLflow shows it: a parent run, a nested run per candidate family, and runs of single jobs.

Every call names its run, so no active run and no global tracking URI is touched: Dagster steps, threads and tests do
not see each other.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from models.registry.fleet_model import register
from models.registry.fleet_table import aggregate, checked_fleet
from models.registry.provenance import git_commit, installed
from models.registry.publication import (
    CAPACITY,
    FORECAST,
    Candidate,
    JobDetail,
    Parameter,
    Pictures,
    Publication,
    Published,
)
from settings.home import PROJECT

_DATASET_DIGEST_LENGTH = 36  # MLflow's column is no longer


def publish(
    client: Any,
    publication: Publication,
    run_url: Callable[[str, str], str],
    *,
    detail_limit: int,
    digest_tag: str,
) -> Published:
    """Record a training and register its fleet; moves no alias."""
    if publication.name not in (FORECAST, CAPACITY):
        raise ValueError(f"no such fleet model: '{publication.name}'; known: {FORECAST}, {CAPACITY}")
    fleet = checked_fleet(publication.fleet)
    _refuse_twins(publication.candidates)
    details = publication.details if len(publication.details) <= detail_limit else ()
    recorder = _Recorder(
        client, client.get_experiment_by_name(publication.name).experiment_id, publication, _provenance(publication)
    )
    with recorder.run(_parent_name(publication, fleet), {}) as parent:
        recorder.log_parent(parent, fleet)
        tried = {item.family: recorder.log_candidate(parent, item, fleet) for item in publication.candidates}
        looked_at = {item.job: recorder.log_detail(parent, item) for item in details}
        registered = register(client, recorder.experiment_id, parent, publication.name, fleet, digest_tag=digest_tag)
    return Published(
        name=publication.name,
        version=registered.version,
        digest=registered.digest,
        run_id=parent,
        run_url=run_url(recorder.experiment_id, parent),
        candidate_run_ids=tried,
        detail_run_ids=looked_at,
        details_left_out=len(publication.details) - len(details),
    )


def _refuse_twins(candidates: Sequence[Candidate]) -> None:
    families = [candidate.family for candidate in candidates]
    if len(set(families)) != len(families):
        raise ValueError(f"two candidates of one family: {', '.join(families)}; put their jobs into one table")


@dataclass(frozen=True)
class _Recorder:
    """Writes the runs of one publication."""

    client: Any
    experiment_id: str
    publication: Publication
    tags: Mapping[str, str]

    @contextmanager
    def run(self, name: str, tags: Mapping[str, str]) -> Iterator[str]:
        """Open a run and end it as FINISHED, or as FAILED when the body raises."""
        start_ms = int(self.publication.started_at_s * 1000)
        run = self.client.create_run(self.experiment_id, start_time=start_ms, tags={**self.tags, **tags}, run_name=name)
        run_id: str = run.info.run_id
        try:
            yield run_id
        except BaseException:
            with suppress(Exception):  # the reason that is already on its way matters more
                self.client.set_terminated(run_id, "FAILED")
            raise
        self.client.set_terminated(run_id, "FINISHED")

    def log_parent(self, run_id: str, fleet: pd.DataFrame) -> None:
        """Log what the whole fleet came to."""
        self._log_values(run_id, aggregate(fleet), self.publication.parameters)
        self._log_dataset(run_id)
        self.client.log_table(run_id, fleet.drop(columns="state"), "fleet.json")
        self._log_pictures(run_id, self.publication.pictures)

    def log_candidate(self, parent: str, candidate: Candidate, fleet: pd.DataFrame) -> str:
        """Log one family over all jobs; return its run."""
        tags = {"mlflow.parentRunId": parent, "perdix.role": "candidate", "perdix.family": candidate.family}
        metrics = aggregate(candidate.per_job)
        if len(candidate.per_job):
            chosen = fleet.loc[fleet["family"] == candidate.family, "job"]
            metrics["chosen_share"] = float(candidate.per_job["job"].isin(chosen).mean())
        with self.run(candidate.family, tags) as run_id:
            self._log_values(run_id, metrics, {"family": candidate.family, **candidate.parameters})
            self._log_dataset(run_id)
            if len(candidate.per_job):
                self.client.log_table(run_id, candidate.per_job, "jobs.json")
            self._log_pictures(run_id, candidate.pictures)
        return run_id

    def log_detail(self, parent: str, detail: JobDetail) -> str:
        """Log one job under the family chosen for it; return its run."""
        tags = {
            "mlflow.parentRunId": parent,
            "perdix.role": "job",
            "perdix.family": detail.family,
            "perdix.job": detail.job,
        }
        with self.run(detail.job, tags) as run_id:
            self._log_values(run_id, detail.metrics, {"job": detail.job, "family": detail.family, **detail.parameters})
            self._log_pictures(run_id, detail.pictures)
        return run_id

    def _log_values(self, run_id: str, metrics: Mapping[str, float], parameters: Mapping[str, Parameter]) -> None:
        from mlflow.entities import Metric, Param  # noqa: PLC0415

        at_ms = int(self.publication.started_at_s * 1000)
        self.client.log_batch(
            run_id,
            metrics=[
                Metric(name, float(value), at_ms, 0)
                for name, value in metrics.items()
                if math.isfinite(value)  # a missing metric is an empty cell of the compare page; NaN would be drawn
            ],
            params=[Param(name, str(value)) for name, value in parameters.items()],
        )

    def _log_dataset(self, run_id: str) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag  # noqa: PLC0415

        data = self.publication.data
        schema = {"mlflow_colspec": [{"name": name, "type": kind} for name, kind in data.columns.items()]}
        dataset = Dataset(
            name=data.name,
            digest=data.digest[:_DATASET_DIGEST_LENGTH],
            source_type="local",
            source=json.dumps({"uri": data.location}),
            schema=json.dumps(schema) if data.columns else None,
            profile=json.dumps({"num_rows": data.rows}),
        )
        context = InputTag("mlflow.data.context", "training")
        self.client.log_inputs(run_id, datasets=[DatasetInput(dataset, [context])])

    def _log_pictures(self, run_id: str, pictures: Pictures) -> None:
        if not pictures:
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, picture in pictures.items():
                (Path(folder) / name).write_bytes(picture)
            self.client.log_artifacts(run_id, folder, "pictures")


def _provenance(publication: Publication) -> dict[str, str]:
    commit = git_commit(PROJECT)
    return {
        "perdix.role": "training",
        "perdix.version": installed("perdix"),
        "perdix.data_digest": publication.data.digest,
        "perdix.jobs": str(len(publication.fleet)),
        "mlflow.source.name": "perdix",
        **({"mlflow.source.git.commit": commit} if commit else {}),
        **publication.tags,
    }


def _parent_name(publication: Publication, fleet: pd.DataFrame) -> str:
    kind = publication.name.removeprefix("perdix-")
    return f"{kind} of {len(fleet)} job{'s' if len(fleet) > 1 else ''}"

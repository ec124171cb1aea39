"""How runs are written: one call per run and kind, each naming its run, so no active run and no global URI is touched.

Dagster steps, threads and tests do not see each other.
"""

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdix.models.registry.provenance import git_commit, installed
from perdix.models.registry.publication import Parameter, Pictures, TrainingData
from perdix.settings.home import PROJECT

_DATASET_DIGEST_LENGTH = 36  # MLflow's column is no longer
_SERIES_BATCH = 1_000  # metrics that one call may carry
_FOLDERS = {".png": "pictures", ".parquet": "series"}


def origin_tags(role: str, digest: str) -> dict[str, str]:
    """Return the tags that every run has: its role, the data behind it, and the code that made it."""
    commit = git_commit(PROJECT)
    return {
        "perdix.role": role,
        "perdix.version": installed("perdix"),
        "perdix.data_digest": digest,
        "mlflow.source.name": "perdix",
        **({"mlflow.source.git.commit": commit} if commit else {}),
    }


@dataclass(frozen=True)
class RunWriter:
    """Writes runs of one experiment that belong together."""

    client: Any  # an ``MlflowClient``
    experiment_id: str
    started_at_s: float  # epoch seconds at which the work behind the runs started
    tags: Mapping[str, str]  # of every run

    @contextmanager
    def run(self, name: str, tags: Mapping[str, str]) -> Iterator[str]:
        """Open a run and end it as FINISHED, or as FAILED when the body raises."""
        start_ms = int(self.started_at_s * 1000)
        run = self.client.create_run(self.experiment_id, start_time=start_ms, tags={**self.tags, **tags}, run_name=name)
        run_id: str = run.info.run_id
        try:
            yield run_id
        except BaseException:
            with suppress(Exception):  # the reason that is already on its way matters more
                self.client.set_terminated(run_id, "FAILED")
            raise
        self.client.set_terminated(run_id, "FINISHED")

    def log_values(self, run_id: str, metrics: Mapping[str, float], parameters: Mapping[str, Parameter]) -> None:
        """Log figures and settings in one call."""
        from mlflow.entities import Metric, Param  # noqa: PLC0415

        at_ms = int(self.started_at_s * 1000)
        self.client.log_batch(
            run_id,
            metrics=[
                Metric(name, float(value), at_ms, 0)
                for name, value in metrics.items()
                if math.isfinite(value)  # a missing metric is an empty cell of the compare page; NaN would be drawn
            ],
            params=[Param(name, str(value)) for name, value in parameters.items()],
        )

    def log_series(self, run_id: str, series: Mapping[str, Sequence[tuple[int, float]]]) -> None:
        """Log figures over time, as pairs of a step and a value."""
        from mlflow.entities import Metric  # noqa: PLC0415

        at_ms = int(self.started_at_s * 1000)
        metrics = [
            Metric(name, float(value), at_ms + step, step)
            for name, points in series.items()
            for step, value in points
            if math.isfinite(value)
        ]
        for first in range(0, len(metrics), _SERIES_BATCH):
            self.client.log_batch(run_id, metrics=metrics[first : first + _SERIES_BATCH])

    def log_dataset(self, run_id: str, data: TrainingData, context: str) -> None:
        """Log what the run read; ``context`` is ``training``, for example."""
        from mlflow.entities import Dataset, DatasetInput, InputTag  # noqa: PLC0415

        schema = {"mlflow_colspec": [{"name": name, "type": kind} for name, kind in data.columns.items()]}
        dataset = Dataset(
            name=data.name,
            digest=data.digest[:_DATASET_DIGEST_LENGTH],
            source_type="local",
            source=json.dumps({"uri": data.location}),
            schema=json.dumps(schema) if data.columns else None,
            profile=json.dumps({"num_rows": data.rows}),
        )
        tag = InputTag("mlflow.data.context", context)
        self.client.log_inputs(run_id, datasets=[DatasetInput(dataset, [tag])])

    def log_pictures(self, run_id: str, pictures: Pictures) -> None:
        """Log PNGs to the run's folder ``pictures``."""
        if not pictures:
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, picture in pictures.items():
                (Path(folder) / name).write_bytes(picture)
            self.client.log_artifacts(run_id, folder, "pictures")

    def log_files(self, run_id: str, files: Sequence[Path]) -> None:
        """Log files as they are, PNGs to the run's folder ``pictures`` and Parquet to ``series``."""
        for file in files:
            self.client.log_artifact(run_id, str(file), _FOLDERS.get(file.suffix))

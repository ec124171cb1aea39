"""Things compared on the same data, as MLflow shows them: a parent run, and a nested run for each, side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdix.models.registry.publication import Parameter, TrainingData
from perdix.models.registry.run_writer import RunWriter, origin_tags

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

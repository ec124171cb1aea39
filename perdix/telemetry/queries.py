"""What each engine calls the canonical metrics: PromQL for live pulls, and a map of raw exporter names for dumps.

Belongs here: reading ``conf/queries/<engine>.yaml`` and turning it into query text or a canonical name. Does not belong
here: asking Prometheus (``perdix.telemetry.prometheus``), or reading exports (``perdix.telemetry.exports``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field, field_validator, model_validator

from perdix.settings.home import conf_part
from perdix.settings.stream_job import LABEL_NAME
from perdix.settings.strict import Strict
from perdix.settings.yaml_files import SettingsError, known_names, load_model
from perdix.telemetry.metrics import CANONICAL, Scope
from perdix.telemetry.query_text import QueryText, Selector
from perdix.telemetry.series import Kind

CANONICAL_ENGINE: Final = "canonical"
PARTITIONS_OF_TOPICS: Final = (  # of Kafka, whatever engine reads it
    "max by (topic) (kafka_topic_partitions) or count by (topic) (count by (topic, partition) "
    '({__name__=~"(?i:kafka_log_log_(size|logendoffset))(_value)?"}))'
)


class UnanswerableError(ValueError):
    """No query of this metric can be asked with the labels of this selector."""


@dataclass(frozen=True)
class Mapped:
    """What a raw series is called here."""

    metric: str  # canonical name
    worker: str | None  # the worker, or ``None`` for a job-level metric (and where no label names a worker)
    kind: Kind  # ``counter`` values become rates on alignment
    # Raw values times ``scale`` have the canonical unit (Flink's uptime is in ms: 0.001). The reader multiplies
    scale: float = 1.0


def _known_metric(name: str) -> str:
    if name not in CANONICAL:
        raise ValueError(f"'{name}' is not a canonical metric; use one of {', '.join(CANONICAL)}")
    return name


def _compiled(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"'{pattern}' is not a regular expression: {error}") from None
    return pattern


class WorkerNaming(Strict):
    """Which label names the worker: the first of ``labels`` that a series has; ``pattern`` group 1 trims its value.

    ``lacks`` are labels of a job's selector that a worker's own series (its CPU) do not carry: ``$of_worker`` is the
    selector without them.
    """

    labels: Annotated[list[str], Field(min_length=1)]
    pattern: str = "(.+)"
    lacks: list[str] = Field(default_factory=list)

    @field_validator("labels")
    @classmethod
    def _label_names(cls, labels: list[str]) -> list[str]:
        for label in labels:
            if not LABEL_NAME.fullmatch(label):
                raise ValueError(f"'{label}' is not a Prometheus label name")
        return labels

    @field_validator("pattern")
    @classmethod
    def _has_group(cls, pattern: str) -> str:
        if re.compile(_compiled(pattern)).groups < 1:
            raise ValueError("needs one group in parentheses: what it holds is the worker's name")
        return pattern

    def worker(self, labels: Mapping[str, str]) -> str | None:
        """Return the worker that ``labels`` name, or ``None``."""
        value = next((labels[name] for name in self.labels if labels.get(name)), None)
        if value is None:
            return None
        match = re.fullmatch(self.pattern, value)
        return (match.group(1) if match else None) or value


class JobNaming(Strict):
    """How an engine's jobs are distinguished in a Prometheus that nobody has described yet."""

    series: Annotated[str, Field(min_length=3)]  # a selector of series that every running job of the engine has
    # A selector of series by one name, of which samples are counted, since counting drops names: ``series`` if left out
    counted: Annotated[str, Field(min_length=3)] | None = None
    # Labels that make up a job's selector; a job has those of them that its series have
    labels: Annotated[list[str], Field(min_length=1)]
    names: Annotated[list[str], Field(min_length=1)]  # of these, the one to name the job by: the first that it has
    # A label that each run of a job has for itself: jobs of one name that run at once differ in it; ``None``: none does
    run: str | None = None
    # A selector of series of which a job has one for each partition that it reads, distinguished by ``topic`` and
    # ``partition``; ``None``: no such series is known
    partitions: Annotated[str, Field(min_length=3)] | None = None
    # The query of how many partitions each topic has, by ``topic``: by kafka_exporter, or by the brokers' own logs
    # through the JMX exporter, unless a file says otherwise
    partitions_of_topics: Annotated[str, Field(min_length=3)] = PARTITIONS_OF_TOPICS

    @model_validator(mode="after")
    def _named_by_its_labels(self) -> JobNaming:
        if unknown := [name for name in self.names if name not in self.labels]:
            raise ValueError(f"'{unknown[0]}' is not among the labels {', '.join(self.labels)}")
        return self

    def of(self, labels: Mapping[str, str], names: Sequence[str] | None = None) -> dict[str, str]:
        """Return which of ``labels`` tell a job from others: the first of ``names`` that it has, and where it runs."""
        named = next((name for name in names or self.names if labels.get(name)), None)
        asked = [label for label in self.labels if label == named or label not in self.names]
        return {label: labels[label] for label in asked if labels.get(label)}

    def running(self) -> str:
        """Return the query of which jobs run: a series per job, with its labels."""
        return f"group by ({', '.join(self.labels)}) ({self.series})"

    def at_once(self) -> str | None:
        """Return the query of how many jobs of each name run; ``None`` where no label distinguishes them."""
        if self.run is None:
            return None
        labels = ", ".join(self.labels)
        return f"count by ({labels}) (group by ({labels}, {self.run}) ({self.series}))"

    def scraped(self, over: str) -> str:
        """Return the query of how many samples each job's series have in a PromQL duration."""
        return f"max by ({', '.join(self.labels)}) (count_over_time({self.counted or self.series}[{over}]))"

    def consumed_partitions(self) -> str | None:
        """Return the query of how many partitions each job reads of each topic; ``None`` where no series tells."""
        if self.partitions is None:
            return None
        labels = ", ".join([*self.labels, "topic"])
        return f"count by ({labels}) (count by ({labels}, partition) ({self.partitions}))"


class SeriesRule(Strict):
    """A raw series name (and conditions on its labels), as regular expressions that must match as a whole.

    ``only``: the labels by which a query may choose among its series; the others name no job (a broker's ``cluster`` is
    Kafka's). All when left out.
    """

    name: Annotated[str, AfterValidator(_compiled)]
    metric: Annotated[str, AfterValidator(_known_metric)]
    kind: Kind
    labels: dict[str, Annotated[str, AfterValidator(_compiled)]] = Field(default_factory=dict)
    scale: Annotated[float, Field(gt=0)] = 1.0
    only: list[str] | None = None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a raw series is meant. An absent label reads as empty, as in Prometheus."""
        return re.fullmatch(self.name, name) is not None and all(
            re.fullmatch(pattern, labels.get(label, "")) is not None for label, pattern in self.labels.items()
        )


class EngineQueries(Strict):
    """How one engine is read: ``conf/queries/<engine>.yaml``."""

    engine: str
    worker: WorkerNaming
    queries: dict[Annotated[str, AfterValidator(_known_metric)], Annotated[list[QueryText], Field(min_length=1)]]
    series: list[SeriesRule] = Field(default_factory=list)
    jobs: JobNaming | None = None

    def metrics(self, selector: Mapping[str, str]) -> tuple[str, ...]:
        """Return the canonical metrics that can be asked for with this selector."""
        return tuple(name for name, texts in self.queries.items() if any(text.answers(selector) for text in texts))

    def promql(self, metric: str, selector: Mapping[str, str], window_s: float) -> str:
        """Return the query for one canonical metric.

        Raises ``UnanswerableError`` when the engine has no query for this metric, or none that these labels can answer.

        ``metric``: canonical name.
        ``selector``: label -> value of the job; values are escaped, names are checked.
        ``window_s``: range of ``rate()``: see :func:`rate_window_s`.
        """
        text = self.text(metric, selector)
        return self.rendered(text, text.kept(selector), window_s)

    def text(self, metric: str, selector: Mapping[str, str]) -> QueryText:
        """Return the first question for a metric that these labels can answer; raises as :meth:`promql` does."""
        texts = self.queries.get(metric, [])
        for text in texts:
            if text.answers(selector):
                return text
        if not texts:
            raise UnanswerableError(f"{self.engine}: no query for {metric}; add one to conf/queries/{self.engine}.yaml")
        needs = " or ".join(", ".join(text.needs) for text in texts)
        raise UnanswerableError(f"{self.engine}: {metric} needs the label {needs} in the job's prometheus.selector")

    def for_each(self, label: str, metric: str, window_s: float) -> str | None:
        """Return the query of a metric for every value of a label; ``None`` where no question needs that label."""
        asked = next((text for text in self.queries.get(metric, []) if label in text.needs), None)
        return None if asked is None else asked.for_each(label, window_s)

    def for_each_of(self, label: str, metric: str, selector: Mapping[str, str], window_s: float) -> str:
        """Return the query of a job's metric for every value of one of its labels; raises as :meth:`promql` does."""
        text = self.text(metric, selector)
        rest = {name: value for name, value in text.kept(selector).items() if name != label}
        return text.for_each(label, window_s, rest, self.worker.labels, self.worker.lacks)

    def rendered(self, text: QueryText, kept: Selector, window_s: float) -> str:
        """Return a question of this engine as PromQL."""
        return text.render(kept, window_s, self.worker.labels, self.worker.lacks)

    def worker_of(self, metric: str, labels: Mapping[str, str]) -> str | None:
        """Return the worker that a result belongs to; ``None`` for a job-level metric."""
        return self.worker.worker(labels) if CANONICAL[metric].scope is Scope.WORKER else None


@dataclass(frozen=True)
class SeriesMap:
    """Raw exporter names of every engine, and the canonical names themselves."""

    engines: tuple[EngineQueries, ...]

    @cached_property
    def _by_name(self) -> dict[str, tuple[tuple[SeriesRule, EngineQueries], ...]]:
        return {}

    @cached_property
    def _any_worker(self) -> WorkerNaming:
        labels = ["worker", *(label for engine in self.engines for label in engine.worker.labels)]
        return WorkerNaming(labels=list(dict.fromkeys(labels)))

    def canonical(self, name: str, labels: Mapping[str, str]) -> Mapped | None:
        """Return what the series ``name{labels}`` is called here; ``None`` where it is not a canonical metric."""
        if metric := CANONICAL.get(name):
            worker = self._any_worker.worker(labels) if metric.scope is Scope.WORKER else None
            return Mapped(name, worker, "gauge")
        found = self._rule(name, labels)
        if found is None:
            return None
        rule, engine = found
        return Mapped(rule.metric, engine.worker_of(rule.metric, labels), rule.kind, rule.scale)

    def job_labels(self, name: str, labels: Mapping[str, str]) -> dict[str, str]:
        """Return those labels of a canonical series that tell its job (or topic) from others, and their values.

        Of a series that names no engine, only the first name of each engine counts: what else may name a job there
        (``job``, ``service``) comes with every scrape.
        """
        found = None if name in CANONICAL else self._rule(name, labels)
        if found is not None:
            rule, engine = found
            if rule.only is not None:
                return {label: labels[label] for label in rule.only if labels.get(label)}
            return {} if engine.jobs is None else engine.jobs.of(labels)
        namings = [engine.jobs for engine in self.engines if engine.jobs is not None]
        return {label: value for naming in namings for label, value in naming.of(labels, naming.names[:1]).items()}

    def _rule(self, name: str, labels: Mapping[str, str]) -> tuple[SeriesRule, EngineQueries] | None:
        rules = self._by_name.get(name)
        if rules is None:  # a dump repeats few names over many series: the name is matched once
            rules = tuple((r, e) for e in self.engines for r in e.series if re.fullmatch(r.name, name))
            self._by_name[name] = rules
        return next(((rule, engine) for rule, engine in rules if rule.matches(name, labels)), None)


def canonical_queries() -> EngineQueries:
    """Return the queries of a server whose series have the canonical names: the twin, or your own recording rules."""
    return EngineQueries(
        engine=CANONICAL_ENGINE,
        worker=WorkerNaming(labels=["worker"]),
        queries={name: [QueryText(promql=f"{name}{{$selector}}")] for name in CANONICAL},
    )


def queries_file(engine: str, folder: Path | None = None) -> Path:
    """Return where the queries of an engine are; ``folder`` as of :func:`load_queries`."""
    name = f"{engine}.yaml"
    return conf_part(f"queries/{name}") if folder is None else folder / name


def load_queries(engine: str, folder: Path | None = None) -> EngineQueries:
    """Read the queries of one engine.

    Raises ``SettingsError``, naming file, line and fix.

    ``engine``: ``flink``, ``kafka-streams``, ``spark-structured-streaming``, any other file of the folder, or
    ``canonical``.
    ``folder``: folder of ``<engine>.yaml``; when left out ``conf/queries``, and what comes with perdix for an engine
    that has no file there.
    """
    if engine == CANONICAL_ENGINE:
        return canonical_queries()
    path = queries_file(engine, folder)
    queries = load_model(path, EngineQueries, engine=engine)
    if queries.engine != engine:
        raise SettingsError(f"{path}: the engine is named '{queries.engine}'; rename the file or drop the key 'engine'")
    return queries


def load_series_map() -> SeriesMap:
    """Read the raw names of every engine of ``conf/queries``. Raises ``SettingsError``."""
    return SeriesMap(tuple(map(load_queries, known_names(conf_part("queries")))))

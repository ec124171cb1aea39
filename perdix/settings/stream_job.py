"""One stream job, as an operator describes it in ``conf/jobs/<job>.yaml``.

"Job" alone is Dagster's word; this is always a *stream job*.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, PrivateAttr, field_validator, model_validator

from perdix.settings.access import HttpAccess, ServerUrl
from perdix.settings.known_events import Calendar, KnownEvent
from perdix.settings.moments import LAST_YEAR
from perdix.settings.profiling import Profiling
from perdix.settings.strict import Strict
from perdix.settings.targets import AdvisorySettings, TargetSettings
from perdix.settings.yaml_files import SettingsError, load_model, place_in

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAMES = "use letters, digits, '.', '_' or '-' (at most 63, starting with a letter or digit)"
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")  # of Prometheus
GRACE_S = 120.0
ERROR_BUDGET = 0.05
MOST_WORKERS = 10_000  # of any job: what claims to be more is a fault, and is not reckoned with
Engine = Literal["flink", "kafka-streams", "spark-structured-streaming"]


class Bounds(Strict):
    """Smallest and largest scale-out that perdix may choose, in workers."""

    minimum: Annotated[int, Field(ge=1)] = 1
    maximum: Annotated[int, Field(ge=1, le=MOST_WORKERS)] = 12

    @model_validator(mode="after")
    def _ordered(self) -> Bounds:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}; swap or widen them")
        return self

    def clamp(self, scale_out: int) -> int:
        """Return ``scale_out`` moved into the bounds."""
        return min(max(scale_out, self.minimum), self.maximum)


class Objectives(Strict):
    """What must hold while the smallest scale-out is sought."""

    recovery_time_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    latency_p95_ms: Annotated[float, Field(gt=0)] = 5_000.0
    # Share of the seconds, 0 to 1, in which the p95 latency may be above its objective
    error_budget: Annotated[float, Field(ge=0, le=1)] = ERROR_BUDGET
    checkpoint_interval_s: Annotated[float, Field(gt=0)] = 10.0
    rescales_per_day: Annotated[int, Field(ge=0)] = 48
    # Share of its heap, 0 to 1, that a worker may be expected to use after a scale-in; ``None``: any
    memory_ratio: Annotated[float, Field(gt=0, le=1)] | None = 0.9


class WorkerSize(Strict):
    """What one worker is given, and costs: a job whose workers are not equal names several (QEScalor's resources r)."""

    # cpu_cores, memory_mb: limits of its container, cores and MB
    cpu_cores: Annotated[float, Field(gt=0)]
    memory_mb: Annotated[float, Field(gt=0)]
    price_per_h: Annotated[float, Field(ge=0)]  # of one such worker for one hour, in any currency


Size = TypeVar("Size", bound=WorkerSize)


def distinct(sizes: dict[str, Size]) -> dict[str, Size]:
    """Return sizes by name; raises ``ValueError`` where one cannot be called so, or two are the same."""
    for name in sizes:
        if not NAME.fullmatch(name):
            raise ValueError(f"size '{name}': use letters, digits, '.', '_' or '-' (at most 63)")
    given = [(size.cpu_cores, size.memory_mb) for size in sizes.values()]
    if len(set(given)) < len(given):
        raise ValueError("two sizes have the same cores and memory; leave one out")
    return sizes


class PrometheusSource(HttpAccess):
    """Where the job's metrics are read live."""

    url: ServerUrl
    selector: dict[str, str] = Field(default_factory=dict)
    scrape_interval_s: Annotated[float, Field(ge=0.1, le=300)] = 15.0

    @field_validator("selector")
    @classmethod
    def _label_names(cls, selector: dict[str, str]) -> dict[str, str]:
        for name in selector:  # jobs of one server share its queries: a name that cannot be would blind them all
            if not LABEL_NAME.fullmatch(name):
                there = re.sub(r"^(?=\d)", "_", re.sub(r"[^a-zA-Z0-9_]", "_", name))
                asks = f"; is it '{there}' in Prometheus?" if name else ""
                raise ValueError(f"'{name}' is no label name (letters, digits and '_'){asks}")
        return selector


class PolicySettings(Strict):
    """Which policy decides, and its own options. Only :mod:`perdix.policies.build` says what is known."""

    name: str = "perdix"
    options: dict[str, Any] = Field(default_factory=dict)


CheckPolicy = Callable[["StreamJob"], None]


class StreamJob(Strict):
    """A stream job: where its metrics are, what may be changed, and what must hold."""

    name: str
    engine: Engine = "flink"
    prometheus: PrometheusSource | None = None
    bounds: Bounds = Bounds()
    objectives: Objectives = Objectives()
    # Name -> size, of a job whose workers may differ; empty: all are equal
    sizes: Annotated[dict[str, WorkerSize], AfterValidator(distinct)] = Field(default_factory=dict)
    # Of the topic that limits the job's source: each worker reads whole ones. ``None``: not known, or no limit
    source_partitions: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    events: dict[str, KnownEvent] = Field(default_factory=dict)  # name -> what is known to change the load, and when
    policy: PolicySettings = PolicySettings()
    # Nothing rescales within this many seconds of another rescale, whatever the policy: metrics of a warm-up are not
    # those of the job. ``None``: as long as the job's own restarts ask for, ``GRACE_S`` at most. Policies may wait
    # longer by options of their own
    grace_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    target: TargetSettings = AdvisorySettings()
    mode: Literal["advise", "act"] = "advise"
    paused_until: datetime | None = None
    profiling: Profiling | None = None  # what profiling and sampling may do to the running job; ``None``: nothing
    _calendar: Calendar = PrivateAttr(default_factory=Calendar)

    @property
    def calendar(self) -> Calendar:
        """When its events start."""
        if self._calendar.events is not self.events:  # nor after a copy with others
            self._calendar = Calendar(self.events)
        return self._calendar

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(_NAMES)
        return name

    @field_validator("events")
    @classmethod
    def _events_named(cls, events: dict[str, KnownEvent]) -> dict[str, KnownEvent]:
        for name in events:
            if not NAME.fullmatch(name):
                raise ValueError(f"event '{name}': use letters, digits, '.', '_' or '-' (at most 63)")
        return events

    @field_validator("paused_until")
    @classmethod
    def _zoned(cls, until: datetime | None) -> datetime | None:
        if until is not None and until.tzinfo is None:
            raise ValueError("give a time zone, for example 2026-01-31T06:00:00Z")
        if until is not None and until.year > LAST_YEAR:
            raise ValueError(f"after the year {LAST_YEAR}; to change nothing for good, write mode: advise")
        return until


def load_stream_job(path: Path, check_policy: CheckPolicy | None = None) -> StreamJob:
    """Read one job file; the name defaults to the file's stem.

    Raises ``SettingsError``, naming file, line and fix.

    ``check_policy``: raises ``SettingsError`` for a policy that cannot be built, or not act on the job's target
    (:func:`perdix.policies.build.check_policy`).
    """
    if path.suffix != ".yaml":
        raise SettingsError(f"{path}: job files end in .yaml; rename it to {path.stem}.yaml")
    if not NAME.fullmatch(path.stem):
        raise SettingsError(f"{path}: '{path.stem}' cannot be a job's name: rename the file; {_NAMES}")
    job = load_model(path, StreamJob, name=path.stem)
    if job.name != path.stem:
        raise SettingsError(f"{path}: the job is named '{job.name}'; rename the file or drop the key 'name'")
    if check_policy is not None:
        try:
            check_policy(job)
        except SettingsError as error:
            place = place_in(path, "policy")
            raise SettingsError("\n".join(f"{place}: {line}" for line in str(error).splitlines())) from None
    return job

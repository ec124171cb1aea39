"""What a training hands to the registry, and what comes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from perdix.models.registry.fleet_table import Fleet

FORECAST = "perdix-forecast"
CAPACITY = "perdix-capacity"
LATENCY = "perdix-latency"
PERFORMANCE = "perdix-performance"
DIGEST_TAG = "perdix.fleet_sha256"  # of a registered version
FLEET_MODELS = (FORECAST, CAPACITY, LATENCY, PERFORMANCE)

Pictures = Mapping[str, bytes]
Parameter = str | int | float | bool


@dataclass(frozen=True)
class TrainingData:
    """The data that a training read."""

    name: str  # short name, for example ``workload_features``
    location: str  # path or URI of the table
    # SHA-256 (or another digest) of what was read; MLflow shows its first 36 characters, a tag carries all of it
    digest: str
    rows: int  # rows that were read
    columns: Mapping[str, str] = field(default_factory=dict)  # column -> type, in words


@dataclass(frozen=True)
class Candidate:
    """One family as it was tried on every job: one nested run."""

    family: str  # for example ``auto-arima``
    # One row per job: column ``job``, float metrics (``wape``, ``fit_s``: the unit is in the name), booleans
    # (``beats_naive``) whose share is logged, and text that only the table shows, but for ``error``, whose count is
    # logged. Name metrics alike in all candidates: the compare page puts one name into one row
    per_job: pd.DataFrame
    # Short settings of the family, shown as columns of the compare page
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    pictures: Pictures = field(default_factory=dict)  # file name (``.png``) -> PNG bytes


@dataclass(frozen=True)
class JobDetail:
    """One job under the family chosen for it: a nested run with pictures, for small fleets or on request."""

    job: str
    family: str
    metrics: Mapping[str, float]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    pictures: Pictures = field(default_factory=dict)


@dataclass(frozen=True)
class Publication:
    """A training to be recorded, and the fleet that it proposes."""

    name: str  # registered model, one of :data:`FLEET_MODELS`
    # One row per job, and the models that they share; see :func:`perdix.models.registry.merge_rows` for a retrain of
    # some jobs
    fleet: Fleet
    candidates: Sequence[Candidate]  # every family that was tried
    data: TrainingData  # what was trained on
    started_at_s: float  # epoch seconds at which the training started
    details: Sequence[JobDetail] = ()  # per-job runs; beyond ``publishing.DETAIL_LIMIT`` jobs they are left out
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    # For example ``{"dagster.run_id": ...}``; the commit and perdix' version are added
    tags: Mapping[str, str] = field(default_factory=dict)
    pictures: Pictures = field(default_factory=dict)


@dataclass(frozen=True)
class FleetVersion:
    """A registered version: its number, the SHA-256 of its fleet table, and the training run behind it."""

    name: str
    version: int
    digest: str
    run_id: str


@dataclass(frozen=True)
class Published:
    """A version just registered, its alias being ``challenger``."""

    version: int
    run_id: str
    run_url: str

"""The one place that speaks MLflow: runs of a training or a comparison, versions of a fleet model, and who is champion.

Belongs here: what is written to and read from MLflow, the fleet table that a version carries, and how rows of two
versions merge. Does not belong here: fitting, backtesting, the verdict of the gate, and the loop's cache.

Importing this package imports no MLflow (about 5 s): that happens at the first call that needs it.
"""

from perdix.models.registry.errors import (
    FleetCorrupt,
    NoDatabase,
    NotRegistered,
    RegistryError,
    RegistryUnavailable,
    StoreAway,
    TableGone,
)
from perdix.models.registry.fleet_table import Fleet, merge_rows, read_fleet
from perdix.models.registry.publication import (
    CAPACITY,
    FLEET_MODELS,
    FORECAST,
    LATENCY,
    PERFORMANCE,
    Candidate,
    FleetVersion,
    JobDetail,
    Publication,
    Published,
    TrainingData,
)
from perdix.models.registry.publishing import Compared, Comparison, Recorded
from perdix.models.registry.store import Registry, gate_locked, prepare

__all__ = [
    "CAPACITY", "FLEET_MODELS", "FORECAST", "LATENCY", "PERFORMANCE", "Candidate", "Compared", "Comparison", "Fleet",
    "FleetCorrupt", "FleetVersion", "JobDetail", "NoDatabase", "NotRegistered", "Publication", "Published", "Recorded",
    "Registry", "RegistryError", "RegistryUnavailable", "StoreAway", "TableGone", "TrainingData", "gate_locked",
    "merge_rows", "prepare", "read_fleet",
]  # fmt: skip

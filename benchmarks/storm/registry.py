"""The simulated MLflow: fleet tables of which another is champion every twenty minutes, and a server that may fail."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson
import pandas as pd

from benchmarks.storm.climate import START_S, STEP_S, WARM_S, Load
from benchmarks.storm.faults import STATES, Fault
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.forecaster import fitted
from perdix.models.registry import FORECAST, FleetCorrupt, FleetVersion, RegistryUnavailable, TableGone
from perdix.models.registry.fleet_table import VERSION, Fleet, write_fleet

FAMILIES = ("last-value", "linear", "damped-trend")  # of versions 1, 2 and 3
TURN_MIN = 20  # for which one is champion
BROKEN = 90  # first version of those whose rows nobody can use
HANGS_S = 20.0  # until MLflow's client gives up: twice 10 s


Tables = Mapping[int, tuple[bytes, str]]  # version -> Parquet and its SHA-256


@cache
def tables(loads: tuple[tuple[str, Load], ...]) -> Tables:
    """Return a fleet table per family, of which all but the first carries the last job's row over; then broken ones.

    ``loads``: each job's name and load.
    """
    made, first, jobs = {}, "", [job for job, _ in loads]
    for version, family in enumerate(FAMILIES, 1):
        rows = [orjson.dumps(fitted(family, _seen(load)).to_state()).decode() for _, load in loads]
        first = first or rows[-1]
        made[version] = _written(jobs, [*rows[:-1], first], family, [version] * (len(jobs) - 1) + [1])
    for number, state in enumerate(STATES.values(), BROKEN):
        made[number] = _written(jobs, [state] * len(jobs), "broken", [number] * len(jobs))
    return made


def champion_at(minute: float) -> int:
    """Return the version that is champion at a minute of an episode."""
    return min(1 + int(minute // TURN_MIN), len(FAMILIES))


@dataclass(frozen=True)
class Registry:
    """MLflow as one controller asks it.

    ``active`` finds a fault that goes on now, ``minute`` is now; ``passes`` lets time pass, and ``boundary`` is where
    the process may die.
    """

    tables: Callable[[], Tables]
    active: Callable[[str], Fault | None]
    minute: Callable[[], float]
    passes: Callable[[float], None]
    boundary: Callable[[], None]

    def current_version(self, name: str, alias: str = "champion") -> FleetVersion | None:
        """Return the version that is champion now, or what a fault makes of it."""
        self._reached(f"{name}@{alias}")
        lie = self.active("registry lies")
        if name != FORECAST or (lie is not None and lie.what == "no alias"):
            return None
        version = champion_at(self.minute())
        if lie is not None and lie.what == "first again":
            version = 1
        if lie is not None and lie.what in STATES:
            version = BROKEN + list(STATES).index(lie.what)
        return FleetVersion(name, version, self.tables()[version][1], "storm")

    def download(self, name: str, version: int, to: Path) -> Path:
        """Write a table to a file, which appears whole or not at all."""
        self._reached(f"{name} version {version}")
        lie = self.active("registry lies")
        if lie is not None and lie.what == "table gone":
            raise TableGone(f"{name} version {version}: its table is gone")
        if lie is not None and lie.what == "damaged":
            raise FleetCorrupt(f"{name} version {version}: not what was published")
        to.parent.mkdir(parents=True, exist_ok=True)
        part = to.with_name(".fetched")
        part.write_bytes(self.tables()[version][0])
        return part.replace(to)

    def _reached(self, what: str) -> None:
        self.boundary()
        if self.active("registry gone") is not None:
            raise RegistryUnavailable(f"MLflow cannot be reached ({what})")
        if self.active("registry hangs") is not None:
            self.passes(HANGS_S)
            raise RegistryUnavailable(f"MLflow does not answer ({what})")
        slow = self.active("registry slow")
        if slow is not None:
            self.passes(slow.amount)


def _seen(load: Load) -> Workload:
    per_s = load.arrivals()(START_S - WARM_S, WARM_S).reshape(-1, STEP_S).mean(axis=1)
    return Workload(START_S - WARM_S, STEP_S, per_s)


def _written(jobs: Sequence[str], states: Sequence[str], family: str, versions: Sequence[int]) -> tuple[bytes, str]:
    table = pd.DataFrame({"job": jobs, "family": family, "state": states})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.parquet"
        digest = write_fleet(Fleet(table.assign(**{VERSION: pd.Series(versions, dtype="Int64")})), path)
        return path.read_bytes(), digest

"""The champions that the loop believes: looked up by alias, fetched once per version, kept on disk, read from memory.

Belongs here: which fleet table is good, and what is said when the newest cannot be had. Does not belong here: MLflow
(:mod:`perdix.models.registry`), and what the rows mean (:mod:`perdix.control.believe`).
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import orjson

from perdix.models.registry import (
    FLEET_MODELS,
    FleetCorrupt,
    FleetVersion,
    NoDatabase,
    RegistryError,
    RegistryUnavailable,
    StoreAway,
)
from perdix.models.registry.fleet_table import VERSION, Fleet, is_whole, read_fleet
from perdix.settings.home import GOOD_CHAMPION
from perdix.telemetry.partitions import digest_of

TABLES_KEPT = 10  # of each model, the newest: a training that runs may still read the one that was champion before
NO_CHAMPION = "no champion: fallback"
RETRY_S = 60.0
RETRY_LIMIT_S = 900.0


class ChampionRegistry(Protocol):
    """The part of :class:`perdix.models.registry.Registry` that the loop needs."""

    def current_version(self, name: str, alias: str = "champion") -> FleetVersion | None:
        """Return the version that holds the alias."""

    def download(self, name: str, version: int, to: Path) -> Path:
        """Fetch a version's fleet table to a file."""


@dataclass(frozen=True)
class ChampionRow:
    """One job's champion."""

    family: str
    state: str  # JSON text; it may refer to shared models of its fleet by name
    # In which the row was trained: a fleet's newer version that carries it over is no reason to take it in anew
    version: int

    @cached_property
    def digest(self) -> str:
        """A digest of the state: 16 hexadecimal digits. Rows of two registries may have the same version."""
        return hashlib.blake2b(self.state.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class FleetChampions:
    """One fleet table as it is believed now: ``version`` 0 and no rows when there is none.

    ``known`` is False while neither MLflow nor the cache has ever answered: then nothing is said about any job.
    ``shared`` holds the states of models that rows refer to by name, read once for all of them.
    ``digest`` is the SHA-256 of the table's file, empty where there is none: another registry has the same versions.
    """

    name: str
    version: int = 0
    rows: Mapping[str, ChampionRow] = field(default_factory=dict)
    known: bool = True
    shared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    digest: str = ""


class ChampionSource(Protocol):
    """Where a tick finds champions."""

    def fleet(self, name: str) -> FleetChampions:
        """Return the fleet table that is believed now."""

    def refresh(self, now_s: float) -> tuple[str, ...]:
        """Look for new champions; return what went wrong, in words."""


@dataclass(frozen=True)
class GivenChampions:
    """Champions that somebody has at hand: for replays, which need no registry. A :class:`ChampionSource`."""

    fleets: Mapping[str, FleetChampions] = field(default_factory=dict)

    def fleet(self, name: str) -> FleetChampions:
        """Return the table that was given, else an empty one."""
        return self.fleets.get(name, FleetChampions(name))

    def refresh(self, now_s: float) -> tuple[str, ...]:  # noqa: ARG002 -- nothing can change or fail
        """Return nothing: there is nowhere to look."""
        return ()


@dataclass
class _Retry:
    failures: int = 0
    not_before_s: float = float("-inf")

    def failed(self, now_s: float) -> None:
        self.failures += 1
        self.not_before_s = now_s + min(RETRY_S * 2.0 ** min(self.failures - 1, 8), RETRY_LIMIT_S)


class Champions:
    """Champions of every fleet model, behind a cache folder that outlives MLflow and the process.

    ``folder``: ``Home.champions``; tables lie at ``<name>/<version>.parquet``, the newest ten of them, and the last
    good one is named in ``<name>/good.json`` with its SHA-256.
    ``registry``: ``None`` when there is no MLflow at all: only the cache is used.
    """

    def __init__(self, folder: Path, registry: ChampionRegistry | None) -> None:
        self._folder = folder
        self._registry = registry
        self._fleets: dict[str, FleetChampions] = {}
        self._retries: dict[str, _Retry] = {}
        self._faults: dict[str, tuple[str, str]] = {}  # model -> what went wrong, and what is used all the same

    def fleet(self, name: str) -> FleetChampions:
        """Return the fleet table that is believed now; from the cache alone before the first :meth:`refresh`."""
        if name not in self._fleets:
            self._fleets[name] = self._last_good(name) or FleetChampions(name, known=False)
        return self._fleets[name]

    def fault(self, name: str) -> str:
        """Return why the newest fleet table of a model cannot be had, in words; empty when it can."""
        why, kept = self._faults.get(name, ("", ""))
        return f"{name}: {why}; {kept}" if why else ""

    def refresh(self, now_s: float) -> tuple[str, ...]:
        """Look up each alias and fetch what is new, once per fleet tick; return what went wrong, in words, each once.

        While MLflow fails, it is asked again after 1, 2, 4 ... 15 minutes only, and where it cannot be reached for one
        model, for no other: its time-outs cannot eat every tick, nor a whole one. The last good version stays in use,
        and the note stays until it is fixed.
        """
        away: RegistryUnavailable | None = None
        for name in FLEET_MODELS:
            believed = self.fleet(name)
            retry = self._retries.setdefault(name, _Retry())
            waits_s = retry.not_before_s - now_s  # more than the limit: the clock was ahead when it failed
            if self._registry is None or 0.0 < waits_s <= RETRY_LIMIT_S:
                continue
            try:
                if away is not None:
                    raise away
                self._fleets[name] = self._newest(self._registry, name, believed)
            except (RegistryError, OSError) as error:
                if isinstance(error, RegistryUnavailable) and not isinstance(error, StoreAway):
                    away = error
                retry.failed(now_s)
                kept = f"version {believed.version} stays in use" if believed.version else NO_CHAMPION
                self._faults[name] = str(error), kept
            else:
                self._retries[name] = _Retry()
                self._faults.pop(name, None)
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        alike: dict[str, dict[str, str]] = {}
        for name, (why, kept) in self._faults.items():
            alike.setdefault(why, {})[name] = kept
        for why, models in alike.items():
            of_each = ", ".join(f"{name}: {kept}" for name, kept in models.items())
            yield f"{why} ({of_each})" if len(models) > 1 else self.fault(next(iter(models)))

    def _newest(self, registry: ChampionRegistry, name: str, believed: FleetChampions) -> FleetChampions:
        good = self._folder / name / GOOD_CHAMPION
        try:
            current = registry.current_version(name)
        except NoDatabase:
            if believed.version or good.exists():  # a damaged one was trained, too
                raise
            current = None  # no training has made it yet
        if current is None:
            # An alias that was taken away is an operator's word: nothing is champion.
            good.unlink(missing_ok=True)
            return FleetChampions(name)
        if (current.version, current.digest) == (believed.version, believed.digest):
            return believed
        path = self._path(name, current.version)
        if not is_whole(path, current.digest):
            registry.download(name, current.version, path)
        fleet = _read(name, current.version, path, current.digest)
        write_whole(good, orjson.dumps({"version": current.version, "sha256": current.digest}))
        self._remove_old(name, {current.version, believed.version})
        return fleet

    def _remove_old(self, name: str, used: set[int]) -> None:
        """Remove the tables that nobody uses: each training that promotes adds one of the whole fleet."""
        known = sorted(int(path.stem) for path in (self._folder / name).glob("*.parquet") if path.stem.isdigit())
        for version in set(known[:-TABLES_KEPT]) - used:
            self._path(name, version).unlink(missing_ok=True)

    def _last_good(self, name: str) -> FleetChampions | None:
        file = self._folder / name / GOOD_CHAMPION
        try:
            good = orjson.loads(file.read_bytes())
            version, digest = int(good["version"]), str(good["sha256"])
            return _read(name, version, self._path(name, version), digest)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RegistryError) as error:
            self._faults[name] = f"the cached champion cannot be used: {error}", NO_CHAMPION
            return None

    def _path(self, name: str, version: int) -> Path:
        return self._folder / name / f"{version}.parquet"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _read(name: str, version: int, path: Path, digest: str) -> FleetChampions:
    if digest_of(path) != digest:
        raise FleetCorrupt(f"{path}: not the table that was published (SHA-256 differs); it is fetched again")
    fleet = read_fleet(path, version)
    try:
        shared = {name: orjson.loads(text) for name, text in fleet.shared.items()}
    except orjson.JSONDecodeError as error:
        raise FleetCorrupt(f"{path}: a shared model is not JSON: {error}") from error
    return FleetChampions(name, version, dict(_rows(fleet)), shared=shared, digest=digest)


def _rows(fleet: Fleet) -> Iterator[tuple[str, ChampionRow]]:
    jobs = fleet.jobs
    for job, family, state, version in zip(jobs["job"], jobs["family"], jobs["state"], jobs[VERSION], strict=True):
        yield str(job), ChampionRow(str(family), str(state), int(version))

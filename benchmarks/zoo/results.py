"""The file of results: a line of JSON per job and policy, so that a run that was broken off goes on where it was."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from perdix.replay.document import versions
from perdix.settings.home import PROJECT

SHAPING = ("settings", "telemetry", "models", "policies", "targets", "twin", "control", "profiling", "replay")
OF_THE_ZOO = (  # not how it is shown
    *("zoo/workloads", "zoo/traces", "zoo/jobs", "zoo/properties", "zoo/contenders", "zoo/coverage", "zoo/playing"),
    "frontier_plan",
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """What makes a result: another version of the code, or of the real traces, may come to another one."""

    seed: int
    job: int
    hours: float
    policy: str
    version: str
    regime: str | None

    def row(self) -> Row:
        """Return it as the first columns of a row."""
        return asdict(self)

    @classmethod
    def of(cls, row: Row) -> Key:
        """Return the key of a row. Raises ``KeyError`` when it has none."""
        return cls(row["seed"], row["job"], float(row["hours"]), row["policy"], row["version"], row["regime"])


@dataclass(frozen=True)
class Results:
    """The file of results; several processes may append to it."""

    path: Path

    def read(self) -> dict[Key, Row]:
        """Return every row; the newest where there are several. A line that was not written to its end is left out."""
        found = {}
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                try:
                    row = orjson.loads(line)
                    found[Key.of(row)] = row
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    continue
        return found

    def append(self, row: Row) -> None:
        """Append a row. What a process left unfinished when it was killed stays a line of its own."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, 2)
            torn = b""
            if size:
                file.seek(size - 1)
                torn = b"" if file.read(1) == b"\n" else b"\n"
            file.write(torn + orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


@cache
def code_version() -> str:
    """Return 12 hex digits of all that decides what a replay comes to: perdix' code, and the libraries' versions."""
    found = hashlib.sha256(repr(versions()).encode())
    for path in sorted(_sources()):
        found.update(str(path.relative_to(PROJECT)).encode() + path.read_bytes())
    return found.hexdigest()[:12]


def _sources() -> Iterable[Path]:
    for floor in SHAPING:
        yield from (PROJECT / "perdix" / floor).rglob("*.py")
    for name in OF_THE_ZOO:
        yield PROJECT / "benchmarks" / f"{name}.py"
    yield from (PROJECT / "conf/regimes").glob("*.yaml")

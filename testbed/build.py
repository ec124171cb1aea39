"""Builds with Maven what is missing or older than its sources."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perdix.cli.output import UserError
from testbed.layout import SOURCES

STAMP = ".built-from"
FLINK = SOURCES / "distribution" / "target" / "flink"
KAFKA = SOURCES / "distribution" / "target" / "kafka"
JMX = SOURCES / "distribution" / "target" / "jmx"
WORDCOUNT_JAR = SOURCES / "wordcount" / "target" / "wordcount.jar"
AUTOSCALER_JAR = SOURCES / "autoscaler" / "target" / "autoscaler.jar"


@dataclass(frozen=True)
class Module:
    """A Maven module and what it makes."""

    folder: Path  # where its ``pom.xml`` is; what it makes is below ``target``
    makes: tuple[Path, ...]  # folders or files that are there after a build

    @property
    def stamp(self) -> Path:
        """Holds the digest of the sources that the last build was made from."""
        return self.folder / "target" / STAMP


DISTRIBUTION = Module(SOURCES / "distribution", (FLINK, KAFKA, JMX))
WORDCOUNT = Module(SOURCES / "wordcount", (WORDCOUNT_JAR,))
AUTOSCALER = Module(SOURCES / "autoscaler", (AUTOSCALER_JAR,))


def digest(module: Module) -> str:
    """Return a digest of everything that a build of ``module`` depends on."""
    found = hashlib.sha256()
    for path in [module.folder.parent / "pom.xml", *sorted(_sources(module.folder))]:
        found.update(str(path.relative_to(module.folder.parent)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def stale(modules: Iterable[Module]) -> list[Module]:
    """Return the modules that must be built."""
    return [module for module in modules if not _is_built(module)]


def build(module: Module, log: Path) -> None:
    """Build one module; two at a time wait for each other.

    Raises ``UserError``, with the end of Maven's output, also kept in ``log``.
    """
    target = module.folder / "target"
    target.mkdir(exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_built(module):
            return
        for made in module.makes:  # or jars of another version would stay beside the new ones
            if made.is_dir():
                shutil.rmtree(made)
        sources = digest(module)
        command = ["mvn", "-q", "-B", "-f", str(module.folder / "pom.xml"), "-DskipTests", "package"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        absent = [str(made) for made in module.makes if not made.exists()]
        if done.returncode or absent:
            end = "\n".join((done.stdout + done.stderr).splitlines()[-15:]) or f"it did not make {', '.join(absent)}"
            raise UserError(f"`{' '.join(command)}` failed; is Maven Central within reach? (all of it: {log})\n{end}")
        module.stamp.write_text(sources, encoding="utf-8")


def _is_built(module: Module) -> bool:
    try:
        built_from = module.stamp.read_text(encoding="utf-8")
    except OSError:
        return False
    return all(made.exists() for made in module.makes) and built_from == digest(module)


def _sources(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and "target" not in path.relative_to(folder).parts)

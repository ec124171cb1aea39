"""What must be on the machine: named all at once, with the Debian package that brings it."""

from __future__ import annotations

import re
import shutil
import subprocess

from perdix.cli.output import UserError

OLDEST_JAVA = 17
PACKAGES = {
    "javac": "openjdk-17-jdk-headless (or default-jdk-headless)",
    "mvn": "maven",
    "prometheus": "prometheus",
}


class MissingError(UserError):
    """Something that must be installed first."""


def missing() -> list[str]:
    """Return what is missing, a sentence each; empty when the testbed can run."""
    found = [
        f"{name} is not on the PATH: Debian package {PACKAGES[name]}" for name in PACKAGES if not shutil.which(name)
    ]
    java = shutil.which("java")
    if java and (version := java_version(_answer(java, "-version"))) is not None and version < OLDEST_JAVA:
        found.append(f"java is version {version}, {OLDEST_JAVA} is needed: Debian package {PACKAGES['javac']}")
    return found


def require() -> None:
    """Raise :class:`MissingError`, naming everything that is missing."""
    found = missing()
    if found:
        raise MissingError("the testbed needs more than this machine has:\n  " + "\n  ".join(found))


def java_version(answer: str) -> int | None:
    """Return the major version in what ``java -version`` says; None where there is none."""
    said = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(said.group(1)) if said else None


def _answer(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr

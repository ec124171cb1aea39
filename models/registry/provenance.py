"""Where a training came from: the commit of the code and the version of perdix and of what it was made with."""

import shutil
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path


def git_commit(folder: Path) -> str | None:
    """Return the commit checked out at ``folder``, ``None`` without git or where it is no checkout's top."""
    git = shutil.which("git")
    if git is None or not (folder / ".git").exists():  # a wheel may lie within the checkout of something else
        return None
    try:
        answer = subprocess.run(  # noqa: S603  a fixed command
            [git, "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def installed(package: str) -> str:
    """Return the installed version of a package, ``unknown`` when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return package -> its version, of those that are installed."""
    return {package: found for package in packages if (found := installed(package)) != "unknown"}


def pins(packages: Iterable[str]) -> list[str]:
    """Return ``package==version`` of what is installed, so that MLflow does not spend seconds on guessing them."""
    return [f"{package}=={version}" for package, version in versions_of(packages).items()]

"""A wheel of this checkout, built and installed into an environment that sees the libraries of this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from perdix.settings.home import PROJECT

SOURCES = ("perdix", "models", "assets", "pipelines", "conf", "docs")
FILES = ("pyproject.toml", "README.md", "LICENSE", "workspace.yaml")
# They would lead to the checkout, or out of the folder that a test works in.
OTHERS = ("PYTHONPATH", "PERDIX_CONF", "PERDIX_HOME", "PERDIX_STATE_URL", "MLFLOW_TRACKING_URI", "DAGSTER_HOME")


@dataclass(frozen=True)
class InstalledWheel:
    """The wheel and the environment that it was installed into.

    Attributes
    ----------
    sources
        The copy of the checkout that it was built from.
    """

    sources: Path
    wheel: Path
    environment: Path

    @property
    def program(self) -> Path:
        """The ``perdix`` command."""
        return self.environment / "bin" / "perdix"

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.environment / "bin" / "python"

    @property
    def package(self) -> Path:
        """The folder ``perdix`` in site-packages."""
        return next(self.environment.glob("lib/python*/site-packages/perdix"))

    def perdix(self, *words: str, folder: Path, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run ``perdix`` in a folder."""
        return subprocess.run(
            [self.program, *words], cwd=folder, env=self.variables(), capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip

    def variables(self) -> dict[str, str]:
        """Return environment variables that lead to no other perdix, with this one first on the path."""
        kept = {name: value for name, value in os.environ.items() if name not in OTHERS}
        return {**kept, "PATH": f"{self.environment / 'bin'}:{kept.get('PATH', '')}"}


def install_wheel(folder: Path, operators_job: str = "orders") -> InstalledWheel:
    """Build the wheel from a copy of the checkout that holds a job file of its operator, and install it."""
    sources = _copied(folder / "sources")
    (sources / "conf" / "jobs" / f"{operators_job}.yaml").write_text("mode: advise\n")
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder / "wheel"), str(sources))
    wheel = next((folder / "wheel").glob("*.whl"))
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    # Folders that a .pth file names are searched, but no .pth file in them is read: the checkout is not found.
    libraries = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    site_packages = next(environment.glob("lib/python*/site-packages"))
    (site_packages / "libraries.pth").write_text("\n".join(libraries) + "\n")
    _pip(
        "--python",
        str(environment / "bin" / "python"),
        "install",
        "--ignore-installed",
        "--no-deps",
        "--no-index",
        str(wheel),
    )
    return InstalledWheel(sources, wheel, environment)


def _copied(sources: Path) -> Path:
    sources.mkdir(parents=True)
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / name, sources / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(PROJECT / name, sources)
    return sources


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"pip {words}: {done.stderr[-3000:]}"

"""The folders under ``PERDIX_HOME``: one place that knows where state lives.

A variable of the environment that is empty counts as one that is not set, as templates of deployments leave it, and
spaces and line ends around a value do not count, as secrets often end in one.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perdix.settings.plain_error import SettingsError

HOME_VARIABLE = "PERDIX_HOME"
CONF_VARIABLE = "PERDIX_CONF"
STATE_VARIABLE = "PERDIX_STATE_URL"
PACKAGE = Path(__file__).resolve().parents[1]  # holds what comes with perdix: conf/, docs/ and workspace.yaml
SHIPPED = (PACKAGE / "conf").resolve()
DOCS = (PACKAGE / "docs").resolve()  # the pages that messages name
_IN_MEMORY = re.compile(
    r"sqlite(\+\w+)?:(//)?/?(\?.*|(file:)?:memory:.*|.*\?(.*&)?mode=memory\b.*)?"
)  # what SQLite keeps in no file
GOOD_CHAMPION = "good.json"  # names the champion that the loop has in use
PROJECT = PACKAGE.parent  # the checkout; where perdix came as a wheel, the folder that it was installed into


def value_of(variable: str) -> str:
    """Return what a variable of the environment says; nothing where it is not set."""
    return os.environ.get(variable, "").strip()


def _folder_of(variable: str, usual: str | Path) -> Path:
    path = Path(value_of(variable) or usual)
    try:
        folder = path.expanduser().resolve()
        folder.exists()  # a name may be too long to be asked for
    except (OSError, RuntimeError) as error:  # RuntimeError: no such user, or links in a circle
        cause = (getattr(error, "strerror", None) or str(error)).rstrip(".")
        raise SettingsError(f"{variable} {path}: {cause}; name another folder") from error
    return folder


@dataclass(frozen=True)
class Home:
    """Layout of one perdix home (default ``.perdix`` in the working folder)."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home named by ``PERDIX_HOME``, else ``.perdix`` in the working folder."""
        return cls(_folder_of(HOME_VARIABLE, ".perdix"))

    @property
    def landing(self) -> Path:
        """Exports as they came, ``landing/<job>/<file>``."""
        return self.root / "landing"

    @property
    def lake(self) -> Path:
        """Parquet tables, written by :mod:`perdix.telemetry.lake` only."""
        return self.root / "lake"

    @property
    def state_url(self) -> str:
        """SQLAlchemy URL of the control loop's state; ``PERDIX_STATE_URL`` overrides it (PostgreSQL in production).

        Raises ``SettingsError`` where it would be kept in memory: pauses and decisions would end with each process.
        """
        named = value_of(STATE_VARIABLE)
        if _IN_MEMORY.fullmatch(named):
            raise SettingsError(
                f"{STATE_VARIABLE}: it names a SQLite in memory, which ends with each process; "
                "name a file, sqlite:////absolute/file, or leave the variable out"
            )
        return named or f"sqlite:///{self.own_state}"

    @property
    def own_state(self) -> Path:
        """SQLite file of the control loop's state where ``PERDIX_STATE_URL`` names no other store."""
        return self.root / "state.db"

    @property
    def state_is_elsewhere(self) -> bool:
        """Whether ``PERDIX_STATE_URL`` names the store, which other homes may share."""
        return bool(value_of(STATE_VARIABLE))

    @property
    def mlflow_url(self) -> str:
        """MLflow tracking and registry URI; ``MLFLOW_TRACKING_URI`` overrides it."""
        return value_of("MLFLOW_TRACKING_URI") or f"sqlite:///{self.root / 'mlflow.db'}"

    @property
    def mlflow_artifacts(self) -> Path:
        """Local artifact root of the embedded MLflow."""
        return self.root / "mlartifacts"

    @property
    def champions(self) -> Path:
        """The loop's local cache of champions: one folder per family and version."""
        return self.root / "champions"

    @property
    def has_champions(self) -> bool:
        """Whether the loop has champions in use: then their registry was made before, and must not be made anew."""
        return any(self.champions.glob(f"*/{GOOD_CHAMPION}"))

    @property
    def dagster(self) -> Path:
        """``DAGSTER_HOME`` of the embedded instance."""
        return self.root / "dagster"

    @property
    def jobs(self) -> Path:
        """Stream-job files that perdix wrote itself (demo, dev), beside the operator's ``conf/jobs``."""
        return self.root / "jobs"

    @property
    def trainings(self) -> Path:
        """The newest training of each job as JSON, ``trainings/<model>/<job>.json``."""
        return self.root / "trainings"

    @property
    def profiles(self) -> Path:
        """What profiling measured, ``profiles/<job>/<digest>.parquet``."""
        return self.root / "profiles"

    @property
    def operator_samples(self) -> Path:
        """What sampling found of an operator's sizes, ``operator_samples/<operator>/<digest>.parquet``."""
        return self.root / "operator_samples"

    @property
    def validations(self) -> Path:
        """Full results of validations as JSON, ``validations/<table>/<day>.json``; one job alone in ``<job>/``."""
        return self.root / "validations"

    @property
    def reports(self) -> Path:
        """HTML reports and pictures."""
        return self.root / "reports"

    @property
    def java(self) -> Path:
        """Where the launcher for the packaged JRE is written when the machine has no Java."""
        return self.root / "java"

    @property
    def heartbeat(self) -> Path:
        """File touched by each control tick: a dead-man switch that does not depend on Dagster."""
        return self.root / "heartbeat.json"

    def make(self) -> Home:
        """Create the root folder, for its owner alone, and return self."""
        private_folder(self.root)
        return self


def is_checkout() -> bool:
    """Return whether this perdix is a checkout, where ``conf`` is the operator's own."""
    return (PROJECT / "pyproject.toml").is_file()


def conf_folder() -> Path:
    """Return the operator's configuration: ``PERDIX_CONF``, else the checkout's or the working folder's ``conf``."""
    usual = SHIPPED if is_checkout() else "conf"
    return _folder_of(CONF_VARIABLE, usual)


def conf_part(name: str, folder: Path | None = None) -> Path:
    """Return a folder or file of the configuration; the one that comes with perdix where the operator has none.

    ``folder``: the operator's configuration; :func:`conf_folder` when left out.
    """
    own, shipped = (folder or conf_folder()) / name, SHIPPED / name
    return shipped if shipped.exists() and not own.exists() else own


def job_file_to_write(job: str = "<job>", folder: Path | None = None) -> str:
    """Return where a stream job's file is to be written, and where every key stands, for a message.

    ``folder``: the operator's configuration, as of :func:`conf_part`.
    """
    path = (folder or conf_folder()) / "jobs" / f"{job}.yaml"
    return f"write {path} (every key: {conf_part('jobs/README.md', folder)})"


_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_folder(path: Path) -> None:
    """Make a folder, if it is absent, that only its owner may enter; one that is there is closed to others.

    Left as it is: a folder of another owner, one that all share (``/tmp``), and one that holds more than perdix' files,
    as the user's own home or the working folder.
    """
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    everyones = {place.resolve() for place in (Path.cwd(), Path.home())}
    if not any(place.is_relative_to(path.resolve()) for place in everyones):
        _close_to_others(path)


def private_file(path: Path) -> None:
    """Make a file, if it is absent, that only its owner may read and write; one that is there is closed to others."""
    with suppress(OSError):  # whoever opens it reports why that cannot be done
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, stat.S_IRUSR | stat.S_IWUSR))
    _close_to_others(path)


def _close_to_others(path: Path) -> None:
    with suppress(OSError):  # absent, or on a file system without rights
        found = path.stat()
        if found.st_mode & _OTHERS and found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)

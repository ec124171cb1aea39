"""How MLflow is reached: an explicit client, quiet and patient for seconds only, its failures as typed errors."""

import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

from sqlalchemy.exc import SQLAlchemyError

from perdix.models.registry.errors import NotRegistered, RegistryError, RegistryUnavailable, StoreAway

_log = logging.getLogger(__name__)
# MLflow's own defaults are 120 s and 7 retries: the control loop would hang for minutes on a dead server.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}
# MLflow connects to a database ten times, over 100 s, and knows no setting for that.
_CONNECTS = 2


def quiet_environment() -> None:
    """Set MLflow's environment before its import; what the operator has set stays."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


@lru_cache(maxsize=8)
def client(tracking_uri: str) -> Any:
    """Return the ``MlflowClient`` of a URI. The first one for a new database creates its tables (about 4 s)."""
    quiet_environment()
    from mlflow.tracking import MlflowClient  # noqa: PLC0415  importing MLflow takes seconds

    # Its INFO lines (database migrations, saved examples) would end up in the middle of the commands' output.
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    if not is_server(tracking_uri):
        with suppress(ImportError):  # whoever lacks what a database needs learns it from the client
            from mlflow.store.db import utils  # noqa: PLC0415

            utils.MAX_RETRY_COUNT = _CONNECTS
    return MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)


def is_server(tracking_uri: str) -> bool:
    """Return whether the URI names an MLflow server rather than a database."""
    return urlsplit(tracking_uri).scheme in ("http", "https")


def sqlite_file(tracking_uri: str) -> Path | None:
    """Return the file of a SQLite URI, ``None`` for any other store."""
    prefix = "sqlite:///"
    return Path(tracking_uri.removeprefix(prefix)) if tracking_uri.startswith(prefix) else None


def let_read_while_writing(tracking_uri: str) -> None:
    """Keep SQLite's log of writes ahead of the database (WAL), which its file remembers; other stores are left alone.

    A controller that reads an alias then never waits for a training that writes, and a commit waits once for the disk.
    """
    database = sqlite_file(tracking_uri)
    if database is not None:
        with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as connection:  # what fails, MLflow will name
            connection.execute("PRAGMA journal_mode = WAL")


# Columns of MLflow's tables that hold whole paths of artifacts
_PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def find_moved(tracking_uri: str, artifact_root: Path | str, experiment: str) -> None:
    """Correct where artifacts are, of a SQLite file that was moved with their root, which lies beside it.

    MLflow keeps whole paths and has no other way. Nothing is changed while the root that it knows is still there: then
    it was copied, or others share it.

    ``experiment``: one whose artifacts lie under the root, by its name.
    """
    database = sqlite_file(tracking_uri)
    if database is None or isinstance(artifact_root, str) or not artifact_root.is_dir():
        return
    if database.resolve().parent != artifact_root.resolve().parent:
        return
    now = f"{artifact_root.resolve().as_uri()}/"
    with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as connection, connection:
        asked = "SELECT artifact_location FROM experiments WHERE name = ?"
        (known,) = connection.execute(asked, (experiment,)).fetchone() or ("",)
        before = str(known).removesuffix(experiment)
        if not (before.startswith("file:") and before.endswith("/")) or before in (now, known):
            return
        if Path(url2pathname(urlsplit(before).path)).exists():
            return
        for table, column in _PLACES:
            change = (
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "  # noqa: S608 - names of MLflow's own tables
                f"WHERE substr({column}, 1, ?) = ?"
            )
            connection.execute(change, (now, len(before) + 1, len(before), before))
        _log.warning("MLflow's artifacts are looked for in %s: %s is not there any more", now, before)


def without_password(uri: str) -> str:
    """Return a URI that may be shown: user and password are left out."""
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else uri


@contextmanager
def reached(tracking_uri: str, doing: str) -> Iterator[None]:
    """Turn what MLflow, its database and its artifact store raise into the registry's errors.

    Raises ``NotRegistered`` when MLflow says that there is no such thing (a page that a proxy does not find is a server
    that is away); ``RegistryError`` when it refuses what it was given, a metric's name for instance;
    ``RegistryUnavailable`` for everything else: a server that does not answer, a locked or outdated database, an
    artifact that is gone.
    """
    quiet_environment()
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        yield
    except MlflowException as error:
        text = str(error)
        if error.error_code == "RESOURCE_DOES_NOT_EXIST" or _names_no_alias(error.error_code, text):
            raise NotRegistered(f"{doing}: {_first_line(text)}") from error
        if error.error_code == "INVALID_PARAMETER_VALUE":
            raise RegistryError(f"{doing}: MLflow refuses it: {_first_line(text)}") from error
        raise RegistryUnavailable(_unavailable(tracking_uri, doing, text)) from error
    except (SQLAlchemyError, OSError) as error:  # requests' errors are OSErrors
        raise RegistryUnavailable(_unavailable(tracking_uri, doing, str(error))) from error


@contextmanager
def artifacts_reached(tracking_uri: str, source: str, doing: str) -> Iterator[None]:
    """Turn whatever the client of an artifact store raises into the registry's errors: each has errors of its own.

    ``source``: URI of what is read (``s3://...``), of which only the scheme is shown: it may hold a password.

    Raises ``NotRegistered`` when the store says that there is no such artifact; ``StoreAway`` for everything else: a
    client that is not installed, a store that does not answer or refuses the credentials.
    """
    quiet_environment()
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        yield
    except Exception as error:
        if isinstance(error, MlflowException) and error.error_code == "RESOURCE_DOES_NOT_EXIST":
            raise NotRegistered(f"{doing}: {_first_line(str(error))}") from error
        scheme = urlsplit(source).scheme or "file"
        raise StoreAway(f"{doing}: the artifact store ({scheme}) {_away(tracking_uri, scheme, error)}") from error


def _away(tracking_uri: str, scheme: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"cannot be used: the package '{error.name.split('.')[0]}' is missing; install it where perdix runs"
    fix = "check that store, and the address and credentials that this process has for it"
    if scheme == "file":
        fix = "check that folder"
    elif scheme == "mlflow-artifacts" and is_server(tracking_uri):
        fix = "start that server or fix MLFLOW_TRACKING_URI"
    # MLflow puts what failed below a headline for each file
    why = _first_line(str(error).rpartition("#####\n")[2])
    return f"failed: {type(error).__name__}: {why}; {fix}"


def _names_no_alias(error_code: str, text: str) -> bool:
    """Return whether this is MLflow's own word for an alias that is absent: of a database, of files, or of a server."""
    return error_code == "INVALID_PARAMETER_VALUE" and re.search(r"\balias \S+ not found", text) is not None


def _unavailable(tracking_uri: str, doing: str, text: str) -> str:
    fix = "start that server or fix MLFLOW_TRACKING_URI" if is_server(tracking_uri) else "check that database"
    if "out-of-date database schema" in text:
        fix = f"run: mlflow db upgrade {without_password(tracking_uri)}"
    return f"{doing}: MLflow at {without_password(tracking_uri)} failed: {_first_line(text)}; {fix}"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given"

"""The registry as the rest of perdix sees it: publish, promote, who is champion, fetch its table."""

from __future__ import annotations

import fcntl
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from perdix.models.registry import tracking
from perdix.models.registry.errors import FleetCorrupt, NoDatabase, NotRegistered, TableGone
from perdix.models.registry.fleet_table import FLEET_FILE
from perdix.models.registry.publication import DIGEST_TAG, FLEET_MODELS, FleetVersion, Publication, Published
from perdix.models.registry.publishing import DECIDING, Comparison, Recorded, page_of, publish, record, view_tag
from perdix.settings.durations import DAY_S
from perdix.settings.home import Home
from perdix.telemetry.partitions import digest_of

_log = logging.getLogger(__name__)
CHAMPION, CHALLENGER, PREVIOUS = "champion", "challenger", "previous"
AT_ONCE = 10  # versions, and runs of trainings, that one training removes
LOOKED_AT = 100  # runs in one answer
# Without it MLflow's pages open on tools for language models, and the runs are a click away.
_SHOWN_AS_TRAINING = {"mlflow.experimentKind": "custom_model_development"}


def prepare(home: Home, ui_url: str | None = None) -> Registry:
    """Return the registry of a home, its database and experiments created if this is the first use.

    Safe when several processes start at once: MLflow's migrations race, so they run under a file lock.

    Raises ``RegistryUnavailable`` when the database or the server cannot be used, and as such ``NoDatabase`` where a
    SQLite's file is not there and the loop has champions from it: in an empty one nothing is champion.
    """
    home.make()
    registry = Registry(home.mlflow_url, home.mlflow_artifacts, ui_url=ui_url or Registry.ui_url)
    with _locked(home.root / "mlflow.lock"):
        if home.has_champions:
            registry.require_database(f"to begin without champions, remove {home.champions}")
        registry.prepare()
    return registry


def gate_locked(home: Home, name: str) -> AbstractContextManager[None]:
    """Hold the gate of a model: no other process of this home merges and promotes its fleet meanwhile."""
    return _locked(home.root / f"{name}.lock")


@dataclass(frozen=True)
class Registry:
    """MLflow behind one explicit URI."""

    tracking_uri: str  # database or server that holds runs and versions
    # Folder or URI (``s3://...``) for artifacts when ``tracking_uri`` is a database; a server decides for itself
    artifact_root: Path | str
    # Where people see it, for links in Dagster; a server's own address when there is one
    ui_url: str = "http://127.0.0.1:5000"

    MOST_VERSIONS: ClassVar[int] = 200  # of a model, beside those that have an alias; some 0.3 MB and 31 kB a job each
    RUNS_S: ClassVar[float] = 30 * DAY_S  # for which runs of a training are kept at least, whatever became of it
    LEFT_S: ClassVar[float] = 7 * DAY_S  # after which a run that was never ended is one of a process that was killed

    def prepare(self) -> None:
        """Create tables and one experiment per fleet model, where they are absent; find what moved with its home."""
        with tracking.reached(self.tracking_uri, "preparing the registry"):
            tracking.let_read_while_writing(self.tracking_uri)
            tracking.find_moved(self.tracking_uri, self.artifact_root, FLEET_MODELS[0])
            client = tracking.client(self.tracking_uri)
            for name in FLEET_MODELS:
                _show_columns(client, self._experiment_id(client, name), DECIDING[name])

    def require_database(self, or_else: str = "") -> None:
        """Raise ``NoDatabase`` where a SQLite's file is not there; ``or_else`` is what may be done beside the usual."""
        database = tracking.sqlite_file(self.tracking_uri)
        if database is not None and not database.exists():
            fix = "; ".join(filter(None, ["restore it or fix MLFLOW_TRACKING_URI", or_else]))
            raise NoDatabase(f"MLflow's database {database} is not there; {fix}")

    def publish(self, publication: Publication) -> Published:
        """Record a training and register its fleet with the alias ``challenger``; the oldest versions are removed.

        Raises ``ValueError`` when the publication is not well-formed (see :class:`perdix.models.registry.Publication`);
        ``RegistryUnavailable`` when MLflow fails on the way; the parent run is then marked FAILED and no alias was
        moved.
        """
        with tracking.reached(self.tracking_uri, f"publishing {publication.name}"):
            client = tracking.client(self.tracking_uri)
            published = publish(client, publication, self.run_url)
            client.set_registered_model_alias(publication.name, CHALLENGER, str(published.version))
            with suppress(Exception):  # what is not removed now is by a later training
                self._forget(client, publication.name)
                self._forget_runs(client, publication)
            with suppress(Exception):
                self._end_left(client, self._experiment_id(client, publication.name), publication.started_at_s)
        return published

    def _versions(self, client: Any, name: str) -> list[Any]:
        return list(client.search_model_versions(f"name='{name}'", max_results=self.MOST_VERSIONS + 1_000))

    def _forget(self, client: Any, name: str) -> None:
        """Remove the oldest versions with their tables, but for the newest ones and those that have an alias."""
        versions = self._versions(client, name)
        newest_first = sorted((int(version.version) for version in versions), reverse=True)
        in_use = {int(version) for version in client.get_registered_model(name).aliases.values()}
        for version in sorted(set(newest_first[self.MOST_VERSIONS :]) - in_use)[:AT_ONCE]:
            try:
                self._store(client.get_model_version_download_uri(name, str(version))).delete_artifacts()
                client.delete_model_version(name, str(version))
            except Exception as error:  # one that cannot be removed keeps no other
                _log.warning("%s version %d was not removed: %s", name, version, type(error).__name__)

    def _forget_runs(self, client: Any, newest: Publication) -> None:
        """Remove the runs of trainings of long before the newest one, but for those that led to a version there is.

        A run that is being written stays too: its version is registered last.
        """
        kept = {version.run_id for version in self._versions(client, newest.name)}
        before_ms = int((newest.started_at_s - self.RUNS_S) * 1_000)
        experiment_ids = [self._experiment_id(client, newest.name)]
        old = (
            f"tags.`perdix.role` = 'training' and attributes.start_time < {before_ms} "
            "and attributes.status != 'RUNNING'"
        )
        removed = failed = 0
        for run_id in _run_ids(client, experiment_ids, old):
            if max(removed, failed) == AT_ONCE:
                break
            if run_id in kept:
                continue
            try:
                removed += self._forget_run(client, experiment_ids, run_id)
            except Exception as error:  # one that cannot be removed keeps no other
                failed += 1
                _log.warning("run %s was not removed: %s", run_id, type(error).__name__)

    def _forget_run(self, client: Any, experiment_ids: list[str], run_id: str) -> bool:
        """Remove a run, unless somebody registered it under a name of their own; return whether it was removed."""
        if client.search_model_versions(f"run_id='{run_id}'"):
            return False
        nested = client.search_runs(experiment_ids, f"tags.`mlflow.parentRunId` = '{run_id}'")
        for run in (*nested, client.get_run(run_id)):  # last: what cannot be removed now is found through it again
            with suppress(Exception):  # files that their store does not give up now, ``mlflow gc`` removes
                self._store(run.info.artifact_uri).delete_artifacts()
            client.delete_run(run.info.run_id)
        return True

    def _end_left(self, client: Any, experiment_id: str, now_s: float) -> None:
        """End the runs of an experiment that processes which were killed left running, as KILLED."""
        before_ms = int((now_s - self.LEFT_S) * 1_000)
        left = f"tags.`perdix.role` LIKE '%' and attributes.start_time < {before_ms} and attributes.status = 'RUNNING'"
        for run_id in _run_ids(client, [experiment_id], left):
            client.set_terminated(run_id, "KILLED")

    def record(self, comparison: Comparison) -> Recorded:
        """Record things that were compared on the same data; registers nothing.

        Raises ``ValueError`` when two of them have one name; ``RegistryUnavailable`` when MLflow fails on the way; the
        parent run is then marked FAILED.
        """
        with tracking.reached(self.tracking_uri, f"recording {comparison.name}"):
            client = tracking.client(self.tracking_uri)
            experiment_id = self._experiment_id(client, comparison.experiment)
            _show_columns(client, experiment_id, comparison.columns)
            with suppress(Exception):
                self._end_left(client, experiment_id, comparison.started_at_s)
            return record(client, experiment_id, comparison, self.run_url, self.compare_url)

    def promote(self, name: str, version: int, because: str = "") -> FleetVersion:
        """Make a version champion; the one it replaces becomes ``previous``. Repeating it changes nothing.

        MLflow cannot compare and set an alias, so call it under :func:`gate_locked`.

        Raises ``NotRegistered``, ``RegistryUnavailable``.
        """
        wanted = self.version(name, version)
        champion = self.current_version(name)
        if champion is not None and champion.version == version:
            return wanted
        with tracking.reached(self.tracking_uri, f"promoting {name} version {version}"):
            client = tracking.client(self.tracking_uri)
            tags = {"perdix.promoted_because": because, "perdix.previous": str(champion.version) if champion else ""}
            for key, value in tags.items():
                client.set_model_version_tag(name, str(version), key, value)
            if champion is not None:
                client.set_registered_model_alias(name, PREVIOUS, str(champion.version))
            client.set_registered_model_alias(name, CHAMPION, str(version))
        challenger = self.current_version(name, CHALLENGER)
        if challenger is not None and challenger.version == version:
            with tracking.reached(self.tracking_uri, f"promoting {name} version {version}"):
                client.delete_registered_model_alias(name, CHALLENGER)
        return wanted

    def current_version(self, name: str, alias: str = CHAMPION) -> FleetVersion | None:
        """Return the version with an alias, or ``None`` (a query: 3 ms on SQLite).

        Raises ``RegistryUnavailable``, and as such ``NoDatabase`` where a SQLite's file is not there.
        """
        self.require_database()  # to connect would make it: 4 s that the loop does not have
        try:
            with tracking.reached(self.tracking_uri, f"reading alias '{alias}' of {name}"):
                found = tracking.client(self.tracking_uri).get_model_version_by_alias(name, alias)
        except NotRegistered:
            return None
        return _fleet_version(found)

    def version(self, name: str, version: int) -> FleetVersion:
        """Return one version. Raises ``NotRegistered`` or ``RegistryUnavailable``."""
        with tracking.reached(self.tracking_uri, f"reading {name} version {version}"):
            return _fleet_version(tracking.client(self.tracking_uri).get_model_version(name, str(version)))

    def download(self, name: str, version: int, to: Path) -> Path:
        """Fetch the fleet table of a version to the file ``to``, and nothing else: no model is loaded.

        The file appears whole or not at all, so that readers need no lock.

        Raises ``NotRegistered``, ``RegistryUnavailable``; ``TableGone`` when the version is known and its table is not
        there; ``FleetCorrupt`` when what arrived is not what was published, or the version says not what that was.
        """
        expected = self.version(name, version).digest
        if not expected:
            lacks = f"it has no tag {DIGEST_TAG}"
            raise FleetCorrupt(
                f"{name} version {version} was not registered by perdix: {lacks}; promote another version"
            )
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=to.parent, prefix=".fetch-") as folder:
            fetched = self._fetch(name, version, folder)
            if digest_of(fetched) != expected:
                raise FleetCorrupt(
                    f"{name} version {version}: the fleet table is not the one that was published "
                    f"(SHA-256 {digest_of(fetched)[:12]} instead of {expected[:12]}); promote another version"
                )
            fetched.replace(to)
        return to

    def _fetch(self, name: str, version: int, folder: str) -> Path:
        doing = f"downloading {name} version {version}"
        try:
            with tracking.reached(self.tracking_uri, doing):
                source = tracking.client(self.tracking_uri).get_model_version_download_uri(name, str(version))
            with tracking.artifacts_reached(self.tracking_uri, source, doing):
                store = self._store(source)
                return Path(store.download_artifacts(f"artifacts/{FLEET_FILE}", dst_path=folder))
        except NotRegistered as error:  # the version is known: it is its artifact that is not there
            raise TableGone(f"{error}; restore it or promote another version") from error

    def _store(self, source: str) -> Any:
        from mlflow.store.artifact import artifact_repository_registry as stores  # noqa: PLC0415

        return stores.get_artifact_repository(source, tracking_uri=self.tracking_uri, registry_uri=self.tracking_uri)

    def run_url(self, experiment_id: str, run_id: str) -> str:
        """Return where a run is seen in MLflow's UI."""
        return f"{self._ui()}/#/experiments/{experiment_id}/runs/{run_id}"

    def experiment_urls(self) -> dict[str, str]:
        """Return fleet model -> the page on which the runs of its trainings stand side by side."""
        with tracking.reached(self.tracking_uri, "looking up experiments"):
            client = tracking.client(self.tracking_uri)
            ids = {name: self._experiment_id(client, name) for name in FLEET_MODELS}
        return {name: page_of(self._ui(), found) for name, found in ids.items()}

    def compare_url(self, experiment_id: str, run_ids: Sequence[str]) -> str:
        """Return where runs are seen side by side in MLflow's UI."""
        runs, experiments = quote(json.dumps(list(run_ids))), quote(json.dumps([experiment_id]))
        return f"{self._ui()}/#/compare-runs?runs={runs}&experiments={experiments}"

    def _ui(self) -> str:
        base = self.tracking_uri if tracking.is_server(self.tracking_uri) else self.ui_url
        return tracking.without_password(base).rstrip("/")

    def _experiment_id(self, client: Any, name: str) -> str:
        """Return an experiment, made where it is absent; one that was deleted keeps its name, so it is restored."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        found = client.get_experiment_by_name(name)
        if found is None:
            location = self._artifact_location(name)
            try:
                return str(client.create_experiment(name, artifact_location=location, tags=_SHOWN_AS_TRAINING))
            except MlflowException:  # another process may have made it just now
                found = client.get_experiment_by_name(name)
                if found is None:
                    raise
        if found.lifecycle_stage == "deleted":
            _log.warning("experiment %s was deleted in MLflow; it is restored, as its runs go there", name)
            client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _artifact_location(self, name: str) -> str | None:
        if tracking.is_server(self.tracking_uri):
            return None
        if isinstance(self.artifact_root, str):
            return f"{self.artifact_root.rstrip('/')}/{name}"
        return (self.artifact_root.resolve() / name).as_uri()


def _run_ids(client: Any, experiment_ids: list[str], wanted: str) -> list[str]:
    """Return the runs of experiments that a filter finds, the oldest first: all, as removing some shifts the pages."""
    found: list[str] = []
    token = None
    while True:
        page = client.search_runs(
            experiment_ids,
            wanted,
            order_by=["attributes.start_time ASC"],
            max_results=LOOKED_AT,
            page_token=token,
        )
        found += [run.info.run_id for run in page]
        token = page.token
        if not token:
            return found


def _show_columns(client: Any, experiment_id: str, metrics: Sequence[str]) -> None:
    """Keep the view of an experiment with it, unless it is there as it should be."""
    kept = client.get_experiment(experiment_id).tags
    for key, value in view_tag(metrics).items():
        if kept.get(key) != value:
            client.set_experiment_tag(experiment_id, key, value)


def _fleet_version(found: Any) -> FleetVersion:
    digest = str(found.tags.get(DIGEST_TAG, ""))
    return FleetVersion(name=found.name, version=int(found.version), digest=digest, run_id=found.run_id or "")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file releases the lock

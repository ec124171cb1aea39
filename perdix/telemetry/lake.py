"""The lake: Parquet tables in hive-partitioned folders, each partition replaced as a whole.

Layout: ``<root>/<table>/job=J/day=D[/source=S]/{<digest>.parquet, _manifest.json}``. The manifest names the live files.
A writer stages new files beside the tables, moves them in under names made from their content, then replaces the
manifest in one step and only then deletes what it no longer names. So a reader sees the old partition or the new one,
a crash leaves the old one (plus files that nobody reads, which the next write removes), and the same content written
twice is the same bytes under the same name. Readers that know folders only (Spark, DuckDB) take their paths from
:meth:`Lake.files`.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from perdix.telemetry.partitions import (
    MANIFEST,
    LakeError,
    Manifest,
    digest_of,
    find_table,
    iso_day,
    partition_keys,
    read_manifest,
    safe_key,
    source_key,
    write_manifest,
)
from perdix.telemetry.tables import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Lake", "LakeError", "Manifest", "source_key"]
_STAGING = "_staging"
_LIVING = ".lock"  # in each staging folder, held by its writer: what nobody holds was left by a crash
_READ_ATTEMPTS = 10
_CODED_ROWS = 1 << 20  # rows read in one piece: each piece has dictionaries of its own, to be made one later


class Lake:
    """Reads and writes tables under ``root``; the tables are those of :mod:`perdix.telemetry.tables`."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    # ------------------------------------------------------------------ reading

    def read(
        self,
        table: str,
        job: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        days: Iterable[str | date] | None = None,
        coded: bool = False,
    ) -> pa.Table:
        """Return live rows as an Arrow table; empty, with the right schema, where there are none.

        Raises ``LakeError`` for an unknown table or column, and for a manifest or data file that is broken.

        ``job``: one job; all jobs when ``None``.
        ``columns``: columns wanted (partition keys count as columns); all when ``None``.
        ``days``: days (``date`` or ISO text) wanted of a table that is partitioned by day.
        ``coded``: each text as the number of an entry of a dictionary, as the files hold it: half the time for samples.
        """
        spec = find_table(table)
        schema = _coded(spec.schema) if coded else spec.schema
        if columns is not None:
            if unknown := [name for name in columns if name not in schema.names]:
                raise LakeError(f"table '{table}' has no column {unknown}; it has {schema.names}")
            schema = pa.schema([schema.field(name) for name in columns])
        wanted = None if days is None else list(days)
        for _ in range(_READ_ATTEMPTS):
            try:
                return self._scan(spec, schema, job, wanted, coded)
            except FileNotFoundError:  # a writer replaced the partition after we had read its manifest: look again
                continue
        raise LakeError(f"table '{table}' is being rewritten faster than it can be read; read it again")

    def files(self, table: str, job: str | None = None, *, days: Iterable[str | date] | None = None) -> list[Path]:
        """Return the live data files, for a reader that takes paths (``spark.read.parquet`` with ``basePath``)."""
        spec = find_table(table)
        return [
            self._folder(spec, manifest.keys) / name
            for manifest in self.manifests(table, job, days=days)
            for name in manifest.files
        ]

    def manifests(
        self, table: str, job: str | None = None, *, days: Iterable[str | date] | None = None
    ) -> list[Manifest]:
        """Return the manifests of a table's live partitions, in the order of their keys."""
        spec = find_table(table)
        by_day = days is not None and "day" in spec.partition
        wanted = sorted({iso_day(day) for day in days or ()}) if by_day else ["*"]
        levels = [[f"{key}={day if key == 'day' else '*'}" for key in spec.partition[1:]] for day in wanted]
        top = self.root / table
        starts = sorted(top.glob("job=*")) if job is None else [top / f"job={safe_key('job', job)}"]
        patterns = ["/".join([*some, MANIFEST]) for some in levels]
        paths = (path for start in starts for pattern in patterns for path in sorted(start.glob(pattern)))
        return [manifest for path in paths if (manifest := read_manifest(path))]

    def jobs(self, table: str = "samples") -> list[str]:
        """Return the jobs that have live partitions in ``table``, sorted; also those whose manifests are broken."""
        within = "/".join([*(f"{key}=*" for key in find_table(table).partition[1:]), MANIFEST])
        starts = sorted((self.root / table).glob("job=*"))
        return [start.name.removeprefix("job=") for start in starts if any(start.glob(within))]

    def days(self, table: str, job: str) -> list[str]:
        """Return the days (ISO text, sorted) for which ``table`` holds rows of ``job``."""
        spec = find_table(table)
        if "day" not in spec.partition:
            raise LakeError(f"table '{table}' is not partitioned by day but by {spec.partition}")
        return sorted({manifest.keys["day"] for manifest in self.manifests(table, job) if manifest.rows})

    # ------------------------------------------------------------------ writing

    def replace(
        self,
        table: str,
        job: str,
        day: str | date,
        data: pa.Table | pd.DataFrame,
        *,
        counts: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Replace one ``job``/``day`` partition by ``data``: all of it or, after a crash, none of it.

        ``data`` holds the table's columns in any order (partition keys may be present and are dropped); types are
        cast without loss. No rows is a valid content.

        Raises ``LakeError`` for an unknown table, a missing or unknown column, or a value that its column cannot hold.
        """
        spec = find_table(table)
        if spec.partition != ("job", "day"):
            raise LakeError(f"table '{table}' is partitioned by {spec.partition}; use put()")
        return self.put(table, {"job": job, "day": iso_day(day)}, data, counts=counts)

    def put(
        self,
        table: str,
        keys: Mapping[str, str],
        data: pa.Table | pd.DataFrame,
        *,
        counts: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Replace the partition named by ``keys`` (every partition key of the table) by ``data``."""
        spec = find_table(table)
        keys = partition_keys(spec, keys)
        rows = _conform(spec, data)
        with self.staging() as staging:
            files = []
            if rows.num_rows:
                files = [staging / "part.parquet"]
                pq.write_table(rows, files[0], compression="zstd")
            return self.adopt(table, keys, files, counts=counts)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Yield an empty folder inside the lake that no reader looks at; it is removed at the end."""
        parent = self.root / _STAGING
        with self._locked("staging"):  # so that no other writer takes a folder in the making for a leftover
            parent.mkdir(parents=True, exist_ok=True)
            _sweep(parent)
            path = Path(tempfile.mkdtemp(dir=parent))
            living = (path / _LIVING).open("w")
            fcntl.flock(living, fcntl.LOCK_EX)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            living.close()

    def adopt(
        self, table: str, keys: Mapping[str, str], staged: Sequence[Path], *, counts: Mapping[str, Any] | None = None
    ) -> Manifest:
        """Replace a partition by Parquet files that were written under :meth:`staging`; they are moved, not copied.

        The files must hold the table's columns in order (Spark's writer is handed the schema); rows are counted
        from their footers.
        """
        spec = find_table(table)
        keys = partition_keys(spec, keys)
        folder = self._folder(spec, keys)
        digests = sorted((digest_of(path), path) for path in staged)
        names = tuple(f"{digest[:32]}-{order}.parquet" for order, (digest, _) in enumerate(digests))
        rows = sum(pq.read_metadata(path).num_rows for _, path in digests)
        total = hashlib.sha256("".join(digest for digest, _ in digests).encode()).hexdigest()
        manifest = Manifest(table, keys, rows, total, names, dict(counts or {}))
        with self._locked(f"job={keys['job']}"):
            folder.mkdir(parents=True, exist_ok=True)
            for name, (_, path) in zip(names, digests, strict=True):
                path.replace(folder / name)
            write_manifest(folder / MANIFEST, manifest)
            for path in folder.iterdir():
                if path.name not in {*names, MANIFEST}:
                    path.unlink(missing_ok=True)
        return manifest

    def drop(self, table: str, keys: Mapping[str, str]) -> None:
        """Remove one partition; nothing happens when it is not there."""
        spec = find_table(table)
        keys = partition_keys(spec, keys)
        folder = self._folder(spec, keys)
        with self._locked(f"job={keys['job']}"):
            (folder / MANIFEST).unlink(missing_ok=True)  # first: from here on no reader sees it
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # one that is not empty, or not there
                for _ in spec.partition[1:]:
                    folder = folder.parent
                    folder.rmdir()

    # ------------------------------------------------------------------ inside

    def _folder(self, spec: Table, keys: Mapping[str, str]) -> Path:
        return self.root.joinpath(spec.name, *(f"{key}={keys[key]}" for key in spec.partition))

    def _scan(
        self, spec: Table, schema: pa.Schema, job: str | None, days: list[str | date] | None, coded: bool
    ) -> pa.Table:
        parts = self.manifests(spec.name, job, days=days)
        files = [str(self._folder(spec, part.keys) / name) for part in parts for name in part.files]
        if not files:
            return schema.empty_table()
        held = _coded(spec.schema) if coded else spec.schema
        texts = [field.name for field in spec.columns if pa.types.is_string(field.type)] if coded else []
        known = {key: pa.array(sorted({part.keys[key] for part in parts})) for key in spec.partition} if coded else None
        dataset = ds.dataset(
            files,
            schema=held,
            format=ds.ParquetFileFormat(dictionary_columns=texts),
            partitioning=ds.partitioning(
                pa.schema([held.field(key) for key in spec.partition]), flavor="hive", dictionaries=known
            ),
            partition_base_dir=str(self.root / spec.name),
        )
        try:
            return dataset.to_table(columns=schema.names, **({"batch_size": _CODED_ROWS} if coded else {}))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
            broken = None if isinstance(error, OSError) and error.errno else _broken(files)
            if broken is None:
                raise
            raise LakeError(f"{broken}: not readable; remove its folder and ingest its source again") from None

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        locks = self.root / "_locks"
        locks.mkdir(parents=True, exist_ok=True)
        with (locks / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _coded(schema: pa.Schema) -> pa.Schema:
    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(text) if pa.types.is_string(field.type) else field for field in schema])


def _sweep(staging: Path) -> None:
    """Remove the folders of writers that are gone: those whose lock nobody holds."""
    for path in staging.iterdir():
        try:
            with (path / _LIVING).open("a") as living:
                fcntl.flock(living, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # its writer lives, or has just removed it
            continue


def _conform(spec: Table, data: pa.Table | pd.DataFrame) -> pa.Table:
    names = data.column_names if isinstance(data, pa.Table) else data.columns.tolist()
    extra = [name for name in names if name not in spec.schema.names]
    missing = [name for name in spec.columns.names if name not in names]
    if extra or missing:
        raise LakeError(f"table '{spec.name}': missing columns {missing}, unknown columns {extra}")
    try:
        if not isinstance(data, pa.Table):
            return pa.Table.from_pandas(data, schema=spec.columns, preserve_index=False)
        return data.select(spec.columns.names).cast(spec.columns)
    except pa.ArrowException as error:
        raise LakeError(f"table '{spec.name}': {error}") from None


def _broken(files: Sequence[str]) -> str | None:
    """Return the first data file that cannot be read."""
    for file in files:
        try:
            pq.read_table(file, partitioning=None)
        except FileNotFoundError:
            continue  # replaced meanwhile
        except (pa.ArrowInvalid, pa.ArrowTypeError, OSError):
            return file
    return None

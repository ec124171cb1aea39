"""Partitions of the lake: their keys, and the manifest that says what one holds."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from perdix.settings.plain_error import PlainError
from perdix.telemetry.tables import TABLES, Table

MANIFEST = "_manifest.json"
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


class LakeError(PlainError):
    """A table, partition or column that cannot be used; the message says which and how to fix it."""


@dataclass(frozen=True)
class Manifest:
    """What one partition holds."""

    table: str
    keys: dict[str, str]  # partition key -> value, for example ``{"job": "wordcount", "day": "2026-01-31"}``
    rows: int
    digest: str  # SHA-256 over the data files' bytes; equal content has an equal digest
    files: tuple[str, ...]
    counts: dict[str, Any] = field(default_factory=dict)  # whatever the writer counted


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(parts: Iterable[Manifest]) -> str:
    """Return a SHA-256 over the content of some partitions in their order: the same rows have the same one."""
    return hashlib.sha256("".join(part.digest for part in parts).encode()).hexdigest()


def source_key(name: str) -> str:
    """Return a partition value for a file's name: the name itself where it is safe, else a slug with a digest."""
    if _KEY.fullmatch(name):
        return name
    slug = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.")[-80:].lstrip("-._+") or "file"
    return f"{slug}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def find_table(table: str) -> Table:
    """Return the table of this name; raise :class:`LakeError` naming the known ones."""
    if table not in TABLES:
        raise LakeError(f"unknown table '{table}'; known tables: {', '.join(sorted(TABLES))}")
    return TABLES[table]


def safe_key(name: str, value: str) -> str:
    """Return ``value`` when it can name a folder (it never leaves its parent); raise :class:`LakeError` otherwise."""
    if not _KEY.fullmatch(value):
        raise LakeError(f"'{value}' cannot be a {name}: use letters, digits, '.', '_', '+' or '-' (at most 128)")
    return value


def iso_day(day: str | date) -> str:
    """Return the day as ``2026-01-31``; raise :class:`LakeError` for anything else."""
    try:
        found = day if isinstance(day, date) else date.fromisoformat(day)
        return date(found.year, found.month, found.day).isoformat()  # a datetime is a date, too
    except ValueError:
        raise LakeError(f"'{day}' is not a day; write it as 2026-01-31") from None


def partition_keys(spec: Table, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the checked partition keys in the order of the table; raise :class:`LakeError` otherwise."""
    if set(keys) != set(spec.partition):
        raise LakeError(f"table '{spec.name}' is partitioned by {spec.partition}, not by {tuple(keys)}")
    return {key: iso_day(keys[key]) if key == "day" else safe_key(key, keys[key]) for key in spec.partition}


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest at ``path``; ``None`` when it is gone.

    Its keys are those of the folders that it is in: somebody may have renamed the folder of a job with the job.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        folders = path.parent.parts[-len(fields["keys"]) :]
        keys = dict(folder.split("=", 1) for folder in folders)
        return Manifest(**{**fields, "keys": keys, "files": tuple(fields["files"])})
    except FileNotFoundError:
        return None  # dropped a moment ago
    except (ValueError, KeyError, TypeError):
        raise LakeError(f"{path}: not a manifest; remove the folder and ingest its source again") from None


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Replace the manifest at ``path`` in one step."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as stream:
        json.dump(asdict(manifest), stream, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)

"""What the job files say of each job, kept between scrapes: a file is read again only when it has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from settings.stream_job import StreamJob, load_stream_job
from settings.yaml_files import SettingsError

BUDGET_S = 0.05  # that a scrape may spend on files which have changed; the rest follow in the next ones


@dataclass(frozen=True)
class JobFiles:
    """Which jobs have a file, what the readable ones say, and how many cannot be read.

    ``names`` is ``None`` where there is no job file at all: on a machine that only serves what others decide.
    """

    names: frozenset[str] | None = None
    jobs: Mapping[str, StreamJob] = field(default_factory=dict)
    unreadable: int = 0


@dataclass
class _Kept:
    stamp: tuple[int, int]
    job: StreamJob | None


class FollowedFiles:
    """Follows folders of job files; of two files for a job, that of the later folder counts.

    Parameters
    ----------
    folders
        Of ``<job>.yaml``; one that is absent is empty.
    stopwatch_s
        Seconds, for the budget of a look only.
    """

    def __init__(self, folders: Sequence[Path], stopwatch_s: Callable[[], float] = time.perf_counter) -> None:
        self._folders = tuple(folders)
        self._stopwatch_s = stopwatch_s
        self._kept: dict[Path, _Kept] = {}

    def look(self, budget_s: float = BUDGET_S) -> JobFiles:
        """Return what the files say, after reading those that changed, for at most about ``budget_s`` seconds."""
        began_s = self._stopwatch_s()
        paths = {path.stem: path for folder in self._folders for path in sorted(folder.glob("*.yaml"))}
        for path in paths.values():
            stamp = _stamp(path)
            kept = self._kept.get(path)
            if stamp is None or (kept is not None and kept.stamp == stamp):
                continue
            if self._stopwatch_s() - began_s > budget_s:
                break
            self._kept[path] = _Kept(stamp, _read(path))
        chosen = set(paths.values())
        self._kept = {path: kept for path, kept in self._kept.items() if path in chosen}
        jobs = {path.stem: kept.job for path, kept in self._kept.items() if kept.job is not None}
        unreadable = sum(kept.job is None for kept in self._kept.values())
        return JobFiles(frozenset(paths) or None, jobs, unreadable)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:  # it has just been taken away
        return None
    return found.st_mtime_ns, found.st_size


def _read(path: Path) -> StreamJob | None:
    try:
        return load_stream_job(path)
    except (SettingsError, OSError):  # the loop tells which file and why; here it is counted
        return None

"""What the job files say of each job, kept between scrapes: a file is read again only when it has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    path: str
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
        self._kept: dict[str, _Kept] = {}

    def look(self, budget_s: float = BUDGET_S) -> JobFiles:
        """Return what the files say, after reading those that changed, for at most about ``budget_s`` seconds."""
        began_s = self._stopwatch_s()
        found = {name: file for folder in self._folders for name, file in _listed(folder)}
        for name, file in found.items():
            kept = self._kept.get(name)
            if kept is not None and (kept.path, kept.stamp) == file:
                continue
            if self._stopwatch_s() - began_s > budget_s:
                break
            self._kept[name] = _Kept(*file, _read(file[0]))
        self._kept = {name: kept for name, kept in self._kept.items() if name in found}
        jobs = {name: kept.job for name, kept in self._kept.items() if kept.job is not None}
        return JobFiles(frozenset(found) or None, jobs, len(self._kept) - len(jobs))


def _listed(folder: Path) -> Iterator[tuple[str, tuple[str, tuple[int, int]]]]:
    """Return the job files of a folder: name -> path, and what changes when the file does."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name, ending = os.path.splitext(entry.name)  # noqa: PTH122 - a Path per file is most of the cost
                if ending == ".yaml":
                    stat = entry.stat()
                    yield name, (entry.path, (stat.st_mtime_ns, stat.st_size))
    except OSError:  # there is no such folder, or a file has just been taken away
        return


def _read(path: str) -> StreamJob | None:
    try:
        return load_stream_job(Path(path))
    except (SettingsError, OSError):  # the loop tells which file and why; here it is counted
        return None

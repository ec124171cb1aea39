"""The job files, each for itself: one that cannot be used is that job's fault and costs no other job anything.

Kept between looks: a file is read again only when it has changed, or when it could not be read.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perdix.policies.build import check_policy
from perdix.settings.home import Home, conf_folder
from perdix.settings.outside_text import printable
from perdix.settings.plain_error import presentable
from perdix.settings.stream_job import CheckPolicy, StreamJob, load_stream_job
from perdix.settings.yaml_files import SettingsError, UnreadableError

BUDGET_S = 0.05  # that a scrape may spend on files which have changed; the rest follow in the next ones
LONGEST_NAME = 63  # of a job, also of a file that no job may be named after
Stamp = tuple[int, int, int, int]


@dataclass(frozen=True)
class JobFiles:
    """What the job files say."""

    # Jobs that have a file; ``None`` where there has been no job file at all: on a machine that only serves what
    # others decide
    names: frozenset[str] | None = None
    jobs: Mapping[str, StreamJob] = field(default_factory=dict)  # job -> settings, of the files that can be used
    faults: Mapping[str, str] = field(default_factory=dict)  # job -> why its file cannot be used, with its place
    problems: tuple[str, ...] = ()  # folders that cannot be listed; what was read of them last still counts

    @property
    def complaints(self) -> tuple[str, ...]:
        """Everything that is wrong, in words."""
        return (*self.problems, *self.faults.values())


@dataclass(frozen=True)
class _Found:
    """A file, and what changes when its content or its rights do; ``None`` where it cannot be read."""

    path: str
    stamp: Stamp | None


@dataclass(frozen=True)
class _Kept:
    file: _Found
    job: StreamJob | None
    fault: str = ""


class FollowedFiles:
    """Follows folders of job files; of two files for a job, that of the later folder counts. Threads may share it.

    ``folders``: of ``<job>.yaml``; one that is absent is empty.
    ``check_policy``: raises ``SettingsError`` for a policy that cannot be built
    (:func:`perdix.policies.build.check_policy`).
    ``stopwatch_s``: seconds, for the budget of a look only.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        check_policy: CheckPolicy | None = None,
        stopwatch_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._folders = tuple(folders)
        self._check_policy = check_policy
        self._stopwatch_s = stopwatch_s
        self._listed: dict[Path, dict[str, _Found]] = {}
        self._kept: dict[str, _Kept] = {}
        self._used: set[Path] = set()  # folders that are there and have held a file
        self._lock = threading.Lock()

    def look(self, budget_s: float = BUDGET_S) -> JobFiles:
        """Return what the files say, after reading those that changed, for at most about ``budget_s`` seconds."""
        with self._lock:
            return self._look(budget_s)

    def _look(self, budget_s: float) -> JobFiles:
        began_s = self._stopwatch_s()
        problems = tuple(filter(None, map(self._list, self._folders)))
        found = {name: file for folder in self._folders for name, file in self._listed[folder].items()}
        for name, file in found.items():
            kept = self._kept.get(name)
            if kept is not None and kept.file == file and file.stamp is not None:
                continue
            if self._stopwatch_s() - began_s > budget_s:
                break
            self._kept[name] = self._read(file)
        self._kept = {name: kept for name, kept in self._kept.items() if name in found}
        jobs = {name: kept.job for name, kept in self._kept.items() if kept.job is not None}
        faults = {name: kept.fault for name, kept in self._kept.items() if kept.job is None}
        return JobFiles(frozenset(found) if self._used else None, jobs, faults, problems)

    def _list(self, folder: Path) -> str:
        """Look what there is in a folder; return why that cannot be said, or nothing."""
        try:
            self._listed[folder] = dict(_files_of(folder))
        except FileNotFoundError:
            self._listed[folder] = {}
            self._used.discard(folder)
        except OSError as error:
            self._listed.setdefault(folder, {})
            return presentable(f"{folder}: cannot be listed: {error.strerror}; what was read of it last is used")
        if self._listed[folder]:
            self._used.add(folder)
        return ""

    def _read(self, file: _Found) -> _Kept:
        try:
            return _Kept(file, load_stream_job(Path(file.path), self._check_policy))
        except UnreadableError as error:
            return _Kept(_Found(file.path, None), None, str(error))
        except SettingsError as error:
            return _Kept(file, None, str(error))
        except Exception as error:  # a defect that one file meets must not stop the jobs of the others
            return _Kept(file, None, presentable(f"{file.path}: cannot be used ({type(error).__name__}: {error})"))


def job_files(home: Home, conf: Path | None = None) -> FollowedFiles:
    """Follow the job files of the operator, and those that perdix wrote itself; the operator's win."""
    return FollowedFiles((home.jobs, (conf or conf_folder()) / "jobs"), check_policy)


def stream_jobs(home: Home, conf: Path | None = None) -> JobFiles:
    """Read all of these files once."""
    return job_files(home, conf).look(float("inf"))


def _files_of(folder: Path) -> Iterator[tuple[str, _Found]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: (not entry.name.endswith(".yml"), entry.name)):  # .yaml counts
            name, ending = os.path.splitext(entry.name)  # noqa: PTH122 - a Path per file is most of the cost
            if ending in (".yaml", ".yml"):
                yield printable(name)[:LONGEST_NAME], _Found(entry.path, stamp_of(entry))


def stamp_of(file: os.DirEntry[str] | Path) -> Stamp | None:
    """Return what changes when a file's content or its rights do; ``None`` where it cannot be looked at."""
    try:
        stat = file.stat()
    except OSError:  # a link that leads nowhere, or a file that has just been taken away
        return None
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino

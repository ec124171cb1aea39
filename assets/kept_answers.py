"""Answers of tasks as files, one per stream job: written by the task itself, so that a run that is cut keeps them.

A file appears whole or not at all. The folder must be one that Spark's workers reach, as the lake is
(docs/decisions/0004). Knows no Dagster, because Spark's workers import it.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from perdix.settings.counting import counted
from perdix.telemetry.partitions import source_key


@dataclass(frozen=True)
class Kept:
    """The newest answers of jobs in a folder, those of one run distinguished from older ones."""

    folder: Path
    run: str  # name of the run that is under way; a run that is executed again goes on under its first name

    def begin(self, job: str) -> None:
        """Note that work on a job has begun: if its process dies, this is how one knows whose work it was."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._mark(job).touch()

    def begun(self, job: str) -> bool:
        """Return whether work on a job was begun in this run and has not ended."""
        return self._mark(job).exists()

    def write(self, job: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer, replacing the job's last one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(job)
        part = path.with_name(f".{path.stem}.{os.getpid()}")
        part.write_bytes(orjson.dumps({"run": self.run, **answer}, option=orjson.OPT_SERIALIZE_NUMPY))
        part.replace(path)
        self._mark(job).unlink(missing_ok=True)

    def answer(self, job: str) -> dict[str, Any] | None:
        """Return a job's answer if it is of this run."""
        found = read_answer(self.folder, job)
        return found if found is not None and found.get("run") == self.run else None

    def path(self, job: str) -> Path:
        """Return where a job's answer lies."""
        return _path(self.folder, job)

    def _mark(self, job: str) -> Path:
        path = self.path(job)
        return path.with_name(f".{path.stem}.{self.run}.begun")


def read_answer(folder: Path, job: str) -> dict[str, Any] | None:
    """Return the newest answer that is kept of a job; ``None`` when there is none, or none that can be read."""
    try:
        found = orjson.loads(_path(folder, job).read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def note_promoted(folder: Path, job: str, digest: str, but: str = "") -> None:
    """Note that the model of an answer was promoted, so that it is not once more when somebody else is champion.

    ``but``: why it was not, although it was to be.
    """
    _promoted(folder, job).write_text(f"{digest} {but}".rstrip(), encoding="utf-8")


def why_not_promoted(folder: Path, job: str, digest: str) -> str | None:
    """Return what kept the model of an answer from being promoted; empty where it was, ``None`` where none knows."""
    try:
        noted, _, but = _promoted(folder, job).read_text(encoding="utf-8").partition(" ")
    except FileNotFoundError:
        return None
    return but if noted == digest else None


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    total: int
    done: int
    failed: int
    # Seconds to go, if the others take as long as those that are done; ``None`` while that is not known
    left_s: float | None = None

    def __str__(self) -> str:
        """Return it as words: ``340 of 1,000 jobs trained, 2 failed, about 4 min left``."""
        said = f"{self.done:,} of {counted(self.total, 'job')} trained, {self.failed:,} failed"
        return said if self.left_s is None or self.done == self.total else f"{said}, about {_about(self.left_s)} left"


class Watch:
    """Counts the answers of a run as their files appear; each file is read once.

    Answers that the run had before, when it was cut, count from the start. An answer that another run gives meanwhile
    counts, too: it is newer than any that this one could wait for.
    """

    def __init__(self, kept: Kept, jobs: Iterable[str]) -> None:
        self._kept = kept
        self._jobs = tuple(jobs)
        self._failed: dict[str, bool] = {}  # of the jobs that have their answer
        self._seen: dict[str, tuple[int, int]] = {}
        self._first: tuple[float, int] | None = None  # when answers began to come, and how many there were
        self._take_in(lambda answer: answer.get("run") == kept.run)

    def look(self) -> None:
        """Take in what has appeared since the last look."""
        self._take_in(lambda _: True)

    def _take_in(self, counts: Callable[[Mapping[str, Any]], bool]) -> None:
        for job in self._jobs:
            if job in self._failed:
                continue
            try:
                found = self._kept.path(job).stat()
            except FileNotFoundError:
                continue
            stamp = (found.st_ino, found.st_mtime_ns)
            if self._seen.get(job) == stamp:
                continue
            self._seen[job] = stamp
            answer = read_answer(self._kept.folder, job)
            if answer is not None and counts(answer):
                self._failed[job] = bool(answer.get("error"))

    def unanswered(self) -> list[str]:
        """Return the jobs that had no answer at the last look."""
        return [job for job in self._jobs if job not in self._failed]

    def progress(self, now_s: float) -> Progress:
        """Return how far the run had come at the last look.

        ``now_s``: by a clock that never goes back. What is left is reckoned from the first answers on: before them
        workers import libraries.
        """
        done, total = len(self._failed), len(self._jobs)
        if done and self._first is None:
            self._first = (now_s, done)
        left_s = None
        if self._first is not None and done > self._first[1]:
            left_s = (now_s - self._first[0]) / (done - self._first[1]) * (total - done)
        return Progress(total, done, sum(self._failed.values()), left_s)


def _path(folder: Path, job: str) -> Path:
    return folder / f"{source_key(job)}.json"  # whatever a partition is called in Dagster, it stays in the folder


def _promoted(folder: Path, job: str) -> Path:
    return folder / f".{source_key(job)}.promoted"


def _about(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(seconds, 1):.0f} s"

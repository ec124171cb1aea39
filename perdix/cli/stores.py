"""What commands open: the home, the jobs, the lake, the state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdix.cli.output import UserError, complaints, styled
from perdix.settings.home import Home, job_file_to_write
from perdix.settings.nearest_name import meant
from perdix.settings.stream_job import StreamJob

if TYPE_CHECKING:
    from perdix.control.job_files import JobFiles
    from perdix.control.state.store import StateStore
    from perdix.telemetry.lake import Lake


def no_file() -> str:
    """Return what there is to do where no job has a file."""
    return f"no job has a file yet: {job_file_to_write()}"


def home() -> Home:
    """Return the perdix home, created."""
    place = Home.from_environment()
    try:
        return place.make()
    except OSError as error:
        raise UserError(f"PERDIX_HOME {place.root}: cannot be made: {error.strerror}; name another folder") from None


def lake() -> Lake:
    """Open the lake."""
    from perdix.telemetry.lake import Lake

    return Lake(home().lake)


@contextmanager
def state() -> Iterator[StateStore]:
    """Open the state store and close it afterwards."""
    from perdix.control.state.store import StateStore

    store = StateStore(home().state_url)
    try:
        yield store
    finally:
        store.close()


def stream_jobs() -> dict[str, StreamJob]:
    """Return every job that has a usable file; what is wrong with the others goes to standard error."""
    return dict(usable_files().jobs)


def usable_files(but: str | None = None) -> JobFiles:
    """Read the job files; what is wrong with any goes to standard error, ``but`` with that of one job, if named."""
    from perdix.control import job_files

    files = job_files.stream_jobs(home())
    for complaint in (*files.problems, *(fault for name, fault in files.faults.items() if name != but)):
        say_skipped(complaint)
    return files


def say_skipped(complaint: str) -> None:
    """Say on standard error why a job file is not used."""
    complaints.print(styled("skipped", "yellow"), complaint)


def job_of_file(name: str) -> StreamJob:
    """Return the job that a file describes; raises ``UserError`` with the file's fault, or with the nearest name."""
    files = usable_files(but=name)
    return files.jobs[known(name, files.jobs, "job", no_file(), files)]


def stream_job(name: str) -> StreamJob:
    """Return a job's settings; a job that has no file yet gets the defaults, so that its exports can be looked at."""
    return stream_jobs().get(name) or StreamJob(name=name)


def known(name: str, names: Iterable[str], what: str, fix: str, files: JobFiles | None = None) -> str:
    """Return ``name`` when it is among ``names``; else raise ``UserError`` with the nearest one and the fix.

    ``files``: where given, a job whose file cannot be used is said to be that, and such jobs count among the nearest.
    """
    names = sorted(names)
    if name in names:
        return name
    if files is not None:
        if name in files.faults:
            raise UserError(files.faults[name])
        names = sorted({*names, *files.faults})
    hint = meant(name, names, f"there are: {', '.join(names)}" if names else fix)
    raise UserError(f"{what} '{name}' is not known; {hint}")

"""A stream job that is profiled or sampled: its name, and the running one, checked and opened.

Belongs here: what a job file must say before anything is done to the job. Does not belong here: what is done
(:mod:`perdix.profiling`).
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perdix.control.clock import WallClock
from perdix.settings.home import DOCS, job_file_to_write
from perdix.settings.profiling import Profiling
from perdix.settings.stream_job import NAME, StreamJob
from perdix.settings.targets import AdvisorySettings
from perdix.settings.yaml_files import SettingsError

if TYPE_CHECKING:
    from perdix.assets.resources import Workspace
    from perdix.profiling.live.job import LiveJob


def require_name(job: str) -> None:
    """Raise ``SettingsError`` where a stream job cannot be called so: files of its measurements are named by it."""
    if not NAME.fullmatch(job):
        raise SettingsError(f"'{job}' is no name of a stream job: letters, digits, '.', '_' and '-', 63 at most")


def profilable_job(workspace: "Workspace", job: str) -> tuple[StreamJob, Profiling]:
    """Return the settings of a job that may be put under load, and the commands that do so.

    Raises ``SettingsError`` when it has no file or one that cannot be used, or the file lacks what is needed, or lets
    perdix scale the job meanwhile.
    """
    known = workspace.stream_jobs()
    if job in known.faults:
        raise SettingsError(known.faults[job])
    if job not in known.jobs:
        others = ", ".join(sorted(known.jobs)) or "none"
        fix = job_file_to_write(job, workspace.conf_folder())
        raise SettingsError(f"there is no stream job '{job}'; known: {others}; {fix}")
    settings = known.jobs[job]
    if settings.prometheus is None:
        raise SettingsError(f"job '{job}': its file has no 'prometheus'; add its url and selector")
    if settings.profiling is None:
        raise SettingsError(
            f"job '{job}': its file has no 'profiling'; name there the command that puts the job under load, as "
            f"{workspace.conf_part('jobs/README.md')} shows"
        )
    if settings.mode != "advise":
        raise SettingsError(
            f"job '{job}' is scaled by perdix (mode: act); write mode: advise in its file until this has ended"
        )
    return settings, settings.profiling


def require_target(settings: StreamJob) -> None:
    """Raise ``SettingsError`` where nothing rescales the job."""
    if isinstance(settings.target, AdvisorySettings):
        raise SettingsError(
            f"job '{settings.name}': its target is advisory, which rescales nothing; name the cluster, as "
            f"{DOCS / 'targets.md'} shows"
        )


@contextmanager
def running_job(settings: StreamJob, profiling: Profiling) -> Iterator["LiveJob"]:
    """Open a job's metrics, cluster and load, for one process at a time; at the end all of it is closed.

    Raises ``SettingsError`` while another process has it.
    """
    from perdix.control.sources import LiveSource
    from perdix.profiling.live.commands import Load
    from perdix.profiling.live.job import LiveJob
    from perdix.targets.build import build_target

    load = Load(profiling.load)
    with _alone(settings), closing(LiveSource()) as source, closing(build_target(settings)) as target:
        try:
            yield LiveJob(settings, source, target, load, WallClock())
        finally:
            load.stop()


@contextmanager
def _alone(settings: StreamJob) -> Iterator[None]:
    """Hold the job, of this machine's homes: a second profiling would take the first one's scale-out for its own."""
    prometheus = "" if settings.prometheus is None else settings.prometheus.model_dump_json()
    of = f"{settings.engine} {prometheus} {settings.target.model_dump_json()}"
    folder = Path(tempfile.gettempdir()) / f"perdix-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():  # a stranger could make the lock a link to one of this user's files
        raise SettingsError(f"{folder} belongs to somebody else; have it removed, or set TMPDIR to another folder")
    path = folder / f"{hashlib.sha256(of.encode()).hexdigest()[:32]}.lock"
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"job '{settings.name}' is being profiled or sampled by another process; wait until that has ended"
            ) from None
        yield

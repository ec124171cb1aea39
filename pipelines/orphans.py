"""Runs whose process was killed: nobody else would end them, and they hold pools that other runs wait for.

A run of the command line is executed by the command's own process, which Dagster's run monitoring does not watch. So
that process holds a lock for as long as it lives; the kernel releases it, however it ends.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import dagster as dg

PROCESS = "perdix/process"
GOES_ON = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)


@contextmanager
def owned(instance: dg.DagsterInstance) -> Iterator[dict[str, str]]:
    """Yield the tags of a run that this process executes; while it lives, nobody takes the run for an orphan."""
    folder = _locks(instance)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / uuid4().hex
    made = path.with_suffix(".new")
    with made.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made.rename(path)  # only now may others look at it
        try:
            yield {PROCESS: path.name}
        finally:
            path.unlink(missing_ok=True)


def end_orphans(instance: dg.DagsterInstance) -> list[str]:
    """End the runs whose process is gone, as failed; return their ids."""
    ended: list[str] = []
    for path in sorted(_locks(instance).glob("*")):
        if path.suffix or not _is_free(path):
            continue
        wanted = dg.RunsFilter(tags={PROCESS: path.name}, statuses=list(GOES_ON))
        for run in instance.get_runs(wanted):
            instance.report_run_failed(run, "the process that executed it was killed")
            ended.append(run.run_id)
        path.unlink(missing_ok=True)
    return ended


def _is_free(path: Path) -> bool:
    """Say whether the process that held a lock is gone; one that has just ended well has removed it."""
    try:
        with path.open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _locks(instance: dg.DagsterInstance) -> Path:
    return Path(instance.root_directory) / "processes"

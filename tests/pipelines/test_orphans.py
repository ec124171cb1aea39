"""Runs of processes that were killed are ended; those of processes that live are left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from perdix.pipelines.orphans import PROCESS, end_orphans, owned

CHILD = """
import sys, time
from types import SimpleNamespace
from perdix.pipelines.orphans import owned
with owned(SimpleNamespace(root_directory=sys.argv[1])) as tags:
    print(*tags.values(), flush=True)
    time.sleep(600)
"""


@dg.op
def nothing() -> None:
    """A run's step."""


@dg.job
def train() -> None:
    """A run."""
    nothing()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as opened:
        yield opened


def started(instance: dg.DagsterInstance, tags: dict[str, str]) -> str:
    run = instance.create_run_for_job(train, tags=tags, status=dg.DagsterRunStatus.STARTED)
    return run.run_id


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def test_a_run_whose_process_was_killed_is_ended_once(instance: dg.DagsterInstance) -> None:
    command = [sys.executable, "-c", CHILD, instance.root_directory]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        run_id = started(instance, {PROCESS: child.stdout.readline().strip()})
        assert end_orphans(instance) == [], "its process lives"
        assert status(instance, run_id) == dg.DagsterRunStatus.STARTED
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert end_orphans(instance) == [run_id]
    assert status(instance, run_id) == dg.DagsterRunStatus.FAILURE
    assert end_orphans(instance) == []


def test_what_has_ended_is_left_as_it_ended(instance: dg.DagsterInstance) -> None:
    with owned(instance) as tags:
        result = train.execute_in_process(instance=instance, tags=tags)
        assert end_orphans(instance) == []
    assert end_orphans(instance) == []
    assert status(instance, result.run_id) == dg.DagsterRunStatus.SUCCESS


def test_runs_of_others_and_a_home_that_ran_nothing_are_left_alone(instance: dg.DagsterInstance) -> None:
    run_id = started(instance, {})
    elsewhere = started(instance, {PROCESS: "of another machine's home"})
    assert end_orphans(instance) == []
    assert status(instance, run_id) == status(instance, elsewhere) == dg.DagsterRunStatus.STARTED


def test_a_lock_in_the_making_is_nobodys_orphan(instance: dg.DagsterInstance) -> None:
    folder = Path(instance.root_directory) / "processes"
    folder.mkdir()
    (folder / "abc.new").touch()
    assert end_orphans(instance) == []
    assert (folder / "abc.new").exists()

"""What a testbed does to processes that run already, without starting any."""

import fcntl
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdix.cli.output import UserError
from testbed import prerequisites
from testbed.cluster import JOBMANAGER, Cluster
from testbed.layout import Layout
from testbed.processes import Started
from testbed.settings import Testbed


class Running:
    """Processes that run, and what was ended of them."""

    def __init__(self, *names: str) -> None:
        self.names, self.stopped = list(names), list[str]()

    def running(self) -> dict[str, Started]:
        return {name: Started(name, 1, 1, "", "") for name in self.names}

    def stop(self, names: Sequence[str]) -> list[str]:
        self.stopped += names
        return list(names)


def bed(monkeypatch: pytest.MonkeyPatch, folder: Path, *running: str) -> tuple[Cluster, Running]:
    cluster, files = Cluster(Layout(folder), Testbed(workers=2)), Running(*running)
    cluster.layout.prepare()
    monkeypatch.setattr(cluster, "files", files)
    return cluster, files


def test_a_worker_is_not_ended_for_another_size_while_another_command_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, files = bed(monkeypatch, tmp_path, JOBMANAGER, "tm-1", "tm-2")
    with cluster.layout.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another command is busy"):
            cluster.resize("tm-1", 0.25, 256)
    assert files.stopped == []


def test_a_worker_is_not_ended_for_another_size_where_it_could_not_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, files = bed(monkeypatch, tmp_path, "tm-1", "tm-2")
    with pytest.raises(UserError, match="needs the JobManager"):
        cluster.resize("tm-1", 0.25, 256)
    assert files.stopped == []


def test_a_second_up_leaves_workers_that_run_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, files = bed(monkeypatch, tmp_path)
    files.names = [name for name in cluster.processes() if name != "tm-2"]
    monkeypatch.setattr(prerequisites, "require", lambda: None)
    limited = list[str]()
    for name in ("_build", "_start", "_submit"):
        monkeypatch.setattr(cluster, name, lambda *_, **__: None)
    monkeypatch.setattr(cluster, "limit", limited.extend)
    cluster.up()
    assert limited == ["tm-2"]

"""Which running jobs may be put under load, and what is missing of the others."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from perdix.assets.resources import Workspace
from perdix.assets.running_job import profilable_job, require_target, running_job
from perdix.profiling.live.commands import Load
from perdix.settings.yaml_files import SettingsError

PROMETHEUS = "prometheus: {url: 'http://127.0.0.1:9'}\n"
LOAD = "profiling: {load: 'load.sh {per_s}'}\n"
FLINK = "target: {kind: flink, url: 'http://127.0.0.1:9'}\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "conf" / "jobs").mkdir(parents=True)
    return Workspace(home=str(tmp_path / "home"), conf=str(tmp_path / "conf"))


def written(workspace: Workspace, text: str) -> None:
    (workspace.conf_folder() / "jobs" / "orders.yaml").write_text(text)


def test_a_job_that_nothing_scales_may_be_profiled_by_its_commands(workspace: Workspace) -> None:
    written(workspace, PROMETHEUS + LOAD + FLINK)
    settings, profiling = profilable_job(workspace, "orders")
    require_target(settings)
    assert (settings.name, profiling.load) == ("orders", ("load.sh", "{per_s}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "/conf/jobs/orders.yaml (every key: "),
        ("bounds: 3\n", "orders.yaml"),
        (LOAD + FLINK, "its file has no 'prometheus'; add its url and selector"),
        (PROMETHEUS + FLINK, "its file has no 'profiling'; name there the command that puts the job under load"),
        (PROMETHEUS + LOAD + FLINK + "mode: act\n", "is scaled by perdix (mode: act); write mode: advise"),
    ],
)
def test_what_is_missing_is_said_with_the_fix(workspace: Workspace, text: str | None, words: str) -> None:
    if text is not None:
        written(workspace, text)
    with pytest.raises(SettingsError) as caught:
        profilable_job(workspace, "orders")
    assert words in str(caught.value)


def test_a_job_that_nothing_can_rescale_cannot_be_profiled(workspace: Workspace) -> None:
    written(workspace, PROMETHEUS + LOAD)
    settings, _ = profilable_job(workspace, "orders")
    with pytest.raises(SettingsError, match="its target is advisory, which rescales nothing"):
        require_target(settings)


def test_the_load_ends_with_what_it_was_made_for_whatever_happens(workspace: Workspace) -> None:
    sleeper = f"[{sys.executable}, -c, 'import time; time.sleep(600)', '{{per_s}}']"
    written(workspace, PROMETHEUS + FLINK + f"profiling: {{load: {sleeper}}}\n")
    processes = []

    def interrupted() -> None:
        with running_job(*profilable_job(workspace, "orders")) as live:
            live.load.at(5.0)
            assert isinstance(live.load, Load)
            assert live.load._running is not None
            processes.append(live.load._running[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert processes[0].poll() is not None


def test_a_job_is_profiled_by_one_process_at_a_time(workspace: Workspace, tmp_path: Path) -> None:
    """The second one would take the first one's scale-out for the job's own, and give it back at its end."""
    written(workspace, PROMETHEUS + FLINK + LOAD)
    found, elsewhere = profilable_job(workspace, "orders"), Workspace(home=str(tmp_path / "2"), conf=workspace.conf)
    with running_job(*found):
        second = running_job(*profilable_job(elsewhere, "orders"))
        with pytest.raises(SettingsError, match="is being profiled or sampled by another process"):
            second.__enter__()
    with running_job(*found):
        pass


def test_locks_are_kept_in_no_folder_of_somebody_else(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    written(workspace, PROMETHEUS + LOAD + FLINK)
    settings, profiling = profilable_job(workspace, "orders")
    monkeypatch.setattr("perdix.assets.running_job.os.getuid", lambda: 4_711)
    with pytest.raises(SettingsError, match="perdix-4711 belongs to somebody else"), running_job(settings, profiling):
        pass

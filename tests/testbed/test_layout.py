"""Where a testbed lives, and what it remembers."""

from pathlib import Path

import pytest

from perdix.settings.yaml_files import SettingsError
from testbed.layout import Layout
from testbed.settings import Ports, Testbed


def test_what_up_was_told_is_known_to_the_other_verbs(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.recall() is None
    told = Testbed(workers=3, cores=0.2, ports=Ports().shifted(7))
    layout.remember(told)
    assert layout.recall() == told


@pytest.mark.parametrize("content", ["", "{", '{"workers": 0}', '{"wrokers": 3}'])
def test_settings_that_somebody_broke_are_named_with_the_mend(tmp_path: Path, content: str) -> None:
    layout = Layout(tmp_path)
    layout.remembered.write_text(content)
    with pytest.raises(SettingsError, match=r"testbed\.json: .*then remove it"):
        layout.recall()


def test_two_testbeds_do_not_share_a_cgroup(tmp_path: Path) -> None:
    assert Layout(tmp_path / "a").tag != Layout(tmp_path / "b").tag


def test_a_new_cluster_finds_no_records_but_what_prometheus_had(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.prepare()
    for folder in (layout.kafka_data, layout.checkpoints, layout.prometheus_data):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "old").write_text("old")
    layout.forget_data()
    assert not (layout.kafka_data / "old").exists()
    assert not (layout.checkpoints / "old").exists()
    assert (layout.prometheus_data / "old").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="give --state another folder"):
        Layout(tmp_path / "file" / "below").prepare()

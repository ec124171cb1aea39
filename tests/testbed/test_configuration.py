"""The configuration that is written is what the programs read."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from testbed import configuration
from testbed.layout import Layout
from testbed.settings import Ports, Testbed


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "a folder")
    configuration.write(layout, Testbed(workers=3, checkpoint_interval_s=7, ports=Ports().shifted(100)))
    return layout


def yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def properties(path: Path) -> dict[str, str]:
    lines = (line for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def test_flink_listens_on_loopback_and_rescales_at_once(layout: Layout) -> None:
    flink = yaml(layout.conf / "flink" / "config.yaml")
    for key in ("jobmanager.bind-host", "rest.bind-address", "taskmanager.bind-host"):
        assert flink[key] == "127.0.0.1"
    assert flink["rest.port"] == 18_181
    assert flink["rest.bind-port"] == "18181"
    assert flink["jobmanager.scheduler"] == "adaptive"
    assert flink["slot.idle.timeout"] == 2000
    assert flink["execution.checkpointing.interval"] == "7s"
    assert flink["execution.checkpointing.dir"] == layout.checkpoints.as_uri()


def test_flinks_own_cooldown_and_delay_can_be_had(layout: Layout) -> None:
    flink = yaml(layout.conf / "flink" / "config.yaml")
    assert flink["jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"] == "2s"
    assert configuration.TRIGGER_DELAY not in flink
    configuration.write(layout, Testbed(cooldown_s=30, trigger_delay_s=0))
    flink = yaml(layout.conf / "flink" / "config.yaml")
    assert flink["jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"] == "30s"
    assert flink[configuration.TRIGGER_DELAY] == "0s"


def test_kafka_is_its_own_controller_on_loopback(layout: Layout) -> None:
    kafka = properties(layout.conf / "kafka.properties")
    assert kafka["listeners"] == "PLAINTEXT://127.0.0.1:19192,CONTROLLER://127.0.0.1:19193"
    assert kafka["controller.quorum.voters"] == "1@127.0.0.1:19193"
    assert kafka["log.dirs"] == str(layout.kafka_data)


def test_prometheus_scrapes_every_worker_every_second(layout: Layout) -> None:
    prometheus = yaml(layout.conf / "prometheus.yml")
    assert prometheus["global"]["scrape_interval"] == "1s"
    scraped = {job["job_name"]: job["static_configs"][0]["targets"] for job in prometheus["scrape_configs"]}
    assert scraped == {
        "flink-jm": ["127.0.0.1:19349"],
        "flink-tm": ["127.0.0.1:19351", "127.0.0.1:19352", "127.0.0.1:19353"],
        "kafka": ["127.0.0.1:19504"],
    }


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (Debian package prometheus)")
def test_prometheus_itself_finds_nothing_wrong(layout: Layout) -> None:
    done = subprocess.run(
        ["promtool", "check", "config", layout.conf / "prometheus.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_left_to_be_filled_in(layout: Layout) -> None:
    for path in (layout.conf / "flink" / "config.yaml", layout.conf / "kafka.properties"):
        assert "$" not in path.read_text()


def test_writing_again_replaces(layout: Layout) -> None:
    configuration.write(layout, Testbed(workers=1))
    assert yaml(layout.conf / "flink" / "config.yaml")["rest.port"] == 18_081

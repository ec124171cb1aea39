"""Writes the configuration that the processes read, from the templates beside this module."""

from __future__ import annotations

import shutil
from string import Template

from testbed.layout import TEMPLATES, Layout
from testbed.settings import HOST, Testbed

TRIGGER_DELAY = "jobmanager.adaptive-scheduler.rescale-trigger.max-delay"


def write(layout: Layout, testbed: Testbed) -> None:
    """Write every file below ``layout.conf``; what was there is replaced."""
    flink = layout.conf / "flink"
    flink.mkdir(parents=True, exist_ok=True)
    values = _values(layout, testbed)
    for template, place in {
        "flink.yaml": flink / "config.yaml",
        "kafka.properties": layout.conf / "kafka.properties",
        "prometheus.yml": layout.conf / "prometheus.yml",
    }.items():
        text = Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)
        place.write_text(text, encoding="utf-8")
    for name in ("log4j.properties", "jmx.yaml"):
        shutil.copyfile(TEMPLATES / name, layout.conf / name)


def _values(layout: Layout, testbed: Testbed) -> dict[str, object]:
    targets = ", ".join(f'"{HOST}:{testbed.metrics_port(worker)}"' for worker in testbed.worker_names())
    delay = "" if testbed.trigger_delay_s is None else f"{TRIGGER_DELAY}: {testbed.trigger_delay_s}s\n"
    return {
        "host": HOST,
        **testbed.ports.model_dump(),
        "cooldown_s": testbed.cooldown_s,
        "trigger_delay": delay,
        "checkpoint_interval_s": testbed.checkpoint_interval_s,
        "checkpoints_url": layout.checkpoints.as_uri(),
        "flink_data": layout.flink_data,
        "kafka_data": layout.kafka_data,
        "taskmanager_targets": targets,
    }

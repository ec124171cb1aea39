"""Who scales the job of a testbed: perdix' controller with any policy, or the Flink Autoscaler itself.

Belongs here: what is written and started for each. Does not belong here: when (:mod:`testbed.run`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from perdix.cli.output import UserError
from perdix.replay.contenders import contender
from perdix.settings.home import CONF_VARIABLE, HOME_VARIABLE, PROJECT, Home
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings, PrometheusSource, StreamJob
from perdix.settings.targets import FlinkSettings
from testbed.build import AUTOSCALER_JAR
from testbed.exported import STEP_S, selector
from testbed.settings import Testbed

APACHE = "apache-flink-autoscaler"
PREFIX = "job.autoscaler."
NOTHING_SCALES = "static-"

# What its documentation advises for jobs whose load changes within minutes: shorter windows, a margin above the target
# that is left before the worker is saturated, restarts as long as they are here, and no hour of waiting to scale in.
TUNED: Mapping[str, str] = {
    "stabilization.interval": "30s",
    "metrics.window": "60s",
    "target.utilization": "0.7",
    "target.utilization.boundary": "0.15",
    "scale-down.interval": "3m",
    "catch-up.duration": "1m",
    "restart.time": "10s",
}


@dataclass(frozen=True)
class Live:
    """One that takes part."""

    label: str  # as the user wrote it
    policy: PolicySettings | None  # what perdix' controller decides by; ``None`` for the Flink Autoscaler
    options: Mapping[str, str]  # of the Flink Autoscaler, without their prefix
    interval_s: int  # seconds between two looks
    start: int | None = None  # parallelism that it begins with; ``None``: as all others do
    grace_s: float | None = 0.0  # as :attr:`perdix.replay.case.Contender.grace_s`

    @property
    def name(self) -> str:
        """The label as files are named by it."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.label)


def live(label: str, bounds: Bounds) -> Live:
    """Return who is meant: ``daedalus:tick_s=15``, ``hpa-80``, ``static-6``, ``apache-flink-autoscaler[:tuned]``.

    Further options of the Flink Autoscaler follow colons, without ``job.autoscaler.``.

    Raises ``SettingsError`` as :func:`perdix.replay.contenders.contender`.
    """
    words, *pairs = label.split(":")
    if words != APACHE:
        found = contender(label, bounds)
        start = int(found.settings.options["scale_out"]) if words.startswith(NOTHING_SCALES) else None
        return Live(label, found.settings, {}, found.tick_interval_s, start, found.grace_s)
    options = dict(TUNED) if "tuned" in pairs else {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if equals:
            options[key] = value
        elif pair != "tuned":
            raise UserError(f"{label}: '{pair}' has no value; write {pair}=VALUE, or 'tuned'")
    options.setdefault("vertex.max-parallelism", str(bounds.maximum))
    return Live(label, None, options, 10)


def job_file(contender: Live, testbed: Testbed, bounds: Bounds, objectives: Objectives, home: Home) -> Path:
    """Write the stream job of a testbed into a home of perdix; return the file."""
    if contender.policy is None:
        raise ValueError(f"{contender.label} is not decided by perdix")
    job = StreamJob(
        name=testbed.job,
        prometheus=PrometheusSource.model_validate(
            {
                "url": testbed.prometheus_url,
                "selector": selector(testbed),
                "scrape_interval_s": STEP_S,
            }
        ),
        bounds=bounds,
        objectives=objectives,
        policy=contender.policy,
        grace_s=contender.grace_s,
        target=FlinkSettings.model_validate({"url": testbed.flink_url}),
        mode="act",
    )
    home.jobs.mkdir(parents=True, exist_ok=True)
    path = home.jobs / f"{testbed.job}.yaml"
    with path.open("w", encoding="utf-8") as file:
        document = job.model_dump(mode="json", exclude_none=True)
        document["objectives"] = objectives.model_dump(mode="json")  # None of them says something
        YAML(typ="safe").dump(document, file)
    return path


def command(contender: Live, testbed: Testbed, home: Home) -> Sequence[str]:
    """Return what is to be started."""
    if contender.policy is None:
        options = [f"--{PREFIX}{name}={value}" for name, value in contender.options.items()]
        return [
            "java", "-Xmx256m", "-jar", str(AUTOSCALER_JAR),
            "--url", testbed.flink_url, "--interval-s", str(contender.interval_s), *options,
        ]  # fmt: skip
    program = str(Path(sys.executable).parent / "perdix")
    where = [f"{HOME_VARIABLE}={home.root}", f"{CONF_VARIABLE}={PROJECT / 'conf'}"]
    return ["env", *where, program, "controller", "--json", "--interval", str(contender.interval_s)]

"""What an episode is like without faults: its jobs, their load, and the seeds of their twins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from perdix.settings.stream_job import Bounds, Objectives, PolicySettings, PrometheusSource, StreamJob
from perdix.settings.targets import FlinkSettings, KubernetesSettings, TargetSettings, TwinSettings
from perdix.twin.parameters import Keys, TwinParameters, Workers
from perdix.twin.workloads import Arrivals, WorkloadSpec

START_S = 1_760_000_000
MINUTE_S = 60
WARM_S = 2_400
STEP_S = 5
MAXIMUM = 8
START_SCALE_OUT = 4
PER_WORKER = 10_000.0
EXACT = "hpa"  # without its tolerance, it runs one size at one load, however it came there
LIGHT = ("hpa", "hpa", "ds2-global")
LEARNED = ("daedalus", "perdix")
# How every episode ends: hardly any load, until what waited is done and the fewest workers run; then up to a plateau.
# So all runs come to it the same way.
STORM_MIN, IDLE_MIN, RAMP_MIN, PLATEAU_MIN = 50, 35, 20, 20
END_MIN = IDLE_MIN + RAMP_MIN + PLATEAU_MIN
EPISODE_MIN = STORM_MIN + END_MIN
DAY_MIN = 24 * 60 + END_MIN
# What the load does before the end: waves of up to an hour, one of a day, or none
WAVES, SLOW, STEADY = "waves", "slow", "steady"
IDLE = 0.03  # of the high load
CLIMATES = 16
OVER_HTTP = frozenset({11, 12, 13})  # whose jobs are read over a Prometheus' HTTP API
SHARING = frozenset({13})  # both of one server
SHARED = "prometheus.storm"
LIMITED = frozenset({10})  # whose jobs may be rescaled a few times a day
MANY, FEW = 1_000, 6
WITH_OPERATORS = frozenset({14, 15})  # where loops size the operators of a third job


@dataclass(frozen=True)
class Load:
    """Records/s as time passes: waves while it storms, then idleness, a ramp and a plateau."""

    low_per_s: float
    high_per_s: float
    period_s: float
    ends_s: float

    def arrivals(self) -> Arrivals:

        def rates(second: int, count: int) -> np.ndarray:
            at_s = second + np.arange(count, dtype=np.float64)
            wave = 0.5 - 0.5 * np.cos(2.0 * np.pi * (at_s - START_S) / self.period_s)
            per_s = self.low_per_s + (self.high_per_s - self.low_per_s) * wave
            left_min = (self.ends_s - at_s) / MINUTE_S
            risen = np.clip((RAMP_MIN + PLATEAU_MIN - left_min) / RAMP_MIN, IDLE, 1.0)
            return np.where(left_min < END_MIN, self.high_per_s * risen, per_s)

        return rates


@dataclass(frozen=True)
class Place:
    """A job of an episode, and the world that it has for itself."""

    job: StreamJob
    load: Load
    seed: int

    def parameters(self) -> TwinParameters:
        return TwinParameters(
            name=self.job.name,
            workers=Workers(capacity_per_s=PER_WORKER, maximum=MAXIMUM, speed_spread=0.03),
            keys=Keys(skew_spread=0.03, redrawn=0.0),
            workload=WorkloadSpec(shape="sine", peak_utilisation=0.8),
            start_scale_out=START_SCALE_OUT,
        )


def places(
    number: int, folder: Path, *, jobs: int = 2, minutes: int = EPISODE_MIN, course: str = WAVES
) -> tuple[Place, ...]:
    """Return the jobs of climate ``number``; the same number is the same climate.

    ``course``: of the load before an episode's end: :data:`WAVES`, :data:`SLOW` or :data:`STEADY`.
    """
    rng = np.random.default_rng([99, number])
    found = []
    for index in range(jobs):
        name = f"job-{index}"
        kind = ("flink", "kubernetes", "twin")[(number + index) % 3]
        learns = LEARNED[index % len(LEARNED)]
        policy = learns if course != WAVES or (number + index) % 4 == 0 else str(rng.choice(LIGHT))
        low = float(rng.uniform(0.7, 1.6)) * PER_WORKER
        high = float(rng.uniform(4.2, 5.2)) * PER_WORKER
        period_s = float(rng.choice([1_800.0, 2_700.0, 3_600.0]))
        if course == SLOW:
            period_s = 24.0 * 3_600.0
        elif course == STEADY:
            low += (high - low) * (number % 5) / 4
        load = Load(low, low if course == STEADY else high, period_s, START_S + max(minutes, EPISODE_MIN) * MINUTE_S)
        job = StreamJob(
            name=name,
            bounds=Bounds(minimum=1, maximum=MAXIMUM - int(rng.integers(0, 2))),
            objectives=Objectives(rescales_per_day=FEW if number in LIMITED and course == WAVES else MANY),
            policy=PolicySettings(name=policy, options={"tolerance": 0.0} if policy == EXACT else {}),
            target=_target(kind, name, folder, ready=number % 2 == 0),
            mode="act",
            prometheus=_prometheus(number, name) if number in OVER_HTTP else None,
        )
        found.append(Place(job, load, int(rng.integers(1_000))))
    return tuple(found)


def _prometheus(number: int, name: str) -> PrometheusSource:
    server = SHARED if number in SHARING else f"prometheus.{name}"
    return PrometheusSource.model_validate(
        {"url": f"http://{server}", "selector": {"namespace": name, "topic": name, "job_name": name}}
    )


def _target(kind: str, name: str, folder: Path, *, ready: bool) -> TargetSettings:
    if kind == "flink":
        return FlinkSettings.model_validate({"url": f"http://flink.{name}"})
    if kind == "twin":
        return TwinSettings.model_validate({"url": f"http://twin.{name}"})
    return KubernetesSettings(kubeconfig=_kubeconfig(name, folder), namespace="storm", name=name, ready=ready)


def _kubeconfig(name: str, folder: Path) -> Path:
    path = folder / f"{name}.kubeconfig"
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "storm",
        "contexts": [{"name": "storm", "context": {"cluster": "storm", "user": "perdix"}}],
        "clusters": [{"name": "storm", "cluster": {"server": f"http://kubernetes.{name}"}}],
        "users": [{"name": "perdix", "user": {"token": "storm"}}],
    }
    path.write_bytes(orjson.dumps(text))  # JSON is YAML
    return path

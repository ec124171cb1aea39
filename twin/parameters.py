"""What makes one stream job's twin: read from ``conf/twins/<name>.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from settings.home import conf_folder
from settings.stream_job import Engine, Strict
from settings.yaml_files import load_model
from twin.workloads import WorkloadSpec

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Spread = Annotated[float, Field(ge=0, le=1)]


class Workers(Strict):
    """The workers, and how a second worker is worth less than the first.

    Attributes
    ----------
    capacity_per_s
        Records/s of a mean worker that runs alone at CPU 1.
    maximum
        Largest scale-out.
    speed_spread
        Standard deviation of the log of a worker's own speed: hosts differ.
    contention, coherency
        Universal scalability law: efficiency of n workers is ``1 / (1 + contention (n-1) + coherency n (n-1))``.
    capacity_noise
        Relative standard deviation of the capacity from second to second.
    """

    capacity_per_s: Positive
    maximum: Annotated[int, Field(ge=1, le=1_000)] = 12
    speed_spread: Spread = 0.08
    contention: Share = 0.02
    coherency: Share = 0.0
    capacity_noise: Share = 0.02


class Keys(Strict):
    """How unevenly the keys fall onto the workers; drawn anew at each rescale."""

    skew_spread: Spread = 0.10
    wobble: Share = 0.02  # relative standard deviation of a worker's share from second to second


class Cpu(Strict):
    """CPU is linear in throughput, with a share that is used even when nothing is processed."""

    idle: Share = 0.08
    noise: Share = 0.01
    averaged_over_s: Annotated[int, Field(ge=1, le=3_600)] = 60


class RandomTime(Strict):
    """A log-normal time in seconds; the twin rounds it up to whole seconds."""

    median_s: Annotated[float, Field(ge=1, le=3_600)]
    spread: Spread = 0.25


class Restart(Strict):
    """How long the job stands still, and how it starts."""

    out: RandomTime = RandomTime(median_s=28.0)
    in_: Annotated[RandomTime, Field(alias="in")] = RandomTime(median_s=16.0)
    failure: RandomTime = RandomTime(median_s=20.0)
    detection: RandomTime = RandomTime(median_s=8.0, spread=0.4)
    checkpoint_interval_s: Annotated[int, Field(ge=1, le=3_600)] = 10
    warm_up_s: Annotated[int, Field(ge=0, le=600)] = 30
    warm_up_speed: Annotated[float, Field(gt=0, le=1)] = 0.7


class Latency(Strict):
    """End-to-end latency (p95): a base, queueing that grows with utilisation, and the age of what waited."""

    base_ms: Positive = 1_000.0
    queueing: Annotated[float, Field(ge=0)] = 0.02
    noise: Share = 0.03


class TwinParameters(Strict):
    """One stream job's twin."""

    name: str
    engine: Engine = "flink"
    workers: Workers
    keys: Keys = Keys()
    cpu: Cpu = Cpu()
    restart: Restart = Restart()
    latency: Latency = Latency()
    workload: WorkloadSpec
    start_scale_out: Annotated[int, Field(ge=1)] = 4


def twins_folder() -> Path:
    """Return the folder of the twins' parameters."""
    return conf_folder() / "twins"


def load_twin(name: str, folder: Path | None = None) -> TwinParameters:
    """Read the twin called ``name``; the file of a trace is relative to ``folder``.

    Raises
    ------
    settings.yaml_files.SettingsError
        Naming file, line and mend.
    """
    folder = folder or twins_folder()
    parameters = load_model(folder / f"{name}.yaml", TwinParameters, name=name)
    trace = parameters.workload.file
    if trace is None or trace.is_absolute():
        return parameters
    found = parameters.workload.model_copy(update={"file": folder / trace})
    return parameters.model_copy(update={"workload": found})


def load_twins(folder: Path | None = None) -> dict[str, TwinParameters]:
    """Read every twin of ``folder`` (default ``conf/twins``), by name."""
    folder = folder or twins_folder()
    return {path.stem: load_twin(path.stem, folder) for path in sorted(folder.glob("*.yaml"))}

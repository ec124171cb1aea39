"""One run: the job of a testbed under one contender, on one workload, measured."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from perdix.cli.output import UserError
from perdix.control.state.ledger import Entry
from perdix.control.state.store import StateStore
from perdix.replay.outcome import Played
from perdix.settings.home import Home
from perdix.settings.stream_job import Bounds, Objectives
from perdix.settings.targets import FlinkSettings
from perdix.targets.flink.target import FlinkTarget
from testbed import exported
from testbed.build import AUTOSCALER, build, stale
from testbed.cluster import Cluster
from testbed.contenders import Live, command, job_file
from testbed.measured import played, quantiles_ms

CONTROLLER, LOAD = "controller", "load"
LAST_SCRAPES_S = 3.0
SETTLE_S = 120.0


@dataclass(frozen=True)
class Workload:
    """What arrives: the arguments of ``python -m testbed load``, and for how long."""

    name: str  # for tables
    arguments: tuple[str, ...]  # without ``--seconds`` and ``--state``
    seconds: int  # how long it lasts
    # Seconds of it before anything scales or is measured, on all workers and with CPU to spare: their JVMs load and
    # compile what they need. A worker that is cold would look like one that is weak
    before_s: int = 90


@dataclass(frozen=True)
class Scaled:
    """What is asked of the job that is scaled, and the parallelism that it begins with."""

    bounds: Bounds
    objectives: Objectives
    start: int


@dataclass(frozen=True)
class Run:
    """A run and what it came to."""

    played: Played  # as a replay reports it
    latency_ms: tuple[float, float, float]  # p50, p95 and p99 over all records of the run, in ms
    decisions: tuple[Entry, ...] = ()  # of perdix' ledger, oldest first; empty for others
    exports: tuple[Path, ...] = field(default=())  # files for ``perdix ingest``


def run(
    cluster: Cluster,
    contender: Live,
    workload: Workload,
    home: Home,
    scaled: Scaled,
    *,
    exports: Path,
    repeat: int = 1,
    say: Callable[[str], None] = print,
) -> Run:
    """Bring the testbed up, let ``contender`` scale its job under a workload, and measure; the testbed ends down.

    Raises ``UserError`` when the testbed does not come up, or what scales or loads ends before its time.

    ``home``: of perdix: what it has learned before is used, and what it learns is kept there.
    ``exports``: folder for what Prometheus has of the run.
    """
    testbed = cluster.testbed
    cluster.layout.prepare()
    if contender.policy is None and stale([AUTOSCALER]):
        build(AUTOSCALER, cluster.layout.logs / "maven-autoscaler.log")
    with ExitStack() as stack:
        stack.callback(cluster.down)
        cluster.up()
        arriving = loading(cluster, workload)
        stack.callback(arriving.kill)
        say(f"{contender.label}: warming up for {workload.before_s} s")
        cluster.limit(testbed.worker_names(), testbed.boot_cores)
        _wait(workload.before_s, arriving, LOAD)
        begin(cluster, contender.start or scaled.start)
        if contender.policy is not None:
            job_file(contender, testbed, scaled.bounds, scaled.objectives, home)
        scaling = cluster.files.start(CONTROLLER, command(contender, testbed, home))
        stack.callback(cluster.files.stop, [CONTROLLER])
        start_s = time.time()
        say(f"{contender.label}: measuring for {workload.seconds - workload.before_s} s")
        while arriving.poll() is None:
            time.sleep(1.0)
            if not cluster.files.is_running(CONTROLLER):
                raise UserError(
                    f"{contender.label} ended too early (pid {scaling.pid}):\n{cluster.files.end_of_log(CONTROLLER)}"
                )
        if arriving.returncode:
            raise UserError(f"the load ended with code {arriving.returncode}; see {cluster.layout.logs / 'load.log'}")
        end_s = time.time()
        time.sleep(LAST_SCRAPES_S)
        files = exported.export(testbed, start_s - workload.before_s, end_s, exports)
        return _measured(
            cluster,
            contender,
            workload,
            _decisions(home, testbed.job, start_s) if contender.policy is not None else (),
            span_s=(start_s, end_s),
            objective_ms=scaled.objectives.latency_p95_ms,
            repeat=repeat,
            exports=tuple(files),
        )


def _measured(
    cluster: Cluster,
    contender: Live,
    workload: Workload,
    decisions: tuple[Entry, ...],
    *,
    span_s: tuple[float, float],
    objective_ms: float,
    repeat: int,
    exports: tuple[Path, ...],
) -> Run:
    applied = {decision.applied_s: decision for decision in decisions if decision.applied_s is not None}
    predicted = {at: entry.intent.predicted_recovery_s for at, entry in applied.items() if at is not None}
    ran = played(
        exported.window(cluster.testbed, *span_s),
        contender=contender.label,
        trace=workload.name,
        repeat=repeat,
        objective_ms=objective_ms,
        predicted_s={at: value for at, value in predicted.items() if value is not None},
        ticks=len(decisions),
    )
    below = exported.records_below(cluster.testbed, *span_s)
    p50, p95, p99 = quantiles_ms(below, [0.5, 0.95, 0.99])
    return Run(ran, (p50, p95, p99), decisions, exports)


def _decisions(home: Home, job: str, since_s: float) -> tuple[Entry, ...]:
    store = StateStore(home.state_url)
    try:
        return tuple(reversed(store.ledger.decisions(job, since_s=since_s, limit=100_000)))
    finally:
        store.close()


def loading(cluster: Cluster, workload: Workload) -> subprocess.Popen[bytes]:
    """Start to play a workload into a testbed; return the process."""
    words = [sys.executable, "-m", "testbed", "load", "--state", str(cluster.layout.root)]
    with (cluster.layout.logs / "load.log").open("wb") as log:
        return subprocess.Popen(
            [*words, "--seconds", str(workload.seconds), *workload.arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )


def begin(cluster: Cluster, scale_out: int) -> None:
    """Put quotas on the workers, and the job at a parallelism; wait until it runs.

    Raises ``UserError`` when it does not within two minutes.
    """
    testbed = cluster.testbed
    cluster.limit(testbed.worker_names())
    with FlinkTarget(FlinkSettings.model_validate({"url": testbed.flink_url}), testbed.job) as target:
        target.scale(scale_out, "begin")
        until = time.monotonic() + SETTLE_S
        while not (now := target.read()).is_at(scale_out, {}) or not now.settled:
            if time.monotonic() > until:
                raise UserError(f"the job does not run at {scale_out} within {SETTLE_S:.0f} s")
            time.sleep(0.5)


def _wait(seconds: float, process: subprocess.Popen[bytes], name: str) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise UserError(f"{name} ended with code {process.returncode} before its time")
        time.sleep(0.5)

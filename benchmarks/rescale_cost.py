"""What one rescale of a real Flink costs, by when its checkpoint is triggered; on the testbed, with Flink's cooldown.

    python -m benchmarks.rescale_cost --states-mb 10,200,1000 --rescales 5

Ways, each out and in by turns between two sizes, at a constant load that both carry:

* ``request``: the request, and a checkpoint triggered right after it.
* ``first``: a checkpoint, wait until it is complete, then the request; Flink does not wait for another checkpoint
  (``rescale-trigger.max-delay: 0``).
* ``last``: the request, and the checkpoint once the slots are there and the cooldown is over.
* ``perdix``: what its target does on such a cluster.

It reports how long each took until the job stopped, for how long it stood still (until every subtask ran), how many
records were read again (those that came between the checkpoint that was restored and the stop), and when nothing
waited any more, from the request on. Needs what testbed/README.md names. What was measured before under the same
conditions is not measured again.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.harness import grouped
from perdix.cli.output import console, table
from perdix.settings.targets import FlinkSettings
from perdix.targets.flink.target import FlinkTarget
from perdix.telemetry import metrics
from testbed import exported
from testbed.cluster import Cluster
from testbed.flink import JobManager
from testbed.layout import Layout
from testbed.run import Workload, begin, loading
from testbed.settings import Testbed

WORDS = 2_000  # keys of the state
COVERED_S = 45.0  # in which every word has come
LOOK_S = 0.1
PATIENCE_S = 240.0
CALM_S = 3  # seconds in a row in which no more waits than usual


@dataclass(frozen=True)
class Cost:
    """What one rescale cost."""

    way: str
    state: int
    since_s: int
    to: int
    waited_s: float  # from the request until the job stopped
    standstill_s: float  # from then on, until every subtask ran
    again: float  # records that were read again
    nothing_waits_s: float | None  # from the request until nothing waited any more; ``None``: not within four minutes
    state_mb: float  # of the checkpoint that was restored


@dataclass
class Job:
    """The job of a testbed, as the ways see it."""

    flink: JobManager
    jid: str
    testbed: Testbed

    def look(self) -> dict[str, Any]:
        document: dict[str, Any] = self.flink.get(f"/jobs/{self.jid}")
        return document

    def runs(self, document: dict[str, Any], scale_out: int) -> bool:
        """Whether every subtask runs, of as many as that."""
        tasks = [vertex["tasks"]["RUNNING"] for vertex in document["vertices"]]
        return document["state"] == "RUNNING" and bool(tasks) and all(count == scale_out for count in tasks)

    def since_s(self) -> float:
        """Return for how many seconds the job has run as it does."""
        document = self.look()
        return float(document["now"] - document["timestamps"]["RUNNING"]) / 1e3

    def request(self, scale_out: int) -> None:
        """Put the upper bound of every vertex."""
        path = f"/jobs/{self.jid}/resource-requirements"
        bounds = {"parallelism": {"lowerBound": 1, "upperBound": scale_out}}
        self.flink.ask("PUT", path, dict.fromkeys(self.flink.get(path), bounds))

    def checkpoint(self, *, wait: bool = False) -> None:
        """Trigger a checkpoint, and wait until it is complete."""
        path = f"/jobs/{self.jid}/checkpoints"
        number = self.flink.ask("POST", path, {"checkpointType": "CONFIGURED"})["request-id"]
        while wait and self.flink.get(f"{path}/{number}")["status"]["id"] != "COMPLETED":
            time.sleep(LOOK_S)

    def checkpoints(self) -> dict[int, tuple[float, float]]:
        """Return id -> (when it was triggered as epoch seconds, size in MB) of the newest complete checkpoints."""
        history = self.flink.get(f"/jobs/{self.jid}/checkpoints")["history"]
        done = (row for row in history if row["status"] == "COMPLETED")
        return {row["id"]: (row["trigger_timestamp"] / 1e3, row["state_size"] / 1e6) for row in done}

    def restored(self) -> int:
        """Return the id of the checkpoint that the job began with."""
        return int(self.flink.get(f"/jobs/{self.jid}/checkpoints")["latest"]["restored"]["id"])


def _request(job: Job, scale_out: int) -> None:
    job.request(scale_out)
    job.checkpoint()


def _first(job: Job, scale_out: int) -> None:
    job.checkpoint(wait=True)
    job.request(scale_out)


def _last(job: Job, scale_out: int) -> None:
    cooling_s = job.testbed.cooldown_s + 0.5 - job.since_s()
    job.request(scale_out)
    time.sleep(max(cooling_s, 1.0))  # free slots are the job's after a few tenths
    job.checkpoint()


def _perdix(job: Job, scale_out: int) -> None:
    settings = FlinkSettings.model_validate({"url": job.testbed.flink_url})
    with FlinkTarget(settings, job.testbed.job) as target:
        target.read()
        note = target.scale(scale_out, "rescale").note
    if note:
        console.print(note)


WAYS: dict[str, Callable[[Job, int], None]] = {"request": _request, "first": _first, "last": _last, "perdix": _perdix}
AT_ONCE = frozenset({"first"})  # for which Flink shall not wait for a checkpoint of its own


def main(
    *,
    states_mb: Annotated[str, typer.Option(help="Sizes of the job's state in MB.")] = "10,200,1000",
    since_s: Annotated[str, typer.Option(help="Seconds since the last rescale at which the next is asked for.")] = "31",
    ways: Annotated[str, typer.Option(help="Which, separated by commas.")] = ",".join(WAYS),
    rescales: Annotated[int, typer.Option(help="Of each way, state and moment.", min=1)] = 5,
    sizes: Annotated[str, typer.Option(help="Parallelism, from and to.")] = "2,3",
    per_s: Annotated[int, typer.Option(help="Load, records/s.", min=1)] = 200,
    cores: Annotated[float, typer.Option(help="CPU quota of a TaskManager.")] = 0.35,
    burn_ms: Annotated[float, typer.Option(help="CPU time per word.")] = 1.0,
    cooldown_s: Annotated[int, typer.Option(help="Flink's, after a rescale.", min=0)] = 30,
    interval_s: Annotated[int, typer.Option(help="Between two checkpoints.", min=1)] = 30,
    folder: Annotated[Path, typer.Option(help="Where results go.")] = Path(".testbed/rescale-cost"),
) -> None:
    """Measure, and print a table."""
    folder = folder.resolve()
    pair = [int(number) for number in sizes.split(",")]
    moments = [int(moment) for moment in since_s.split(",")]
    found: list[Cost] = []
    for state_mb in (int(mb) for mb in states_mb.split(",")):
        asked = [way for way in WAYS if way in ways.split(",")]
        for group in ([way for way in asked if way not in AT_ONCE], [way for way in asked if way in AT_ONCE]):
            if not group:
                continue
            testbed = Testbed(
                workers=max(pair),
                cores=cores,
                burn_ms=burn_ms,
                state_bytes=1_000_000 * state_mb // WORDS,
                heap_mb=128 + 2 * state_mb // min(pair),
                cooldown_s=cooldown_s,
                checkpoint_interval_s=interval_s,
                trigger_delay_s=0 if set(group) <= AT_ONCE else None,
            )
            conditions = {"testbed": testbed.model_dump(mode="json"), "per_s": per_s, "sizes": pair}
            file = folder / f"{state_mb}-{'waits' if testbed.trigger_delay_s is None else 'at-once'}.json"
            costs = _kept(file, conditions)
            due = list(due_of(costs, group, moments, rescales))
            if due:
                for cost in _measured(testbed, due, state_mb, pair, per_s, folder):
                    costs.append(cost)
                    _keep(file, conditions, costs)
                    console.print(f"{cost}")
            found += [cost for cost in costs if cost.way in group]
    _show(found, per_s)
    console.print(f"machine: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")


def due_of(
    costs: Sequence[Cost], ways: Sequence[str], moments: Sequence[int], rescales: int
) -> Iterator[tuple[str, int]]:
    """Yield which rescales are still to be measured: in turns, so that none has the machine's better hours.

    Every second round goes backwards: out and in fall to each way alike.
    """
    for number in range(rescales):
        for since_s in moments:
            for way in ways[:: -1 if number % 2 else 1]:
                if sum(cost.way == way and cost.since_s == since_s for cost in costs) <= number:
                    yield way, since_s


def _measured(
    testbed: Testbed, due: Sequence[tuple[str, int]], state_mb: int, pair: Sequence[int], per_s: int, folder: Path
) -> Iterator[Cost]:
    words = ("--shape", "constant", "--peak-per-s", str(per_s), "--noise", "0", "--vocabulary", str(WORDS))
    cluster = Cluster(Layout(folder / "testbed"), testbed, console.print)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.down)
        cluster.up()
        arriving = loading(cluster, Workload("constant", words, 86_000))
        stack.callback(arriving.kill)
        console.print(f"{state_mb} MB: {COVERED_S:.0f} s until the state is there")
        cluster.limit(testbed.worker_names(), testbed.boot_cores)
        time.sleep(COVERED_S)
        begin(cluster, pair[0])
        flink = stack.enter_context(contextlib.closing(JobManager(testbed)))
        job = Job(flink, flink.job() or "", testbed)
        runs = pair[0]
        for number, (way, since_s) in enumerate(due):
            if number == 0:  # the machine's first is not the job's usual one
                _waited(job, testbed.cooldown_s)
            to = pair[1] if runs == pair[0] else pair[0]
            yield _rescaled(job, testbed, way=way, state=state_mb, since_s=since_s, to=to, per_s=per_s)
            runs = to


def _rescaled(job: Job, testbed: Testbed, *, way: str, state: int, since_s: int, to: int, per_s: int) -> Cost:
    _waited(job, since_s)
    usual = _waiting(testbed, time.time() - 5.0, time.time())
    asked_s = time.time()
    known = job.checkpoints()
    with ThreadPoolExecutor(1) as beside:  # the job may stop while the way still waits
        asking = beside.submit(WAYS[way], job, to)
        stop_s = _until(job, lambda seen: not job.runs(seen, _wide(seen)) or _wide(seen) == to, known)
        again_s = _until(job, lambda seen: job.runs(seen, to), known)
        asking.result()
    known |= job.checkpoints()
    triggered_s, size_mb = known[job.restored()]
    calm_s = _calm_s(testbed, again_s, max(usual.max(initial=0.0), 0.25 * per_s))
    return Cost(
        way=way,
        state=state,
        since_s=since_s,
        to=to,
        waited_s=stop_s - asked_s,
        standstill_s=again_s - stop_s,
        again=per_s * max(stop_s - triggered_s, 0.0),
        nothing_waits_s=None if calm_s is None else calm_s - asked_s,
        state_mb=size_mb,
    )


def _wide(document: dict[str, Any]) -> int:
    return max(int(vertex["parallelism"]) for vertex in document["vertices"])


def _waited(job: Job, since_s: float) -> None:
    while (left_s := since_s - job.since_s()) > 0:
        time.sleep(min(left_s, 1.0))


def _until(job: Job, holds: Callable[[dict[str, Any]], bool], known: dict[int, tuple[float, float]]) -> float:
    """Look at the job until something holds; return when, and add to ``known`` the checkpoints seen on the way."""
    began_s = time.monotonic()
    while True:
        seen = job.look()
        if holds(seen):
            return float(seen["now"]) / 1e3
        known |= job.checkpoints()
        if time.monotonic() - began_s > PATIENCE_S:
            raise RuntimeError(f"the job is not rescaled within {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)


def _waiting(testbed: Testbed, start_s: float, end_s: float) -> Any:
    lag = exported.window(testbed, float(int(start_s)), float(int(end_s))).job_metric(metrics.LAG.name)
    return lag[np.isfinite(lag)]


def _calm_s(testbed: Testbed, since_s: float, usual: float) -> float | None:
    """Return when no more waits than usual, for some seconds; epoch seconds."""
    until_s = since_s + PATIENCE_S
    while time.time() < until_s:
        time.sleep(1.0)
        window = exported.window(testbed, float(int(since_s)), float(int(time.time()) - 1))
        lag = window.job_metric(metrics.LAG.name)
        with np.errstate(invalid="ignore"):
            fine = lag <= usual
        for at in range(len(fine) - CALM_S + 1):
            if fine[at : at + CALM_S].all():
                return max(float(window.times_s[at]), since_s)
    return None


def _kept(file: Path, conditions: dict[str, Any]) -> list[Cost]:
    if not file.exists():
        return []
    document = json.loads(file.read_text(encoding="utf-8"))
    return [Cost(**cost) for cost in document["costs"]] if document["conditions"] == conditions else []


def _keep(file: Path, conditions: dict[str, Any], costs: Sequence[Cost]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {"schema": "perdix.rescale-cost/1", "conditions": conditions, "costs": [asdict(cost) for cost in costs]}
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _show(costs: Sequence[Cost], per_s: int) -> None:
    columns = (
        "state MB", "asked after s", "way", "rescales", "until it stops, s", "standstill, s", "read again",
        "nothing waits, s",
    )  # fmt: skip
    by_way = grouped(costs, lambda cost: (cost.state, cost.since_s, cost.way))
    rows = [
        [
            f"{np.median([rescale.state_mb for rescale in found]):,.0f}",
            since_s,
            way,
            len(found),
            _spread([rescale.waited_s for rescale in found]),
            _spread([rescale.standstill_s for rescale in found]),
            _spread([rescale.again for rescale in found], digits=0),
            _spread([PATIENCE_S if rescale.nothing_waits_s is None else rescale.nothing_waits_s for rescale in found]),
        ]
        for (_, since_s, way), found in sorted(by_way.items())
    ]
    table(f"median, p90, max; {per_s} records/s", columns, rows)


def _spread(values: Sequence[float], digits: int = 1) -> str:
    median, p90 = np.quantile(values, [0.5, 0.9])
    return ", ".join(f"{value:,.{digits}f}" for value in (median, p90, max(values)))


if __name__ == "__main__":
    typer.run(main)

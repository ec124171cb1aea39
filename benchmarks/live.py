"""Autoscalers side by side on the real testbed: the same job and trace, one after the other, on a quiet machine.

    python -m benchmarks.live --policies perdix,daedalus,hpa-80,static-8,apache-flink-autoscaler:tuned --minutes 20

With ``--circle`` each contender that uses champions runs a second time, with champions trained on the exports
of all runs that the folder holds by then, as of a job that somebody else has scaled so far.
Needs what testbed/README.md names. Runs that were measured before under the same conditions are not run again.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from ruamel.yaml import YAML

from perdix.cli.output import console, table
from perdix.replay.pictures import draw
from perdix.settings.home import CONF_VARIABLE, HOME_VARIABLE, PROJECT, Home
from perdix.settings.stream_job import Bounds, Objectives
from testbed.cluster import Cluster
from testbed.contenders import Live, live
from testbed.layout import Layout
from testbed.results import Kept, keep, kept
from testbed.run import Run, Scaled, Workload, run
from testbed.settings import Testbed

TRAINED = " (trained)"
UNTRAINED = ("static", "hpa", "flink-autoscaler", "ds2-global")  # nothing that is learned from exports helps these


def main(
    policies: Annotated[str, typer.Option(help="Who takes part, separated by commas.")] = (
        "perdix,daedalus,hpa-80,static-8,apache-flink-autoscaler:tuned"
    ),
    load: Annotated[str, typer.Option(help="Arguments of `python -m testbed load`.")] = (
        "--shape sine --peak-per-s 300 --period-s 600 --low 0.2 --noise 0.05 --seed 1"  # two of its days in a run
    ),
    name: Annotated[str, typer.Option(help="What the load is called in pictures.")] = "testbed",
    minutes: Annotated[float, typer.Option(help="Of each run, warm-up included.", min=2)] = 20.0,
    workers: Annotated[int, typer.Option(help="TaskManagers.")] = 8,
    cores: Annotated[float, typer.Option(help="CPU quota of each.")] = 0.16,
    burn_ms: Annotated[float, typer.Option(help="CPU time per word.")] = 2.0,
    start: Annotated[int, typer.Option(help="Parallelism at first.")] = 4,
    objective_ms: Annotated[float, typer.Option(help="p95 latency to be held.")] = 2_000.0,
    recovery_s: Annotated[float, typer.Option(help="Recovery time objective.")] = 120.0,
    repeats: Annotated[int, typer.Option(help="Runs of each.", min=1)] = 1,
    circle: Annotated[bool, typer.Option(help="Train perdix on the runs so far and run it again.")] = False,
    horizon_s: Annotated[float, typer.Option(help="That forecasters are trained for.", min=60)] = 180.0,
    folder: Annotated[Path, typer.Option(help="Where results go.")] = Path(".testbed/live"),
) -> None:
    """Run the comparison and print it as a table."""
    bounds = Bounds(minimum=1, maximum=workers)
    objectives = Objectives(
        recovery_time_s=recovery_s, latency_p95_ms=objective_ms, checkpoint_interval_s=10.0, rescales_per_day=1_000
    )
    workload = Workload(name, tuple(load.split()), round(60 * minutes))
    testbed = Testbed(workers=workers, cores=cores, burn_ms=burn_ms)
    conditions = {
        "testbed": testbed.model_dump(mode="json"),
        "load": load,
        "seconds": workload.seconds,
        "start": start,
        "objectives": objectives.model_dump(mode="json"),
    }
    folder = folder.resolve()
    found: list[Kept] = []
    for label in policies.split(","):
        one = live(label.strip(), bounds)
        for repeat in range(1, repeats + 1):
            home = Home(folder / "homes" / f"{one.name}-{repeat}")
            again = [False, True] if circle and one.policy is not None and one.policy.name not in UNTRAINED else [False]
            for trained in again:
                file = f"{one.name}-{repeat}{'-trained' if trained else ''}"
                before = kept(folder, file)
                if before is None or before.conditions != conditions:
                    if trained:
                        _train(home, folder, testbed.job, horizon_s)
                    cluster = Cluster(Layout(folder / "testbed"), testbed, console.print)
                    ran = run(
                        cluster, one, workload, home, Scaled(bounds, objectives, start),
                        exports=folder / "exports" / file, repeat=repeat, say=console.print,
                    )  # fmt: skip
                    keep(folder, file, _called(ran, one, trained=trained), conditions)
                    before = kept(folder, file)
                if before is not None:
                    found.append(before)
    _show(found)
    pictures = draw(
        [replay.played for replay in found],
        folder,
        objective_ms=objective_ms,
        note="real Flink, CPU quotas",
        courses=True,
    )
    console.print(f"machine: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    console.print(f"results and {len(pictures)} pictures: {folder}", soft_wrap=True)


def _show(found: list[Kept]) -> None:
    columns = (
        "policy", "worker-s", "workers", "rescales", "p50 ms", "p95 ms", "above objective", "max lag", "lag at end",
        "recoveries, s (predicted)",
    )  # fmt: skip
    rows = []
    for replay in found:
        outcome = replay.played.outcome
        recoveries = [f"{_s(each.observed_s)} ({_s(each.predicted_s)})" for each in outcome.recoveries]
        rows.append(
            [
                outcome.policy,
                f"{outcome.worker_s:,.0f}",
                f"{outcome.average_workers:.2f}",
                outcome.rescales,
                f"{replay.latency_ms[0]:,.0f}",
                f"{replay.latency_ms[1]:,.0f}",
                f"{outcome.share_above_objective:.1%}",
                f"{outcome.lag_maximum_records:,.0f}",
                f"{outcome.lag_at_end_records:,.0f}",
                ", ".join(recoveries),
            ]
        )
    table("", columns, rows)


def _s(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f}"


def _called(ran: Run, contender: Live, *, trained: bool) -> Run:
    label = contender.label + (TRAINED if trained else "")
    return replace(ran, played=replace(ran.played, outcome=replace(ran.played.outcome, policy=label)))


def _train(home: Home, folder: Path, job: str, horizon_s: float) -> None:
    """Ingest the exports of the runs so far and train champions on them, as a user would."""
    program = str(Path(sys.executable).parent / "perdix")
    conf = _conf(folder / "conf", horizon_s)
    environment: dict[str, Any] = {**os.environ, HOME_VARIABLE: str(home.root), CONF_VARIABLE: str(conf)}
    ingested = [["ingest", str(exports), "--job", job] for exports in sorted((folder / "exports").iterdir())]
    for words in [*ingested, ["train", "--job", job]]:
        console.print(f"perdix {' '.join(words)}")
        subprocess.run([program, *words], env=environment, check=True)


def _conf(folder: Path, horizon_s: float) -> Path:
    """Return a copy of the configuration in which forecasters are trained for another horizon."""
    shutil.copytree(PROJECT / "conf", folder, dirs_exist_ok=True)
    yaml = YAML()
    settings = yaml.load(folder / "perdix.yaml")
    settings["training"]["horizon_s"] = horizon_s
    yaml.dump(settings, folder / "perdix.yaml")
    return folder


if __name__ == "__main__":
    typer.run(main)

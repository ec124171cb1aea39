"""A fleet trained, selected and registered in one Dagster run: how long it takes, on what, and what fails.

    python -m benchmarks.fleet_training --jobs 1000 --cores 2     # the whole: Spark, MLflow and Dagster for real
    python -m benchmarks.fleet_training --jobs 100 --cores 1      # how it scales with cores

Writes a seeded lake of N stream jobs with a week of one-minute workload each (nine in a hundred broken on purpose: see
benchmarks/many_jobs.py), then runs the assets ``forecast_candidates`` and ``forecast_champions`` over all of them in a
home of its own. Seconds are by the clock; seconds of a processor beside them tell how much of that was waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.harness import options, write_json
from benchmarks.many_jobs import job_names, write_fleet_lake
from perdix.assets.kept_answers import read_answer
from perdix.assets.resources import Workspace
from perdix.cli import runs
from perdix.cli.output import console, styled
from perdix.settings.home import PROJECT, Home
from perdix.settings.product import TrainingSettings
from perdix.telemetry.lake import Lake

ASSETS = [dg.AssetKey("forecast_candidates"), dg.AssetKey("forecast_champions")]


def prepare(root: Path, asked: argparse.Namespace) -> tuple[Workspace, dict[str, list[str]]]:
    """Return a workspace with its lake written (or linked), and which jobs are broken how."""
    home = Home(root).make()
    conf = root / "conf"
    conf.mkdir()
    for name in ("queries", "expectations", "twins", "dagster.yaml"):
        (conf / name).symlink_to(PROJECT / "conf" / name)
    training = f"forecast_families: [{', '.join(asked.families)}], thorough_families: []"
    (conf / "perdix.yaml").write_text(f"spark: {{master: 'local[{asked.cores}]'}}\ntraining: {{{training}}}\n")
    os.environ["PERDIX_CONF"] = str(conf)
    if asked.lake is None:
        broken = write_fleet_lake(Lake(home.lake), asked.jobs, asked.days, asked.seed)
    else:
        broken = _kept_lake(asked)
        home.lake.symlink_to(asked.lake.resolve())
    return Workspace(home=str(root), conf=str(conf)), broken


def _kept_lake(asked: argparse.Namespace) -> dict[str, list[str]]:
    about = asked.lake / "about.json"
    wanted = {"jobs": asked.jobs, "days": asked.days, "seed": asked.seed}
    if not about.exists():
        asked.lake.mkdir(parents=True, exist_ok=True)
        broken = write_fleet_lake(Lake(asked.lake), asked.jobs, asked.days, asked.seed)
        about.write_text(json.dumps({**wanted, "broken": broken}))
    found = json.loads(about.read_text())
    if {name: found[name] for name in wanted} != wanted:
        raise SystemExit(f"{asked.lake} was made otherwise: {found}; remove it")
    return dict(found["broken"])


def run(workspace: Workspace, jobs: list[str], instance: dg.DagsterInstance) -> dict[str, Any]:
    """Train all jobs in one run; return seconds by stage, and what the assets said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from perdix.pipelines.progress import showing  # noqa: PLC0415
        from perdix.pipelines.training_location import build_training_defs  # noqa: PLC0415

        job = build_training_defs(workspace).resolve_job_def("train")
        began_s = time.perf_counter()
        with showing(lambda said: console.print(styled(f"  {time.strftime('%H:%M:%S')}", "dim"), said)):
            result = job.execute_in_process(
                instance=instance,
                asset_selection=ASSETS,
                tags={runs.RANGE_START: jobs[0], runs.RANGE_END: jobs[-1]},
                run_config={"loggers": {"progress": {"config": {}}}},
                raise_on_error=False,
            )
        total_s = time.perf_counter() - began_s
    if not result.success:
        raise SystemExit("the run failed; see above")
    said = runs.metadata(result)
    return {
        "total_s": total_s,
        "candidates": said["forecast_candidates"],
        "champions": said["forecast_champions"],
        "dagster_s": _event_seconds(instance, result.run_id),
    }


def _event_seconds(instance: dg.DagsterInstance, run_id: str) -> dict[str, float]:
    """Return what Dagster needs to write down that each partition is planned, and done."""
    spent = {"planned": 0.0, "materialized": 0.0}
    before_s: float | None = None
    for entry in instance.all_logs(run_id):
        kind = entry.dagster_event.event_type_value if entry.dagster_event else ""
        if before_s is not None and kind.startswith("ASSET_MATERIALIZATION"):
            spent["planned" if kind.endswith("PLANNED") else "materialized"] += entry.timestamp - before_s
        before_s = entry.timestamp
    return spent


def report(outcome: dict[str, Any], workspace: Workspace, asked: argparse.Namespace, broken: dict[str, Any]) -> None:
    folder = workspace.paths().trainings / "perdix-forecast"
    answers = {job: read_answer(folder, job) or {} for job in job_names(asked.jobs)}
    trained = [answer for answer in answers.values() if not answer.get("error")]
    states = [len(answer["result"]["state"] or "") for answer in trained]
    outcome |= {
        "jobs_per_s": asked.jobs / outcome["total_s"],
        "job_s": _spread([answer["seconds"] for answer in trained]),
        "job_cpu_s": _spread([answer["cpu_s"] for answer in trained]),
        "state_kb": _spread([size / 1e3 for size in states]),
        "winners": Counter(str(answer["result"]["winner"]) for answer in trained).most_common(),
        "broken": {
            kind: answers[jobs[0]].get("error") or answers[jobs[0]]["result"]["verdict"]
            for kind, jobs in broken.items()
        },
        "driver_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "mlflow_mb": sum(path.stat().st_size for path in workspace.paths().mlflow_artifacts.rglob("*.parquet")) / 1e6,
        "dagster_mb": sum(path.stat().st_size for path in workspace.paths().dagster.rglob("*.db")) / 1e6,
    }
    if asked.json:
        write_json(outcome)
        return
    candidates, champions = outcome["candidates"], outcome["champions"]
    print(
        f"\n{asked.jobs} jobs, {asked.days} days of one-minute workload, {asked.cores} core(s), families: "
        f"{', '.join(asked.families)}\n{outcome['total_s']:.0f} s together, {outcome['jobs_per_s']:.2f} jobs/s; "
        f"{candidates['jobs_failed']} failed, {champions['promoted']} promoted\n"
    )
    print("by the clock, s")
    _print_seconds("candidates: ", candidates["clock_s"])
    _print_seconds("champions: ", champions["stages_s"])
    _print_seconds("Dagster: partitions ", outcome["dagster_s"])
    print(f"in Spark's tasks, s of all jobs together ({candidates['cpu_seconds']:.0f} s of a processor)")
    _print_seconds("", candidates["stages_s"])
    for title, name in (("a job, s", "job_s"), ("a job, s of a processor", "job_cpu_s"), ("state, kB", "state_kb")):
        print(f"{title}: " + ", ".join(f"{key} {value:.2f}" for key, value in outcome[name].items()))
    sizes = {"fleet table": "mlflow_mb", "Dagster's log": "dagster_mb", "driver's memory": "driver_mb"}
    print(", ".join(f"{title} {outcome[name]:.0f} MB" for title, name in sizes.items()))
    print("chosen: " + ", ".join(f"{family} {count}" for family, count in outcome["winners"]))
    print("broken jobs, what became of them:")
    for kind, became in outcome["broken"].items():
        print(f"  {kind:<16} {became[:200]}")


def _print_seconds(of: str, seconds: Mapping[str, float]) -> None:
    for name, taken_s in seconds.items():
        print(f"  {of + name:<36} {taken_s:8.1f}")


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p90": ordered[int(0.9 * (len(ordered) - 1))], "most": ordered[-1]}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--cores", type=int, default=2, help="Spark's local cores")
    parser.add_argument("--families", nargs="+", default=list(TrainingSettings().forecast_families))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lake", type=Path, help="keep the lake here, and use it again")
    parser.add_argument("--again", action="store_true", help="train a second time: champions are challenged")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace, broken = prepare(Path(folder), asked)
        jobs = job_names(asked.jobs)
        with runs.instance(workspace.paths()) as instance:
            instance.add_dynamic_partitions("stream_jobs", jobs)
            for _ in range(2 if asked.again else 1):
                report(run(workspace, jobs, instance), workspace, asked, broken)


if __name__ == "__main__":
    main()

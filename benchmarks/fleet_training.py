"""A fleet trained, selected and registered in one Dagster run: how long it takes, on what, and what fails.

    python -m benchmarks.fleet_training --jobs 1000 --cores 2     # the whole: Spark, MLflow and Dagster for real
    python -m benchmarks.fleet_training --jobs 100 --cores 1      # how it scales with cores
    python -m benchmarks.fleet_training --jobs 100 --profile      # where the time of a job goes

Writes a seeded lake of N stream jobs with a week of one-minute workload each (nine in a hundred broken on purpose: see
benchmarks/many_jobs.py), then runs the assets ``forecast_candidates`` and ``forecast_champions`` over all of them in a
home of its own. Seconds are by the clock; seconds of a processor beside them tell how much of that was waiting.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.many_jobs import job_names, write_fleet_lake
from perdix.assets.kept_answers import read_answer
from perdix.assets.resources import Workspace
from perdix.assets.training import tasks as training_tasks
from perdix.cli import runs
from perdix.cli.output import console, styled
from perdix.settings.home import PROJECT, Home
from perdix.settings.product import TrainingSettings
from perdix.telemetry.lake import Lake

ASSETS = [dg.AssetKey("forecast_candidates"), dg.AssetKey("forecast_champions")]
PROFILED = 10  # jobs


def prepare(root: Path, options: argparse.Namespace) -> tuple[Workspace, dict[str, list[str]]]:
    """Return a workspace with its lake written (or linked), and which jobs are broken how."""
    home = Home(root).make()
    conf = root / "conf"
    conf.mkdir()
    for name in ("queries", "expectations", "twins", "dagster.yaml"):
        (conf / name).symlink_to(PROJECT / "conf" / name)
    training = f"forecast_families: [{', '.join(options.families)}], thorough_families: []"
    (conf / "perdix.yaml").write_text(f"spark: {{master: 'local[{options.cores}]'}}\ntraining: {{{training}}}\n")
    os.environ["PERDIX_CONF"] = str(conf)
    if options.lake is None:
        broken = write_fleet_lake(Lake(home.lake), options.jobs, options.days, options.seed)
    else:
        broken = _kept_lake(options)
        home.lake.symlink_to(options.lake.resolve())
    return Workspace(home=str(root), conf=str(conf)), broken


def _kept_lake(options: argparse.Namespace) -> dict[str, list[str]]:
    about = options.lake / "about.json"
    wanted = {"jobs": options.jobs, "days": options.days, "seed": options.seed}
    if not about.exists():
        options.lake.mkdir(parents=True, exist_ok=True)
        broken = write_fleet_lake(Lake(options.lake), options.jobs, options.days, options.seed)
        about.write_text(json.dumps({**wanted, "broken": broken}))
    found = json.loads(about.read_text())
    if {name: found[name] for name in wanted} != wanted:
        raise SystemExit(f"{options.lake} was made otherwise: {found}; remove it")
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


def report(outcome: dict[str, Any], workspace: Workspace, options: argparse.Namespace, broken: dict[str, Any]) -> None:
    folder = workspace.paths().trainings / "perdix-forecast"
    answers = {job: read_answer(folder, job) or {} for job in job_names(options.jobs)}
    trained = [answer for answer in answers.values() if not answer.get("error")]
    states = [len(answer["result"]["state"] or "") for answer in trained]
    outcome |= {
        "jobs_per_s": options.jobs / outcome["total_s"],
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
    if options.json:
        json.dump(outcome, sys.stdout, indent=2, default=str)
        return
    candidates, champions = outcome["candidates"], outcome["champions"]
    print(
        f"\n{options.jobs} jobs, {options.days} days of one-minute workload, {options.cores} core(s), families: "
        f"{', '.join(options.families)}\n{outcome['total_s']:.0f} s together, {outcome['jobs_per_s']:.2f} jobs/s; "
        f"{candidates['jobs_failed']} failed, {champions['promoted']} promoted\n"
    )
    print("by the clock, s")
    for name, seconds in candidates["clock_s"].items():
        print(f"  candidates: {name:<24} {seconds:8.1f}")
    for name, seconds in champions["stages_s"].items():
        print(f"  champions: {name:<25} {seconds:8.1f}")
    for name, seconds in outcome["dagster_s"].items():
        print(f"  Dagster: partitions {name:<16} {seconds:8.1f}")
    print(f"in Spark's tasks, s of all jobs together ({candidates['cpu_seconds']:.0f} s of a processor)")
    for name, seconds in candidates["stages_s"].items():
        print(f"  {name:<36} {seconds:8.1f}")
    for title, name in (("a job, s", "job_s"), ("a job, s of a processor", "job_cpu_s"), ("state, kB", "state_kb")):
        print(f"{title}: " + ", ".join(f"{key} {value:.2f}" for key, value in outcome[name].items()))
    sizes = {"fleet table": "mlflow_mb", "Dagster's log": "dagster_mb", "driver's memory": "driver_mb"}
    print(", ".join(f"{title} {outcome[name]:.0f} MB" for title, name in sizes.items()))
    print("chosen: " + ", ".join(f"{family} {count}" for family, count in outcome["winners"]))
    print("broken jobs, what became of them:")
    for kind, became in outcome["broken"].items():
        print(f"  {kind:<16} {became[:200]}")


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p90": ordered[int(0.9 * (len(ordered) - 1))], "most": ordered[-1]}


def profile(lake: Path, options: argparse.Namespace) -> None:
    """Print where the time of some sound jobs goes, all in this process."""
    settings = TrainingSettings()

    def key(job: str) -> dict[str, Any]:
        return {
            "job": job,
            "lake": str(lake),
            "families": options.families,
            "history_days": settings.history_days,
            "horizon_s": settings.horizon_s,
            "seed": settings.seed,
            "champions": None,
            "shared": None,
            "pictures": False,
        }

    jobs = [job for job in job_names(options.jobs) if job[-1] != "9"][: PROFILED + 1]  # the nines may be broken
    training_tasks.train_forecast(key(jobs[0]))  # imports
    profiler, began_s = cProfile.Profile(time.process_time), time.process_time()
    for job in jobs[1:]:
        profiler.runcall(training_tasks.train_forecast, key(job))
    print(f"{(time.process_time() - began_s) / len(jobs[1:]):.2f} s of a processor per job, under the profiler")
    stats = pstats.Stats(profiler)
    stats.sort_stats("cumulative").print_stats(r"/(assets|models|telemetry)/", 45)
    stats.sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--cores", type=int, default=2, help="Spark's local cores")
    parser.add_argument("--families", nargs="+", default=list(TrainingSettings().forecast_families))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lake", type=Path, help="keep the lake here, and use it again")
    parser.add_argument("--again", action="store_true", help="train a second time: champions are challenged")
    parser.add_argument("--profile", action="store_true", help="only where the time of a job goes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace, broken = prepare(Path(folder), options)
        if options.profile:
            profile(workspace.lake().root, options)
            return
        jobs = job_names(options.jobs)
        with runs.instance(workspace.paths()) as instance:
            instance.add_dynamic_partitions("stream_jobs", jobs)
            for _ in range(2 if options.again else 1):
                report(run(workspace, jobs, instance), workspace, options, broken)


if __name__ == "__main__":
    main()

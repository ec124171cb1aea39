"""``perdix doctor``: is everything here that perdix needs, and if not, what fixes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from perdix.cli.findings import BETWEEN, Finding, show
from perdix.cli.output import JsonOption, emit
from perdix.cli.stores import home, known, no_file
from perdix.settings.counting import counted
from perdix.settings.durations import in_minutes
from perdix.settings.home import Home, conf_folder

if TYPE_CHECKING:
    from perdix.control.job_files import JobFiles
    from perdix.settings.stream_job import StreamJob

OF_TRAINING = (("dagster",), ("pmdarima",), ("pyspark",), ("great-expectations",))
OF_A_CONTROLLER = (("mlflow", "mlflow-skinny"), ("scikit-learn",), ("xgboost", "xgboost-cpu"), ("pandas",))  # either
SHOWN_IN_FULL = 10  # jobs of which every query is shown; of more only what is not well

Check = Callable[[Home, "JobFiles"], Iterator[Finding]]


def doctor(
    spark: Annotated[bool, typer.Option(help="Also start Spark and run a task (about 20 s).")] = True,
    job: Annotated[
        str | None, typer.Option("--job", help="Check the metrics and the target of this job only.", show_default="all")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check Python, Java, Spark, the stores, the configuration, every job's queries and target; name each fix.

    Example: perdix doctor --job ads
    """
    from perdix.cli.doctor_metrics import metrics_of_jobs
    from perdix.control import job_files

    place = home()
    files = job_files.stream_jobs(place)
    if job is not None:
        files = replace(files, jobs={known(job, files.jobs, "job", no_file(), files): files.jobs[job]}, faults={})
    alone = for_a_controller_alone()
    of_machine: list[Check] = [_python, _packages, *([] if alone else [_java]), _state, _mlflow, _configuration]
    of_spark: list[Check] = [_spark] if spark and not alone else []
    findings: list[Finding] = []
    of_jobs: list[Check] = [metrics_of_jobs, _targets, _shared_targets, _profiling]
    checks = of_jobs if job else [*of_machine, *of_jobs, *of_spark]
    for check in checks:
        for finding in _guarded(check, place, files):
            findings.append(finding)
            if not as_json:
                show(finding, in_full=job is not None or len(files.jobs) <= SHOWN_IN_FULL)
    well = all(finding.ok for finding in findings)
    queries = [fact for finding in findings for fact in finding.queries]
    listed = [
        {
            name: "" if name == "fix" and finding.ok else value
            for name, value in vars(finding).items()
            if name != "queries"
        }
        for finding in findings
    ]
    document = {"ok": well, "findings": listed, "queries": queries}
    emit("perdix.doctor/1", document, as_json=as_json, show=lambda: None)
    if not well:
        raise typer.Exit(1)


def _guarded(check: Check, home: Home, files: JobFiles) -> Iterator[Finding]:
    name = check.__name__.strip("_")
    try:
        yield from check(home, files)
    except Exception as error:  # a doctor that falls over its patient is no help
        yield Finding(name, ok=False, found=f"{type(error).__name__}: {error}", fix="see the message")


def _python(*_: object) -> Iterator[Finding]:
    version = sys.version.split()[0]
    yield Finding("python", (3, 11) <= sys.version_info[:2] < (3, 14), version, "use Python 3.11, 3.12 or 3.13")


def _packages(*_: object) -> Iterator[Finding]:
    alone = for_a_controller_alone()
    wanted = OF_A_CONTROLLER if alone else (*OF_TRAINING, *OF_A_CONTROLLER)
    found = {names: next(filter(None, map(_installed, names)), None) for names in wanted}
    missing = ", ".join(names[0] for names, version in found.items() if version is None)
    said = ", ".join(filter(None, found.values()))
    how = "-r deploy/controller/requirements.lock" if alone else "perdix-*.whl, or make install"
    fix = f"{missing}: not installed; pip install {how}"
    yield Finding("packages", not missing, f"{said} (a controller alone)" if alone else said, fix)


def for_a_controller_alone() -> bool:
    """Whether neither Spark nor Dagster is installed: deploy/controller/requirements.lock, which ingests nothing."""
    return find_spec("pyspark") is None and find_spec("dagster") is None


def _installed(name: str) -> str | None:
    with suppress(PackageNotFoundError):
        return f"{name} {version(name)}"
    return None


def _java(home: Home, _: JobFiles) -> Iterator[Finding]:
    from perdix.telemetry.java import NoJava, find_java

    try:
        java = find_java(home.java)
    except NoJava as error:
        yield Finding("java", ok=False, found="none", fix=str(error))
    else:
        yield Finding("java", ok=True, found=f"{java.version}, {java.origin}")


def _state(home: Home, _: JobFiles) -> Iterator[Finding]:
    from perdix.control.clock import WallClock
    from perdix.control.state.store import StateStore

    now_s = WallClock().now_s()
    with closing(StateStore(home.state_url)) as store:
        statuses, last_s = store.journal.statuses(), store.journal.last_tick_s(now_s)
    ticked = "no tick yet" if last_s is None else f"the newest tick began {in_minutes(now_s - last_s)} ago"
    yield Finding("state store", ok=True, found=f"readable, {counted(len(statuses), 'job')} known, {ticked}")


def _mlflow(home: Home, _: JobFiles) -> Iterator[Finding]:
    from perdix.control.champions import Champions
    from perdix.control.clock import WallClock
    from perdix.models.registry import FLEET_MODELS, NoDatabase, RegistryError, prepare

    try:
        registry = prepare(home)
        champions = {name: registry.current_version(name) for name in FLEET_MODELS}
    except NoDatabase as error:
        yield Finding("mlflow", ok=False, found=str(error), fix="do as it says")
        return
    except RegistryError as error:
        yield Finding("mlflow", ok=False, found=str(error), fix="start the server that MLFLOW_TRACKING_URI names")
        return
    if faults := Champions(home.champions, registry).refresh(WallClock().now_s()):
        yield Finding("mlflow", ok=False, found=BETWEEN.join(faults), fix="do as it says, or train anew: perdix train")
        return
    said = ", ".join(
        f"{name} {'version ' + str(v.version) if v else 'not trained yet'}" for name, v in champions.items()
    )
    yield Finding("mlflow", ok=True, found=said)


def _configuration(_: Home, files: JobFiles) -> Iterator[Finding]:
    from perdix.models.forecasting.families import families_named
    from perdix.settings.product import load_product_settings
    from perdix.telemetry.queries import load_series_map

    training = load_product_settings().training
    load_series_map()
    try:
        for name in training.forecast_families + training.thorough_families:
            families_named(name)
    except ValueError as error:
        yield Finding("training", ok=False, found=str(error), fix=f"correct it in {conf_folder() / 'perdix.yaml'}")
    yield Finding("stream jobs", not files.complaints, ", ".join(files.jobs) or "none yet", "\n".join(files.complaints))


def _targets(_: Home, files: JobFiles) -> Iterator[Finding]:
    """Yield a finding per job of Flink or Kubernetes, in the order of the files; one that hangs delays no other."""
    from perdix.cli.doctor_metrics import AT_ONCE, PER_SERVER
    from perdix.control.calls import Call, Calls
    from perdix.control.read_ahead import target_call

    looks = {"flink": _flink_of, "kubernetes": _kubernetes_of}
    jobs = {f"{job.target.kind} of {name}": job for name, job in files.jobs.items() if job.target.kind in looks}

    def call(check: str, job: StreamJob) -> Call[Finding]:
        return Call(target_call(job), lambda: _looked_at(check, job, looks[job.target.kind]), lambda finding: [finding])

    found = {finding.check: finding for finding in Calls(AT_ONCE, PER_SERVER).run(call(*item) for item in jobs.items())}
    yield from (found[check] for check in jobs)


def _shared_targets(_home: Home, files: JobFiles) -> Iterator[Finding]:
    """Yield a finding per target of Flink or Kubernetes that several jobs act on."""
    acting: dict[tuple[str, str], list[str]] = {}
    for name, job in sorted(files.jobs.items()):
        if job.mode == "act" and job.target.kind in {"flink", "kubernetes"}:
            acting.setdefault(_scaled(job), []).append(name)
    for (what, _), names in acting.items():
        if len(names) > 1:
            found = f"{', '.join(names)} all act on {what}, and undo each other's work"
            fix = "let one of them act and the others advise, or correct 'target' in their files"
            yield Finding("targets", ok=False, found=found, fix=fix)


def _scaled(job: StreamJob) -> tuple[str, str]:
    """Return what of Flink or Kubernetes a job scales, in words, and where that is."""
    from perdix.settings.targets import FlinkSettings, KubernetesSettings

    target = job.target
    if isinstance(target, FlinkSettings):
        return f"Flink's job '{target.job_name or job.name}'", str(target.url)
    assert isinstance(target, KubernetesSettings)
    what = f"{target.resource} {target.namespace}/{target.name}"
    return what, f"{target.api_version} {target.kubeconfig} {target.context}"


def _looked_at(check: str, job: StreamJob, look: Callable[[str, StreamJob], Finding]) -> Finding:
    from perdix.targets.contract import TargetError

    try:
        return look(check, job)
    except TargetError as error:
        return Finding(check, ok=False, found=str(error), fix="start it, or correct 'target' in the job's file")
    except Exception as error:  # a defect that one job meets must not end the checks of others
        return Finding(check, ok=False, found=f"{type(error).__name__}: {error}", fix="see the message")


def _kubernetes_of(check: str, job: StreamJob) -> Finding:
    from perdix.targets.build import build_target

    with closing(build_target(job)) as target:
        running = target.read()
    found = f"replicas: {running.requested} asked for, {running.scale_out} run"
    return Finding(check, ok=True, found=found, doubt="" if running.settled else "a rescale or a rollout is under way")


def _flink_of(check: str, job: StreamJob) -> Finding:
    from perdix.control.decide import SHORTEST_GRACE_S
    from perdix.settings.targets import FlinkSettings
    from perdix.targets.flink.target import FlinkTarget

    assert isinstance(job.target, FlinkSettings)
    with FlinkTarget(job.target, job.name) as flink:
        rescaling, advice = flink.looked_over(SHORTEST_GRACE_S if job.grace_s is None else job.grace_s)
        needed, wanted = ([item.sentence for item in advice if item.needed is kind] for kind in (True, False))
        if not needed:
            flink.read()  # as the loop does
    when = "as soon as slots are there" if rescaling.at_once else "at a checkpoint once slots are there"
    found = f"rescales {when}, and not within {rescaling.cooldown_s:.0f} s of the last deployment"
    return Finding(check, ok=not needed, found=found, fix="\n".join(needed), better=BETWEEN.join(wanted))


def _profiling(_: Home, files: JobFiles) -> Iterator[Finding]:
    """Yield a finding per job whose file names commands that put it under load."""
    for name, job in files.jobs.items():
        if job.profiling is not None:
            programs = dict.fromkeys(words[0] for words in job.profiling.commands().values())
            absent = [program for program in programs if shutil.which(program) is None]
            doubt = f"{', '.join(absent)}: not found here, where perdix profile would run it" if absent else ""
            yield Finding(f"profiling of {name}", ok=True, found=", ".join(job.profiling.commands()), doubt=doubt)


def _spark(*_: object) -> Iterator[Finding]:
    """Start the Spark that is configured in a process of its own, so that its JVM ends with the check."""
    from perdix.settings.product import load_product_settings
    from perdix.telemetry.spark.cluster import is_local

    code = "from perdix.cli.doctor import try_spark; try_spark()"
    answer = subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    last = ((answer.stdout.strip() or answer.stderr.strip()).splitlines() or ["no output"])[-1]
    if answer.returncode:
        local = is_local(load_product_settings().spark.master)
        first = "fix java first; then" if local else "start that cluster, or correct"
        fix = f"{first} 'spark' in {conf_folder() / 'perdix.yaml'}"
        yield Finding("spark", ok=False, found=last, fix=fix)
        return
    version, python = last.split(maxsplit=1)
    same = os.path.normpath(python) == os.path.normpath(sys.executable)  # links are kept: they tell environments apart
    yield Finding("spark", same, f"{version}, workers run {python}", "unset PYSPARK_PYTHON")


def try_spark() -> None:
    """Run a task on the Spark that is configured; print its version and its workers' Python, or why it cannot be."""
    from perdix.assets.spark.tasks import interpreter, run_tasks
    from perdix.settings.product import load_product_settings
    from perdix.telemetry.spark.cluster import ClusterError, cause_of
    from perdix.telemetry.spark.session import spark_session

    settings = load_product_settings().spark
    try:
        spark = spark_session(home(), settings.master, settings.conf, short_lived=True)
        typer.echo(f"{spark.version} {run_tasks(spark, [{}], interpreter)[0].result['python']}")
    except Exception as error:
        typer.echo(error.found if isinstance(error, ClusterError) else cause_of(error))
        raise SystemExit(1) from None

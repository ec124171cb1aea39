"""``perdix doctor``: is everything here that perdix needs, and if not, what mends it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cli.options import JsonOption
from cli.output import console, emit, styled
from control.clock import WallClock
from settings.home import Home


@dataclass(frozen=True)
class Finding:
    """One check: what was found, the mend when it is not well, and what would be better when it is."""

    check: str
    ok: bool
    found: str
    mend: str = ""
    better: str = ""


def doctor(
    spark: Annotated[bool, typer.Option(help="Also start Spark and run a task (about 20 s).")] = True,
    as_json: JsonOption = False,
) -> None:
    """Check Python, Java, Spark, the stores, the configuration, each job's Prometheus and Flink; say how to mend.

    Example: perdix doctor --no-spark --json
    """
    home = Home.from_environment()
    checks = [
        _python,
        _packages,
        _java,
        _state,
        _mlflow,
        _configuration,
        _prometheus,
        _flink,
        *([_spark] if spark else []),
    ]
    findings = []
    for check in checks:
        for finding in _guarded(check, home):
            findings.append(finding)
            if not as_json:
                mark = styled("ok    ", "green") if finding.ok else styled("broken", "red")
                console.print(mark, f"{finding.check}: {finding.found}", highlight=False)
                if not finding.ok and finding.mend:
                    console.print(f"       mend: {finding.mend}", highlight=False)
                if finding.better:
                    console.print(f"       better: {finding.better}", highlight=False)
    well = all(finding.ok for finding in findings)
    emit("perdix.doctor/1", {"ok": well, "findings": findings}, as_json=as_json, show=lambda: None)
    if not well:
        raise typer.Exit(1)


def _guarded(check: Callable[[Home], Iterator[Finding]], home: Home) -> Iterator[Finding]:
    name = check.__name__.strip("_")
    try:
        yield from check(home)
    except Exception as error:  # a doctor that falls over its patient is no help
        yield Finding(name, ok=False, found=f"{type(error).__name__}: {error}", mend="see the message")


def _python(_: Home) -> Iterator[Finding]:
    version = sys.version.split()[0]
    yield Finding("python", (3, 11) <= sys.version_info[:2] < (3, 14), version, "use Python 3.11, 3.12 or 3.13")


def _packages(_: Home) -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    missing, found = [], []
    for name in ("dagster", "mlflow", "pmdarima", "pyspark", "scikit-learn", "xgboost", "great-expectations", "pandas"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    yield Finding("packages", not missing, ", ".join(found), f"make install ({', '.join(missing)} missing)")
    ours = Path(importlib.import_module("assets").__file__ or "").resolve()
    here = Path(__file__).resolve().parents[1]
    yield Finding(
        "packages are ours",
        here in ours.parents,
        str(ours),
        "another project's 'assets' comes first: use .venv/bin/perdix",
    )


def _java(home: Home) -> Iterator[Finding]:
    from telemetry.java import NoJava, find_java

    try:
        java = find_java(home.java)
    except NoJava as error:
        yield Finding("java", ok=False, found="none", mend=str(error))
    else:
        yield Finding("java", ok=True, found=f"{java.version}, {java.origin}")


def _state(home: Home) -> Iterator[Finding]:
    from control.state import StateStore

    store = StateStore(home.make().state_url)
    try:
        statuses = store.journal.statuses()
    finally:
        store.close()
    yield Finding("state store", ok=True, found=f"readable, {len(statuses)} jobs known")


def _mlflow(home: Home) -> Iterator[Finding]:
    from models.registry import FLEET_MODELS, RegistryError, prepare

    try:
        registry = prepare(home.make())
        champions = {name: registry.current_version(name) for name in FLEET_MODELS}
    except RegistryError as error:
        yield Finding("mlflow", ok=False, found=str(error), mend="start the server that MLFLOW_TRACKING_URI names")
        return
    said = ", ".join(
        f"{name} {'version ' + str(v.version) if v else 'not trained yet'}" for name, v in champions.items()
    )
    yield Finding("mlflow", ok=True, found=said)


def _configuration(home: Home) -> Iterator[Finding]:
    from control.live import stream_jobs
    from settings.product import load_product_settings
    from telemetry.queries import load_series_map

    load_product_settings()
    load_series_map()
    files = stream_jobs(home)
    yield Finding("stream jobs", not files.complaints, ", ".join(files.jobs) or "none yet", "; ".join(files.complaints))


def _prometheus(home: Home) -> Iterator[Finding]:
    from control.live import stream_jobs
    from control.sources import connected
    from telemetry.http_access import shown
    from telemetry.prometheus_answers import PrometheusError

    for job in stream_jobs(home).jobs.values():
        check = f"prometheus of {job.name}"
        if job.prometheus is None:
            yield Finding(check, ok=True, found="none configured: trained on exports only")
            continue
        now_s = WallClock().now_s()
        try:
            with closing(connected(job.prometheus)) as client:
                client.query_range("time()", now_s - 1, now_s, 1)
        except PrometheusError as error:
            yield Finding(
                check, ok=False, found=str(error), mend="start it, or mend 'prometheus.url' in the job's file"
            )
        else:
            yield Finding(check, ok=True, found=f"{shown(job.prometheus)} answers")


def _flink(home: Home) -> Iterator[Finding]:
    from control.decide import SHORTEST_GRACE_S
    from control.live import stream_jobs
    from settings.targets import FlinkSettings
    from targets.contract import TargetError
    from targets.flink import FlinkTarget

    for job in stream_jobs(home).jobs.values():
        if not isinstance(job.target, FlinkSettings):
            continue
        check = f"flink of {job.name}"
        try:
            with FlinkTarget(job.target, job.name) as flink:
                rescaling, advice = flink.looked_over(SHORTEST_GRACE_S if job.grace_s is None else job.grace_s)
        except TargetError as error:
            yield Finding(check, ok=False, found=str(error), mend="start it, or mend 'target' in the job's file")
            continue
        when = "as soon as slots are there" if rescaling.at_once else "at a checkpoint once slots are there"
        found = f"rescales {when}, and not within {rescaling.cooldown_s:.0f} s of the last deployment"
        needed, wanted = ("; ".join(one.sentence for one in advice if one.needed is kind) for kind in (True, False))
        yield Finding(check, ok=not needed, found=found, mend=needed, better=wanted)


def _spark(_: Home) -> Iterator[Finding]:
    """Start Spark in a process of its own, so that its JVM ends with the check."""
    code = (
        "from settings.home import Home; from telemetry.spark_session import spark_session;"
        "from assets.spark_tasks import run_tasks; from assets.spark_check import interpreter;"
        "spark = spark_session(Home.from_environment().make());"
        "print(spark.version, run_tasks(spark, [{}], interpreter)[0].result['python'])"
    )
    answer = subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    if answer.returncode:
        last = (answer.stderr.strip().splitlines() or ["no output"])[-1]
        yield Finding("spark", ok=False, found=last, mend="mend java first; then run with PERDIX_DEBUG=1")
        return
    version, python = answer.stdout.split()[-2:]
    yield Finding("spark", python == sys.executable, f"{version}, workers run {python}", "unset PYSPARK_PYTHON")

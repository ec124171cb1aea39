"""``perdix dev``: Dagster, MLflow and a living twin on loopback, to look at and to play with."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated

import typer

from perdix.cli.output import JsonOption, UserError, console, emit
from perdix.cli.processes import LOOPBACK, Processes, free_port
from perdix.cli.stores import home
from perdix.settings.home import PACKAGE, Home, conf_folder
from perdix.settings.product import load_product_settings


def dev(
    hours: Annotated[
        float, typer.Option("--hours", help="Hours of past that the twin begins with.", min=0, max=168)
    ] = 6.0,
    act: Annotated[bool, typer.Option(help="Let perdix scale the twin; else it advises.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Start the Dagster UI with its daemon, the MLflow UI, and a living twin of three jobs. Ctrl-C ends all.

    Everything listens on 127.0.0.1 only. The control loop, both schedules and the retraining are on; their ticks are on
    the pages of Dagster's sensors and schedules.

    Example: perdix dev --hours 12
    """
    place = home()
    from perdix.cli import runs
    from perdix.cli.twin_jobs import write_twin_jobs
    from perdix.models.registry import prepare
    from perdix.models.registry.tracking import is_server, without_password

    registry = prepare(place)
    with runs.instance(place):
        pass
    ports = {"dagster": free_port(3000), "mlflow": free_port(5000), "twin": free_port(9099)}
    urls = {name: f"http://{LOOPBACK}:{port}" for name, port in ports.items()}
    if is_server(place.mlflow_url):  # which has pages of its own, and is no store for another server
        del ports["mlflow"]
        urls["mlflow"] = without_password(place.mlflow_url)
    with alone(place) as lock, Processes(place.root / "logs", holds=lock) as processes:
        _start(processes, place, ports, hours)
        processes.wait_until_answers("twin", f"{urls['twin']}/-/healthy")
        jobs = write_twin_jobs(place, urls["twin"], mode="act" if act else "advise")
        if not as_json:
            say_lives(jobs, urls["twin"])
            console.print("waiting for MLflow and Dagster (half a minute) ...")
        if "mlflow" in ports:
            processes.wait_until_answers("mlflow", urls["mlflow"])
        processes.wait_until_answers("dagster", f"{urls['dagster']}/server_info", timeout_s=240)
        experiments = replace(registry, ui_url=urls["mlflow"]).experiment_urls()
        document = {"urls": urls, "experiments": experiments, "jobs": jobs, "logs": processes.logs}
        emit("perdix.dev/1", document, as_json=as_json, show=lambda: _show(urls, experiments, jobs, processes.logs))
        processes.watch()


@contextmanager
def alone(place: Home) -> Iterator[IO[str]]:
    """Hold the home: the twins of another one would take the jobs' files over, and leave them blind when it ends.

    Yields the file that is locked, for children to hold, too.
    """
    with (place.root / "dev.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            left = "".join(f" -{group}" for group in lock.read().split())
            killed = f"; if it was killed, end what is left: kill --{left}" if left else ""
            raise UserError(
                f"{place.root}: perdix dev runs here already; end it where it was started, "
                f"or name another PERDIX_HOME{killed}"
            ) from None
        lock.truncate(0)
        yield lock


def say_lives(jobs: list[str], url: str) -> None:
    """Print where the twins are, and which of them nobody scales because the operator has a job of the same name."""
    console.print(f"the twin lives: {', '.join(jobs)} at {url}")
    for name in jobs:
        own = conf_folder() / "jobs" / f"{name}.yaml"
        if own.exists():
            console.print(f"{name}: {own} counts, not its twin; move it away to have the twin watched", soft_wrap=True)


def _show(urls: dict[str, str], experiments: dict[str, str], jobs: list[str], logs: Path) -> None:
    training = load_product_settings().training
    pages = "".join(f"  {name}: {url}\n" for name, url in experiments.items())
    console.print(
        f"Dagster  {urls['dagster']}  (sensor control_loop ticks every minute)\n"
        f"MLflow   {urls['mlflow']}\n{pages}"
        f"twin     {urls['twin']}/api/v1/query?query=scale_out\n"
        f"champions: at {training.cron} (cron, UTC), after a drift, or now: perdix train\n"
        f"in another shell: perdix jobs; perdix explain {jobs[0]}\n"
        f"logs: {logs}; Ctrl-C ends all",
        soft_wrap=True,
    )


def _start(processes: Processes, place: Home, ports: dict[str, int], hours: float) -> None:
    python = sys.executable
    environment = {
        "PERDIX_HOME": str(place.root),
        "DAGSTER_HOME": str(place.dagster),
        "PERDIX_AUTOSTART": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # else it starts seven processes that wait for GenAI jobs
        "GX_ANALYTICS_ENABLED": "false",
        "PYTHONWARNINGS": "ignore",
        "PATH": f"{Path(python).parent}:{os.environ.get('PATH', '')}",
    }
    twin = ["--host", LOOPBACK, "--port", str(ports["twin"]), "--hours", str(hours)]
    processes.start("twin", [python, "-m", "perdix.twin.serve", *twin], environment)
    if "mlflow" in ports:
        environment["PERDIX_MLFLOW_UI"] = f"http://{LOOPBACK}:{ports['mlflow']}"
        mlflow = ["--host", LOOPBACK, "--port", str(ports["mlflow"]), "--workers", "1"]
        artifacts = ["--default-artifact-root", place.mlflow_artifacts.as_uri()]
        store = {"MLFLOW_BACKEND_STORE_URI": place.mlflow_url}  # a password in a command is everybody's to read
        processes.start("mlflow", [python, "-m", "mlflow", "server", *mlflow, *artifacts], environment | store)
    workspace = ["-w", str(PACKAGE / "workspace.yaml"), "-h", LOOPBACK, "-p", str(ports["dagster"])]
    processes.start("dagster", [python, "-m", "dagster", "dev", *workspace], environment)

"""``python -m testbed``: the verbs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from perdix.cli.known_errors import known_errors
from perdix.cli.output import JsonOption, UserError, console, emit, run_guarded, styled, table
from testbed import cluster as parts
from testbed.cluster import Cluster
from testbed.layout import Layout
from testbed.report import report
from testbed.settings import LARGEST_PORT, Ports, Testbed

app = typer.Typer(
    name="python -m testbed",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="A real Flink, Kafka and Prometheus on loopback, a job to scale, and a workload for it.",
    epilog="Example: python -m testbed up && python -m testbed load --shape sine --seconds 600; python -m testbed down",
)
StateOption = Annotated[
    Path, typer.Option("--state", envvar="PERDIX_TESTBED", help="Folder of pid files, logs, configuration and data.")
]
STATE = Path(".testbed")


@app.command()
def up(
    *,
    state: StateOption = STATE,
    workers: Annotated[int | None, typer.Option(help="TaskManagers, one slot each. [default: 8]")] = None,
    partitions: Annotated[int | None, typer.Option(help="Of the topic. [default: as many as workers]")] = None,
    cores: Annotated[float | None, typer.Option(help="CPU quota of a TaskManager. [default: 0.12]")] = None,
    throttle: Annotated[
        str | None, typer.Option(help="burn, sleep, or auto: burn where a CPU quota can be set. [default: auto]")
    ] = None,
    burn_ms: Annotated[float | None, typer.Option(help="Service time of a word in ms. [default: 0.4]")] = None,
    open_delay_ms: Annotated[int | None, typer.Option(help="What a restart takes longer, in ms. [default: 0]")] = None,
    state_bytes: Annotated[int | None, typer.Option(help="State per word, in bytes. [default: 0]")] = None,
    port_offset: Annotated[int | None, typer.Option(help="Added to every port. [default: 0]")] = None,
    parallelism: Annotated[int | None, typer.Option(help="Of the job at first. [default: all workers]")] = None,
    submit: Annotated[bool, typer.Option(help="Submit the word count job.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Start everything that does not run, and wait until it is healthy. Twice is harmless.

    Builds with Maven what is missing. Ctrl-C ends what was started so far.

    Example: python -m testbed up --workers 4
    """
    given = {name: value for name, value in locals().items() if name in Testbed.model_fields and value is not None}
    began = time.monotonic()
    if port_offset is not None:
        given["ports"] = _shifted(port_offset)
    layout = Layout(state.expanduser().resolve())
    testbed = _asked(layout, given)

    def say(line: str) -> None:
        if not as_json:
            console.print(styled(f"{time.monotonic() - began:5.1f} s ", "dim"), line)

    chosen = Cluster(layout, testbed, say)
    chosen.up(submit=submit, parallelism=parallelism)
    _emit(chosen, as_json=as_json)


@app.command()
def down(
    state: StateOption = STATE,
    purge: Annotated[bool, typer.Option(help="Remove the folder with logs and Prometheus' data too.")] = False,
) -> None:
    """End everything that `up` started, and nothing else."""
    layout = Layout(state.expanduser().resolve())
    ended = Cluster(layout, Testbed()).down() if layout.root.exists() else []
    console.print(f"ended {', '.join(ended)}" if ended else "nothing ran")
    if purge:
        layout.purge()


@app.command()
def status(state: StateOption = STATE, as_json: JsonOption = False) -> None:
    """Show what runs, where, and how the job is."""
    _emit(_recalled(state, must_exist=False), as_json=as_json)


@app.command()
def submit(
    state: StateOption = STATE,
    parallelism: Annotated[int | None, typer.Option(help="Of the job at first. [default: all workers]")] = None,
) -> None:
    """Submit the word count job, unless it runs."""
    console.print(_recalled(state).submit(parallelism))


@app.command()
def load(
    *,
    state: StateOption = STATE,
    trace: Annotated[Path | None, typer.Option(help="CSV or Parquet: a time and a rate, of whatever unit.")] = None,
    shape: Annotated[str | None, typer.Option(help="Instead: constant, sine, daily, step or spikes.")] = None,
    peak_per_s: Annotated[float | None, typer.Option(help="Records/s at its highest point. [default: 500]")] = None,
    compress: Annotated[float | None, typer.Option(help="Seconds of the trace in one. [default: 1]")] = None,
    seconds: Annotated[int | None, typer.Option(help="Length of the load. [default: the trace once]")] = None,
    start_s: Annotated[float | None, typer.Option(help="Second of the trace to begin at. [default: 0]")] = None,
    period_s: Annotated[int | None, typer.Option(help="Of a shape, in s of the trace. [default: a day]")] = None,
    low: Annotated[float | None, typer.Option(help="A shape's lowest as a share of its peak. [default: 0.2]")] = None,
    noise: Annotated[float | None, typer.Option(help="Relative, from second to second. [default: 0.02]")] = None,
    fill_gaps: Annotated[bool, typer.Option("--fill-gaps", help="Draw lines across long gaps of the trace.")] = False,
    skew: Annotated[float | None, typer.Option(help="Zipf's exponent over the words. [default: 0]")] = None,
    words_per_record: Annotated[int | None, typer.Option(help="[default: 1]")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Different words. [default: 10000]")] = None,
    seed: Annotated[int | None, typer.Option(help="Of words and noise. [default: 1]")] = None,
    as_json: JsonOption = False,
) -> None:
    """Play a trace or a shape into Kafka. Does not slow down when the job does; Ctrl-C ends it.

    Example: python -m testbed load --trace iot.csv --peak-per-s 800 --compress 12 --seconds 1800
    """
    asked = {name: value for name, value in locals().items() if name not in {"state", "as_json"}}
    from testbed import load_command  # what reads traces takes two seconds to import

    load_command.run(_recalled(state), load_command.load_of(**asked), as_json=as_json)


@app.command("kill-worker")
def kill_worker(worker: str, state: StateOption = STATE) -> None:
    """Kill a TaskManager at once (SIGKILL), as a machine that is lost."""
    chosen = _recalled(state)
    _require_worker(chosen, worker)
    pid = chosen.known_running(worker)
    os.kill(pid, signal.SIGKILL)
    console.print(f"killed {worker} (pid {pid})")


@app.command("start-worker")
def start_worker(worker: str, state: StateOption = STATE) -> None:
    """Start a TaskManager again."""
    _recalled(state).start([worker])


@app.command("resize-worker")
def resize_worker(
    worker: str,
    cores: Annotated[float, typer.Option(help="CPU quota.")],
    heap_mb: Annotated[int, typer.Option(help="Heap of its tasks, MB.")],
    state: StateOption = STATE,
) -> None:
    """Start a TaskManager again with another size.

    Example: python -m testbed resize-worker tm-1 --cores 0.25 --heap-mb 256
    """
    chosen = _recalled(state)
    _require_worker(chosen, worker)
    try:
        chosen.resize(worker, cores, heap_mb)
    except ValidationError as error:
        raise _refused(error) from None


@app.command("stop-prometheus")
def stop_prometheus(state: StateOption = STATE) -> None:
    """Stop Prometheus; its data stay."""
    chosen = _recalled(state)
    chosen.known_running(parts.PROMETHEUS)
    chosen.files.stop([parts.PROMETHEUS])
    console.print("stopped prometheus")


@app.command("start-prometheus")
def start_prometheus(state: StateOption = STATE) -> None:
    """Start Prometheus again."""
    _recalled(state).start([parts.PROMETHEUS])


def _shifted(offset: int) -> dict[str, int]:
    try:
        return Ports().shifted(offset).model_dump()
    except ValidationError:
        raise UserError(f"--port-offset: {offset} moves ports out of the range from 1 to {LARGEST_PORT}") from None


def _refused(error: ValidationError) -> UserError:
    """Return what is wrong with an option."""
    first = error.errors()[0]
    if not first["loc"]:
        return UserError(first["msg"].removeprefix("Value error, "))
    option = "--" + "-".join(str(part) for part in first["loc"]).replace("_", "-")
    return UserError(f"{option}: {first['msg']}, found {first['input']!r}")


def _asked(layout: Layout, asked: dict[str, Any]) -> Testbed:
    """Return the settings: those asked for, over those of a testbed that runs, over the defaults."""
    before = layout.recall() if Cluster(layout, Testbed()).files.running() else None
    try:
        chosen = Testbed.model_validate({**(before.model_dump() if before else {}), **asked})
    except ValidationError as error:
        raise _refused(error) from None
    if before is not None and chosen != before:
        differ = [name for name in asked if getattr(before, name) != getattr(chosen, name)]
        raise UserError(f"a testbed with another {', '.join(differ)} runs in {layout.root}; `down` first")
    return chosen


def _recalled(state: Path, *, must_exist: bool = True) -> Cluster:
    layout = Layout(state.expanduser().resolve())
    testbed = layout.recall()
    if testbed is None and must_exist:
        raise UserError(f"no testbed in {layout.root}; `python -m testbed up` first")
    return Cluster(layout, testbed or Testbed(), console.print)


def _require_worker(chosen: Cluster, worker: str) -> None:
    if worker not in chosen.testbed.worker_names():
        raise UserError(f"no TaskManager '{worker}'; there are {', '.join(chosen.testbed.worker_names())}")


def _emit(chosen: Cluster, *, as_json: bool) -> None:
    found = report(chosen)
    emit("perdix.testbed/1", found.document(), as_json=as_json, show=lambda: table(found.title, *found.rows()))


def main() -> None:
    """Run the command line; known errors become one sentence and exit code 2."""
    raise SystemExit(run_guarded(lambda: app(standalone_mode=True), known_errors))


if __name__ == "__main__":
    main()

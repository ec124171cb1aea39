"""Entry point of the ``perdix`` command."""

import io
import logging
import os
import sys
import warnings
from importlib import metadata
from typing import Annotated

import typer

from perdix.cli import (
    dev,
    doctor,
    explore,
    ingest,
    jobs,
    loop,
    metrics,
    operators,
    prices,
    profile,
    rescales,
    sample,
    scan,
    train,
)
from perdix.cli.demo import command as demo
from perdix.cli.ds2.command import ds2
from perdix.cli.given_once import GivenOnce
from perdix.cli.known_errors import known_errors
from perdix.cli.output import UserError, run_guarded
from perdix.cli.replay.command import replay
from perdix.settings.home import CONF_VARIABLE, DOCS, conf_folder, value_of

app = typer.Typer(
    name="perdix",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Keep stream-processing jobs at the smallest scale-out that holds their objectives.",
    epilog="State lives under PERDIX_HOME (default .perdix). Every command takes --json; schemas: docs/json.md. "
    f"Pages of docs/ are in {DOCS}",
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"perdix {metadata.version('perdix')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that stand before any command.

    Raises ``UserError`` where PERDIX_CONF names no folder: no job and every default would be taken for the operator's.
    """
    if value_of(CONF_VARIABLE) and not (folder := conf_folder()).is_dir():
        raise UserError(f"{CONF_VARIABLE} {folder}: there is no such folder; make it, or correct the variable")


app.command("scan")(scan.scan)
app.command("demo")(demo.demo)
app.command("ingest")(ingest.ingest)
app.command("train")(train.train)
app.command("profile")(profile.profile)
app.command("sample")(sample.sample)
app.command("capacity")(explore.capacity)
app.command("forecast")(explore.forecast)
app.command("explain")(explore.explain)
app.command("jobs")(jobs.jobs)
app.command("rescales")(rescales.rescales)
app.command("tick")(loop.tick)
app.command("controller")(loop.controller)
app.command("metrics")(metrics.metrics)
app.command("pause")(loop.pause)
app.command("resume")(loop.resume)
app.command("copy-state")(loop.copy_state)
app.add_typer(replay, name="replay")
app.command("prices")(prices.prices)
app.command("ds2")(ds2)
app.command("operators")(operators.operators)
app.command("doctor")(doctor.doctor)
app.command("dev")(dev.dev)
for command in app.registered_commands:
    command.cls = GivenOnce


def main() -> None:
    """Run the command line; known errors become one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal lacks must not end a command
            stream.reconfigure(errors="backslashreplace")
    if not os.environ.get("PERDIX_DEBUG"):
        warnings.filterwarnings("ignore")  # libraries talk to developers; users get what concerns them
        logging.getLogger().setLevel(logging.ERROR)
    raise SystemExit(run_guarded(lambda: app(standalone_mode=True), known_errors))


if __name__ == "__main__":
    main()

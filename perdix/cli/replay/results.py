"""Where the results of ``perdix replay`` go: Parquet, pictures, MLflow, one JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from perdix.cli.output import UserError, complaints, console, styled
from perdix.cli.stores import home
from perdix.settings.counting import counted
from perdix.settings.json_values import plain

if TYPE_CHECKING:
    from perdix.cli.replay.options import Sink
    from perdix.models.registry import Comparison
    from perdix.replay.kinds import Kind, Simulated

Setup = TypeVar("Setup", bound="Simulated")
Campaign = TypeVar("Campaign")


def carry_out(
    kind: Kind[Setup, Campaign],
    setup: Setup,
    sink: Sink,
    *,
    runs: int,
    per_h_s: float,
    processes: int | None,
    show: Callable[[Mapping[str, Any]], None],
) -> None:
    """Say how long it takes, replay, write what came of it, and tell it; exit code 1 where a replay did not end well.

    Raises ``UserError`` when the folder of the results cannot be written.

    ``runs``, ``per_h_s``: replays, and what an hour of each costs a processor, seconds; ``processes`` play at a time.
    ``show``: prints the document for people, where it is not printed as JSON.
    """
    from perdix.cli.how_long import replay_s, say_beforehand
    from perdix.cli.replay.job_text import progress_bar
    from perdix.control.clock import WallClock

    started_at_s, hours = WallClock().now_s(), setup.simulated_s / 3600.0 / runs
    say_beforehand(f"{counted(runs, 'run')} of {round(hours, 3):g} h", replay_s(runs, hours, processes, per_h_s))
    with progress_bar(setup.simulated_s) as tell:
        campaign = kind.run(setup, processes=processes, on_progress=tell)
    document = _written(kind, campaign, setup, sink, started_at_s)
    if sink.file is not None:
        sink.file.write_text(as_text(document), encoding="utf-8")
    if sink.on_stdout:
        sys.stdout.write(as_text(document))
        sys.stdout.flush()
    else:
        show(document)
        if document["mlflow"]:
            console.print(f"MLflow, side by side: {document['mlflow']['compare_url']}", soft_wrap=True)
        drawn = f", {counted(len(document['pictures']), 'picture')}" if document["pictures"] else ""
        console.print(f"series{drawn} and replay.json: {document['folder']}", soft_wrap=True)
    for row in document["failed"]:
        what = f"{row['policy']}, seed {row['seed']}: {row['reason']}"
        complaints.print(styled("failed:", "bold red"), what)
    if document["failed"]:
        raise typer.Exit(1)


def print_head(document: Mapping[str, Any], name: str, more: str) -> None:
    """Print what was replayed, above a campaign's table."""
    length, seeds = f"{document['seconds'] / 60:.4g} min", counted(len(document["seeds"]), "seed")
    console.print(styled(f"\n{name}:", "bold"), f"{length}, {seeds}; {more}")


def _written(
    kind: Kind[Setup, Campaign], campaign: Campaign, setup: Setup, sink: Sink, started_at_s: float
) -> dict[str, Any]:
    """Write series, pictures and the document into a folder, record MLflow runs, and return the document.

    What has been computed is not lost because MLflow cannot be reached: that is said on standard error.
    """
    found = kind.document(campaign)
    folder = (sink.folder or home().reports / kind.folder_name(setup)).resolve()
    made: dict[str, Any] = {**found, "folder": folder, "pictures": [], "mlflow": None}
    try:
        made["series"] = kind.series(campaign, folder / "series")
        if sink.pictures and found["results"]:
            made["pictures"] = kind.draw(campaign, folder)
        (folder / "replay.json").write_text(as_text(made), encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written ({error.strerror}); name another folder") from None
    if sink.mlflow and found["results"]:
        made["mlflow"] = _recorded(kind.comparison(campaign, started_at_s, [*made["pictures"], folder / "replay.json"]))
    return made


def as_text(document: Mapping[str, Any]) -> str:
    """Return the document as JSON."""
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def _recorded(comparison: Comparison) -> dict[str, Any] | None:
    from perdix.models.registry import RegistryError, prepare

    try:
        recorded = prepare(home()).record(comparison)
    except RegistryError as error:
        complaints.print(f"not recorded in MLflow: {error}")
        return None
    return {"run_id": recorded.run_id, "run_url": recorded.run_url, "compare_url": recorded.compare_url}

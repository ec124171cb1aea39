"""Where the results of ``perdix replay`` go: Parquet, pictures, MLflow, one JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from perdix.cli.output import UserError, complaints, plain, styled
from perdix.cli.stores import home

if TYPE_CHECKING:
    from perdix.cli.replay.options import Sink
    from perdix.models.registry import Recorded
    from perdix.replay.campaign import Campaign

T = TypeVar("T")


def write_results(
    campaign: Campaign, started_at_s: float, out: Path | None, *, pictures: bool, mlflow: bool
) -> dict[str, Any]:
    """Write series, pictures and the document into a folder, record MLflow runs, and return the document.

    What has been computed is not lost because MLflow cannot be reached: that is said on standard error.
    """
    from perdix.replay.document import document, folder_name, write_series
    from perdix.replay.pictures import draw_campaign
    from perdix.replay.tracking import record

    return written(
        document(campaign),
        out or home().reports / folder_name(campaign.setup),
        series=lambda folder: write_series(campaign.played, folder),
        draw=(lambda folder: draw_campaign(campaign, folder)) if pictures and campaign.played else None,
        record=partial(record, campaign, started_at_s=started_at_s) if mlflow and campaign.played else None,
    )


def written(
    document: Mapping[str, Any],
    folder: Path,
    *,
    series: Callable[[Path], Mapping[str, Any] | list[Path]],
    draw: Callable[[Path], list[Path]] | None,
    record: Callable[..., Recorded] | None,
) -> dict[str, Any]:
    """Write series, pictures and the document into a folder, record MLflow runs, and return the document.

    Parameters
    ----------
    draw, record
        ``None`` where nothing is to be drawn or recorded; ``record`` is called with a registry and ``files``.

    Raises
    ------
    UserError
        When the folder cannot be written.
    """
    folder = folder.resolve()
    made: dict[str, Any] = {**document, "folder": folder, "pictures": [], "mlflow": None}
    try:
        made["series"] = series(folder / "series")
        if draw is not None:
            made["pictures"] = draw(folder)
        (folder / "replay.json").write_text(as_text(made), encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written ({error.strerror}); name another folder") from None
    if record is not None:
        made["mlflow"] = _record(record, [*made["pictures"], folder / "replay.json"])
    return made


@dataclass(frozen=True)
class Work:
    """What is to be replayed: so many runs of so many hours, and what an hour of a run costs a processor."""

    runs: int
    hours: float
    simulated_s: float
    per_h_s: float
    processes: int | None


def carry_out(
    work: Work,
    sink: Sink,
    *,
    run: Callable[[Callable[[float, int], None]], T],
    write: Callable[[T, float], Mapping[str, Any]],
    show: Callable[[Mapping[str, Any]], None],
) -> None:
    """Say how long it takes, replay, write what came of it, and tell it; exit code 1 where a replay did not end well.

    Parameters
    ----------
    run
        Replays, given what is to be told how far it has come.
    write
        Writes what came of it, begun at an epoch second; returns the document.
    show
        Prints the document for people, where it is not printed as JSON.
    """
    from perdix.cli.how_long import counted, replay_s, say_beforehand
    from perdix.cli.replay.job_text import progress_bar
    from perdix.control.clock import WallClock

    started_at_s, expected_s = WallClock().now_s(), replay_s(work.runs, work.hours, work.processes, work.per_h_s)
    say_beforehand(f"{counted(work.runs, 'run')} of {round(work.hours, 3):g} h", expected_s)
    with progress_bar(work.simulated_s) as tell:
        done = run(tell)
    document = write(done, started_at_s)
    if sink.file is not None:
        sink.file.write_text(as_text(document), encoding="utf-8")
    if sink.on_stdout:
        sys.stdout.write(as_text(document))
        sys.stdout.flush()
    else:
        show(document)
    for one in document["failed"]:
        what = f"{one['policy']}, seed {one['seed']}: {one['reason']}"
        complaints.print(styled("failed:", "bold red"), what, highlight=False)
    if document["failed"]:
        raise typer.Exit(1)


def as_text(document: Mapping[str, Any]) -> str:
    """Return the document as JSON."""
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def _record(record: Callable[..., Recorded], files: list[Path]) -> dict[str, Any] | None:
    from perdix.models.registry import RegistryError, prepare

    try:
        recorded = record(prepare(home()), files=files)
    except RegistryError as error:
        complaints.print(f"not recorded in MLflow: {error}", highlight=False, markup=False)
        return None
    return {"run_id": recorded.run_id, "run_url": recorded.run_url, "compare_url": recorded.compare_url}

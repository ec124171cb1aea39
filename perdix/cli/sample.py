"""``perdix sample``: what workers of some sizes process at most, sampled on live traffic."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from perdix.cli.how_long import START_S, say_beforehand
from perdix.cli.output import JsonOption, UserError, console, emit, number, require_nothing_left, table


def sample(
    operator: Annotated[
        str,
        typer.Argument(
            help="Operator to sample: a name in conf/operators; with --live, a stream job.", show_default=False
        ),
    ],
    *,
    live: Annotated[
        bool, typer.Option("--live", help="Sample the running job itself, as 'profiling' in its file allows.")
    ] = False,
    job: Annotated[
        str | None,
        typer.Option("--job", help="Stream job that the samples are of.", show_default="called as the operator"),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="dsa (steps follow the gradient), or fssa-1, fssa-2, ... (fixed steps).")
    ] = "dsa",
    window_s: Annotated[
        int, typer.Option("--window", help="Seconds for which a share of the load is watched.", min=1, max=2_400)
    ] = 30,
    first_share: Annotated[
        float, typer.Option("--first-share", help="Share of the load that a size begins with.", min=0.001, max=1.0)
    ] = 0.01,
    seed: Annotated[int, typer.Option("--seed", help="Of the twin's luck.", min=0)] = 0,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Write a PNG of the samples here.", dir_okay=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Sample how much workers of different cores and memory process: what QEScalor chooses sizes by.

    One worker after the other, each of another size, takes part in the live traffic; its share is raised until its
    throughput no longer follows. The samples are kept as a table named by its content.

    With --live, commands of the job's file resize the only worker of a running job, and put it under load.

    Example: perdix sample co1 --method dsa --picture co1.png

    Example: perdix sample parse --live --method fssa-2
    """
    if live and job not in (None, operator):
        raise UserError(f"--job {job}: with --live the job itself is sampled, so leave it out")
    name = job or operator
    config: dict[str, Any] = {
        "operator": "" if live else operator,
        "live": live,
        "method": method,
        "window_s": window_s,
        "first_share": first_share,
        "seed": seed,
    }
    document = _sampled(name, config, picture, show=not as_json)
    emit("perdix.sample/1", document, as_json=as_json, show=lambda: _show(document))
    require_nothing_left(document["left"])


def _sampled(name: str, config: dict[str, Any], picture: Path | None, *, show: bool) -> dict[str, Any]:
    """Sample a job, draw what was found where that is asked for, and return it."""
    from perdix.assets.resources import Workspace
    from perdix.assets.sample import SampleConfig, what_is_sampled
    from perdix.cli import runs
    from perdix.cli.stores import home

    # What is wrong is said before anything is begun.
    sampled = what_is_sampled(SampleConfig(**config), name, Workspace())
    if picture is not None:
        _require_writable(picture)
    live = config["live"]
    if show:
        say_beforehand(
            f"{name}: one worker after the other, of each size that the gradient leads to", None if live else START_S
        )
    restored = "the worker gets the size back that it had" if live else None
    produced, failed = runs.measure(home(), "sample", name, {"operator_samples": config}, restored, show=show)
    if failed:
        raise UserError("\n".join(failed))
    page = produced["operator_samples"]
    document = _document(Path(str(page["file"])), str(page["left"]))
    if picture is not None:
        from perdix.assets.performance.pictures import samples_picture
        from perdix.models.sampling.rows import read_samples

        picture.write_bytes(samples_picture(read_samples(Path(document["file"])), sampled.sizes, sampled.twin))
        document["picture"] = str(picture)
    return document


def _require_writable(picture: Path) -> None:
    """Make the file: a picture that cannot be written must not hide, in the end, what a job was not given back."""
    folder = picture.resolve().parent
    if not folder.is_dir():
        raise UserError(f"{picture}: there is no folder {folder}; make it, or write elsewhere")
    try:
        with picture.open("ab"):
            pass
    except OSError as error:
        raise UserError(f"{picture}: cannot be written: {error.strerror}; write elsewhere") from None


def _document(path: Path, left: str) -> dict[str, Any]:
    """Return the samples as they were kept."""
    from perdix.models.sampling.rows import read_samples

    found = read_samples(path)
    return {
        "operator": found.operator,
        "method": found.method,
        "digest": path.stem,
        "file": str(path),
        "samples": [asdict(taken) for taken in found.samples],
        "failed": [asdict(size) for size in found.failed],
        "core_h": found.core_s / 3600.0,
        "worker_h": found.worker_s / 3600.0,
        "ended_because": found.ended_because,
        "notes": list(found.notes),
        "left": left,
        "picture": None,
    }


def _show(document: dict[str, Any]) -> None:
    rows = [
        [number(taken["cpu_cores"]), number(taken["memory_mb"]), number(taken["per_s"]), number(taken["took_s"])]
        for taken in document["samples"]
    ]
    title = (
        f"{document['operator']}, {document['method']}: {len(rows)} samples, {number(document['core_h'])} core-hours "
        "of workers that took part in live traffic"
    )
    table(title, ["cores", "memory, MB", "performance, /s", "took, s"], rows)
    for row in document["failed"]:
        console.print(f"failed: {row['cpu_cores']:g} cores, {row['memory_mb']:g} MB: {row['why']}")
    for note in document["notes"]:
        if note == document["left"]:
            continue
        console.print(f"note: {note}", soft_wrap=True)
    console.print(f"ended: {document['ended_because']}", soft_wrap=True)
    console.print(f"kept as {document['file']}", soft_wrap=True)
    if document["picture"]:
        console.print(f"picture: {document['picture']}", soft_wrap=True)

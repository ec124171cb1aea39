"""The command ``perdix rescales``: what was scaled in the last hours, or would have been, why, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perdix.cli.output import JsonOption, clock_time, console, emit, table
from perdix.cli.stores import known, state, usable_files
from perdix.settings.counting import counted

if TYPE_CHECKING:
    from perdix.control.state.ledger import Entry

MOST = 1_000  # of which the newest are shown
LONGEST_H = 24 * 366.0


def rescales(
    job: Annotated[
        str | None, typer.Argument(help="Name of the stream job.", show_default="every job", metavar="[JOB]")
    ] = None,
    hours: Annotated[float, typer.Option("--hours", help="Until now.", min=0.01, max=LONGEST_H)] = 24.0,
    as_json: JsonOption = False,
) -> None:
    """List what was scaled in the last hours, or was advised, why, and what came of it; the oldest first.

    Example: perdix rescales ads --hours 12
    """
    from perdix.control.clock import WallClock
    from perdix.control.explain import RESCALES, decision_of
    from perdix.control.operators.naming import job_of, on_record
    from perdix.control.state.ledger import State

    now_s = WallClock().now_s()
    of_operators: list[Entry] = []
    since_s = now_s - 3_600.0 * hours
    with state() as store:
        if job is not None:
            files = usable_files(but=job)
            names = {*map(job_of, store.journal.statuses()), *files.jobs, *files.faults}
            known(job_of(job), names, "job", "no tick has been made yet: perdix tick")
        between = partial(
            store.ledger.decisions, since_s=since_s, until_s=now_s, states=(*RESCALES, State.ADVISED), rescales=True
        )
        found = between(job, limit=MOST)
        if job is not None and job == job_of(job):
            of_operators = between(on_record(job), limit=1)
    made = found[::-1]
    rows = [{"job": entry.intent.job, **decision_of(entry, account=False)} for entry in made]
    document = {"since_s": since_s, "until_s": now_s, "cut": len(found) == MOST, "rescales": rows}
    emit("perdix.rescales/1", document, as_json=as_json, show=lambda: _show(made, hours, cut=len(found) == MOST))
    if of_operators and not as_json:
        console.print(f"its operators were rescaled, too: perdix rescales {of_operators[0].intent.job}")


def _show(made: Sequence[Entry], hours: float, *, cut: bool) -> None:
    from perdix.control.explain_text import change, recovery

    rows = [
        [
            clock_time(entry.intent.made_s),
            entry.intent.job,
            change(entry.intent),
            entry.state.value,
            " ".join([entry.intent.sentence, *(f"{said}." for said in (entry.error, recovery(entry)) if said)]),
        ]
        for entry in made
    ]
    if rows:
        table("rescales", ["decided", "job", "change", "state", "why, and what came of it"], rows)
    states = Counter(entry.state.value for entry in made)
    said = ", ".join(f"{number} {name}" for name, number in sorted(states.items())) or "none"
    jobs = len({entry.intent.job for entry in made})
    console.print(f"{counted(len(made), 'rescale')} of {counted(jobs, 'job')} in {hours:g} h: {said}")
    if cut:
        console.print(f"older ones are left out: the newest {MOST:,} are shown; ask for fewer hours")

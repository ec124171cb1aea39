"""``python -m testbed load``."""

from __future__ import annotations

import time
from dataclasses import asdict

from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from perdix.cli.output import UserError, complaints, console, emit
from testbed.arrivals import Load, rates, trace_of, whole
from testbed.cluster import Cluster
from testbed.load import Second, Sent, play

LATE_S = 0.5
SAID_AGAIN_S = 10


def load_of(**asked: object) -> Load:
    """Return the load that was asked for; ``UserError`` naming the option that cannot be meant."""
    try:
        return Load.model_validate({name: value for name, value in asked.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        option = "--" + "-".join(str(part) for part in first["loc"]).replace("_", "-")
        raise UserError(f"{option}: {first['msg']}, found {first['input']!r}") from None


def run(cluster: Cluster, load: Load, *, as_json: bool) -> None:
    """Play a load, show how it goes, and sum it up."""
    trace = trace_of(load)
    counts = whole(rates(load, trace))
    cluster.layout.loads.mkdir(parents=True, exist_ok=True)
    file = cluster.layout.loads / time.strftime("%Y%m%dT%H%M%SZ.csv", time.gmtime())
    if not as_json:
        for note in trace.notes:
            console.print(f"{trace.name}: {note}")
        console.print(
            f"{counts.sum():,} records in {len(counts):,} s, at most {counts.max():,}/s, mean {counts.mean():,.0f}/s; "
            f"each second in {file}"
        )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=complaints, transient=True, disable=as_json) as progress:
        bar = progress.add_task("starting", total=len(counts))
        complain = _Complaints()

        def show(second: Second) -> None:
            progress.update(bar, advance=1, description=f"{second.sent:,}/s")
            complain(second)

        sent = play(load, counts, cluster.testbed, file, every_second=show)
    emit("perdix.testbed.load/1", asdict(sent), as_json=as_json, show=lambda: _sum_up(sent))
    if sent.failed:
        raise UserError(
            f"{sent.failed:,} of {sent.sent:,} records never reached the broker at {cluster.testbed.bootstrap}"
        )


class _Complaints:
    """Says what goes wrong, each at most every ten seconds."""

    def __init__(self) -> None:
        self._said_s = {"late": 0, "lost": 0}

    def __call__(self, second: Second) -> None:
        if second.behind_s > LATE_S:
            self._say("late", second, f"the generator itself is {second.behind_s:.1f} s late: this machine is too busy")
        if second.failed:
            self._say("lost", second, f"the broker did not take {second.failed} records within half a minute")

    def _say(self, what: str, second: Second, words: str) -> None:
        if second.epoch_s >= self._said_s[what] + SAID_AGAIN_S:
            self._said_s[what] = second.epoch_s
            complaints.print(words)


def _sum_up(sent: Sent) -> None:
    console.print(
        f"sent {sent.sent:,} of {sent.due:,} records in {sent.end_s - sent.begin_s} s, "
        f"{sent.acknowledged:,} acknowledged, {sent.failed:,} lost; at most {sent.behind_s:.2f} s late"
    )

"""``perdix replay job|operators|hosts``: what is scaled decides which policies take part, and on which twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup

from perdix.cli.given_once import GivenOnce
from perdix.cli.replay import hosts, job, operators
from perdix.cli.replay.options import STDOUT

if TYPE_CHECKING:
    from typer import Context

JOB, OPERATORS, HOSTS = "job", "operators", "hosts"
NAMED_BY = {"--topology": HOSTS, "--dataflow": OPERATORS}  # as they were written before there were kinds
EXAMPLES = """
Example: perdix replay job --workload ads --policy perdix,hpa-80,static-12 --seeds 3 --hours 6

Example: perdix replay operators heron-wordcount --policy ds2,dhalion,flink-autoscaler

Example: perdix replay hosts manufacturing --pattern stepwise --policy btu:unit_min=60,threshold

Without a kind it is a job: perdix replay --workload ads
"""


def of_kind(words: list[str]) -> list[str]:
    """Return the words of a command line with the kind first: as given, as an older option says, or a job."""
    if words and words[0] in (JOB, OPERATORS, HOSTS, "--help"):
        return words
    for option, kind in NAMED_BY.items():
        for at, word in enumerate(words):
            if word == option:
                return [kind, *words[:at], *words[at + 1 :]]
            if word.startswith(f"{option}="):
                return [kind, *words[:at], word.partition("=")[2], *words[at + 1 :]]
    return [JOB, *words]


class ByKind(TyperGroup):
    """Commands by kind; without one it is a job."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]  # Typer's own Click
        """Put the kind first."""
        return super().parse_args(ctx, of_kind(args))


class JsonMayBeBare(GivenOnce):
    """``--json`` without a file means standard output, as with every other command."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]  # Typer's own Click
        """Give a bare ``--json`` its value."""
        given = []
        for at, word in enumerate(args):
            following = args[at + 1] if at + 1 < len(args) else "--"
            given.append(word)
            if word == "--json" and following.startswith("-") and following != STDOUT:
                given.append(STDOUT)
        return super().parse_args(ctx, given)


replay = typer.Typer(
    cls=ByKind,
    rich_markup_mode="rich",
    add_completion=False,
    epilog=EXAMPLES,
    help="Replay policies on one workload against a digital twin, through the very tick that runs in production.",
)
replay.command(JOB, cls=JsonMayBeBare, epilog=job.EXAMPLES)(job.replay_job)
replay.command(OPERATORS, cls=JsonMayBeBare, epilog=operators.EXAMPLES)(operators.replay_operators)
replay.command(HOSTS, cls=JsonMayBeBare, epilog=hosts.EXAMPLES)(hosts.replay_hosts)

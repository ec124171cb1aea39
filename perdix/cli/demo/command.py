"""``perdix demo``: the whole line on the embedded default, from a twin's exports to decisions and a report."""

from typing import Annotated

import typer

from perdix.cli.output import JsonOption


def demo(
    hours: Annotated[float, typer.Option("--hours", help="Hours of exports.", min=2, max=24)] = 4.0,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same twins.")] = 7,
    as_json: JsonOption = False,
) -> None:
    """Run everything once: a twin's exports -> lake -> champions -> ten ticks of the loop -> comparison and report.

    Nothing outside this machine is touched; state goes to PERDIX_HOME.

    Example: perdix demo --hours 6
    """
    from perdix.cli.demo.run import run_demo

    run_demo(hours, seed, as_json=as_json)

"""How ``perdix replay`` looks to people: a progress bar, a table of policies, and what is recommended."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from perdix.cli.output import complaints, console, number, styled
from perdix.settings.counting import counted
from perdix.settings.durations import in_words

NAMES_WIDTH, LEAST_WIDTH = 24, 17  # characters of a table's columns
PROFILING = "profiling before, worker-h"
COST, WASTED = "cost", "of which for cores unused"
HOSTS = (WASTED, "host-hours paid", "paid cores used, %", "leases")  # rows of what was priced
MONEY = (COST, WASTED)
Spread = Mapping[str, float | None] | None


@contextmanager
def progress_bar(total_s: float) -> Iterator[Callable[[float, int], None]]:
    """Show a bar on standard error that moves with simulated time; yields a function that takes the progress."""
    columns = (
        TextColumn("replay"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[hours]:.1f} of {task.fields[all_hours]:g} h simulated"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=complaints, transient=True) as progress:
        task = progress.add_task("replay", total=total_s, hours=0.0, all_hours=total_s / 3600.0)

        def tell(seconds: float, _ended: int) -> None:
            progress.update(task, completed=seconds, hours=seconds / 3600.0)

        yield tell


def show(document: Mapping[str, Any]) -> None:
    """Print a campaign's document."""
    trace, seeds = document["trace"], document["seeds"]
    console.print(
        styled(f"\n{trace['name']} on the twin {document['twin']['name']}:", "bold"),
        f"{document['hours']:g} h, peak at {100 * document['peak_utilisation']:g} % of "
        f"{document['bounds']['maximum']} workers, {counted(len(seeds), 'seed')}",
    )
    currency = document["pricing"]["currency"] if document["pricing"] else ""
    if currency:
        console.print(_hosts(document))
    for note in document["notes"]:
        console.print(styled(note, "dim"))
    types = {result["policy"]: result["bill"]["instance_type"] for result in document["results"] if result["bill"]}
    for together in _beside(document["summary"], console.width - NAMES_WIDTH):
        console.print(_table(together, types, currency))
    for sentence in (document["recommendation"]["sentence"], _clairvoyant(document), _frontier(document)):
        if sentence:
            console.print(sentence)


def _hosts(document: Mapping[str, Any]) -> str:
    """Return how workers were priced, in a sentence."""
    asked, worker = document["pricing"], document["pricing"]["worker"]
    given = "workers by their sizes"
    if worker:
        cores = f"{worker['cores']:g} core{'' if worker['cores'] == 1 else 's'}"
        given = f"{cores} and {number(float(worker['memory_mb']))} MB per worker"
    when = "at once" if asked["release"] == "at-once" else "at the end of a billing unit"
    if asked["release_delay_s"]:
        when = f"after {asked['release_delay_s']:g} s idle"
    return f"priced by {asked['prices']} as of {asked['as_of']}, {given}, hosts released {when}"


def _clairvoyant(document: Mapping[str, Any]) -> str:
    least = document["clairvoyant"]
    if not least:
        return ""
    mean = sum(row["average_workers"] for row in least) / len(least)
    within = in_words(document["objectives"]["recovery_time_s"])
    always = (
        f"No plan that holds the objectives all the time, and would recover from a failure at any time within {within}"
    )
    said = f"{always}, needs less than {number(mean)} worker{'' if mean == 1 else 's'} on average (clairvoyant bound)"
    costs = [bound["cost_at_least"] for bound in least if bound.get("cost_at_least") is not None]
    if not costs:
        return f"{said}."
    currency = document["pricing"]["currency"]
    return (
        f"{said}, or costs less than {number(sum(costs) / len(costs))} {currency}; its plan would be "
        f"{number(sum(row['cost'] for row in least) / len(least))} {currency}."
    )


def _frontier(document: Mapping[str, Any]) -> str:
    curves = document["frontier"]
    if not curves:
        return ""
    least = []
    for at in zip(*(curve["at"] for curve in curves), strict=True):  # by share, over seeds
        share = f"at {number(100 * at[0]['share_above_objective'])} %"
        if any(row["average_workers"] is None for row in at):
            least.append(f"none {share}")
        else:
            least.append(f"{number(sum(row['average_workers'] for row in at) / len(at))} {share}")
    return f"Fewest workers on average, by the share of seconds that may be late (frontier): {', '.join(least)}."


def _beside(summary: Sequence[Mapping[str, Any]], width: int) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the policies that fit beside each other into this many characters."""
    together: list[Mapping[str, Any]] = []
    used = 0
    for row in summary:
        needed = max(len(str(row["policy"])), LEAST_WIDTH) + 1
        if together and used + needed > width:
            yield together
            together, used = [], 0
        together.append(row)
        used += needed
    if together:
        yield together


def _table(summary: Sequence[Mapping[str, Any]], types: Mapping[str, str] | None = None, currency: str = "") -> Table:
    """Return a table with a row per figure, because figures are more than fit beside each other."""
    grid = Table(header_style="bold", box=box.SIMPLE_HEAD)
    grid.add_column("mean ± sd over seeds", no_wrap=True)
    for row in summary:
        grid.add_column(str(row["policy"]), justify="right", overflow="fold")
    for name, cell in ROWS.items():
        if name == PROFILING and not any(row.get("profiling_worker_seconds") for row in summary):
            continue  # most policies need no profile
        if name == COST and types:
            grid.add_row("on instances of", *(types.get(row["policy"], "-") for row in summary))
        if name in HOSTS and not types:
            continue
        shown = f"{name}, {currency}" if name in MONEY and types else name
        grid.add_row(shown, *(cell(row) if row["seeds"] else "-" for row in summary))
    return grid


def _spread(spread: Spread, scale: float = 1.0) -> str:
    if spread is None or spread["mean"] is None:
        return "-"
    mean = number(scale * spread["mean"])
    sd = spread["sd"]
    return mean if sd is None else f"{mean} ± {number(scale * sd, 2)}"


def _of(name: str, scale: float = 1.0) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: _spread(row.get(name), scale)


def _latency(part: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: _spread(row["latency_ms"][part], 0.001)


def _of_bill(name: str, scale: float = 1.0) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: _spread(row["bill"][name], scale) if row.get("bill") else "-"


ROWS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "workers on average": _of("average_workers"),
    "x clairvoyant bound": _of("clairvoyant_ratio"),
    "x best fixed size": _of("best_static_ratio"),
    "x frontier at its lateness": _of("of_frontier"),
    "rescales": _of("rescales"),
    "latency, mean, s": _latency("mean"),
    "latency, p50, s": _latency("p50"),
    "latency, p95, s": _latency("p95"),
    "above objective, %": _of("share_above_objective", 100.0),
    "objective held, seeds": lambda row: f"{row['held']} of {row['seeds']}",
    "recovery error, %": _of("recovery_error_pct"),
    "forecast WAPE, %": _of("forecast_wape_pct"),
    "capacity error, %": _of("capacity_error_pct"),
    "left unprocessed": _of("unprocessed"),
    COST: _of("cost"),
    WASTED: _of_bill("wasted_cost"),
    "host-hours paid": _of_bill("host_h_paid"),
    "paid cores used, %": _of_bill("utilisation", 100.0),
    "leases": _of_bill("leases"),
    PROFILING: _of("profiling_worker_seconds", 1.0 / 3600.0),
}

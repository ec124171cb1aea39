"""``perdix scan``: what perdix would save on the jobs of a Prometheus, before anything is set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from perdix.cli.output import JsonOption, UserError, complaints, console, emit, number, styled, table
from perdix.cli.prices import AskedPrices, InstanceTypeOption, PricesOption, WorkerCpuOption, WorkerMemoryOption
from perdix.cli.scan_access import (
    CaFileOption,
    TokenEnvOption,
    TokenFileOption,
    VerifyOption,
    WebhookOption,
    access_of,
    webhook_of,
)
from perdix.settings.counting import counted
from perdix.settings.home import conf_folder
from perdix.settings.plain_error import PlainError

if TYPE_CHECKING:
    from perdix.scan.document import Scan
    from perdix.scan.judging import Wanted
    from perdix.scan.scanning import PriceOf
    from perdix.settings.access import HttpAccess
    from perdix.telemetry.prometheus_answers import PrometheusError

ENGINES = {"flink": "flink", "kafka-streams": "kafka", "spark-structured-streaming": "spark"}
MARK = " *"
BRACKETS = (
    "In brackets: the peak of the workers, and the lateness of a fixed size whose capacity is at the low end of its "
    "interval."
)
WIDE = 160  # characters of a terminal that takes the reasons in the table


UrlArgument = Annotated[
    str, typer.Argument(help="Address of a Prometheus, for example http://prometheus:9090.", show_default=False)
]
DaysOption = Annotated[float, typer.Option("--days", help="How much of the past is read.", min=1, max=14)]
JobsOption = Annotated[
    list[str] | None, typer.Option("--job", help="This job only; repeat for more.", show_default="all")
]
LatencyOption = Annotated[
    float | None,
    typer.Option(
        "--latency-objective",
        help="Objective for p95, ms.",
        show_default="5,000, or twice a job's usual latency where that is more",
        min=1,
        max=86_400_000,
    ),
]
BudgetOption = Annotated[
    float, typer.Option("--error-budget", help="Share of the seconds that may be above it.", min=0.0, max=1.0)
]
ThoroughOption = Annotated[
    bool, typer.Option("--thorough", help="Play the policy every minute of all of the time: minutes per job.")
]
WorkerPriceOption = Annotated[
    float | None, typer.Option("--worker-price", help="Of one worker for an hour.", show_default="none", min=0, max=1e6)
]
CsvOption = Annotated[Path | None, typer.Option("--csv", help="Write the table to this file.", show_default=False)]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="Write a page to hand on: money first, a picture per job.")
]
WriteOption = Annotated[
    Path | None, typer.Option("--write", help="Write job files that only advise into this folder, such as conf/jobs.")
]
ProcessesOption = Annotated[
    int | None, typer.Option("--workers", help="Processes at a time.", show_default="as many as cores", min=1)
]


def scan(
    url: UrlArgument,
    *,
    days: DaysOption = 7.0,
    job: JobsOption = None,
    latency_ms: LatencyOption = None,
    error_budget: BudgetOption = 0.05,
    thorough: ThoroughOption = False,
    worker_price: WorkerPriceOption = None,
    prices: PricesOption = None,
    instance_type: InstanceTypeOption = None,
    worker_cpu: WorkerCpuOption = None,
    worker_memory_mb: WorkerMemoryOption = None,
    token_file: TokenFileOption = None,
    token_env: TokenEnvOption = None,
    ca_file: CaFileOption = None,
    verify_tls: VerifyOption = True,
    csv_file: CsvOption = None,
    html_file: HtmlOption = None,
    write: WriteOption = None,
    webhook: WebhookOption = None,
    processes: ProcessesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the stream jobs of a Prometheus, and say what each would save: as a fixed size, and with perdix.

    Jobs of Flink, Kafka Streams and Spark Structured Streaming are found by their engines' own metrics. Nothing has to
    be set up, and nothing is changed. Forty jobs take about a minute. What is assumed: docs/scan.md.

    Example: perdix scan http://prometheus:9090 --days 7 --prices aws-ec2-us-east-1 --html savings.html
    """
    from perdix.control.clock import WallClock
    from perdix.scan.judging import Wanted

    asked_prices = AskedPrices(prices, instance_type, worker_cpu, worker_memory_mb, None)
    asked_prices.check(worker_price)
    _check_places(csv_file, html_file, write)
    outputs = Outputs(csv_file, html_file, write, webhook_of(webhook))
    access = access_of(url, token_file=token_file, token_env=token_env, ca_file=ca_file, verify_tls=verify_tls)
    wanted = Wanted(access, WallClock().now_s(), days, latency_ms, error_budget)
    found = _scanned(wanted, set(job or ()), _price_of(asked_prices, worker_price), processes, thorough=thorough)
    from perdix.scan.document import document

    result = document(found)
    result["files"], problems = outputs.write(found, result)
    emit("perdix.scan/1", result, as_json=as_json, show=lambda: _show(result))
    for problem in problems:
        complaints.print(styled("not done:", "yellow"), problem)
    if problems:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Outputs:
    """What is written or sent beside the table."""

    csv: Path | None
    html: Path | None
    jobs: Path | None
    webhook: HttpAccess | None

    def write(self, found: Scan, document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Write and send; returns what there is now, and in words what could not be done."""
        from perdix.policies.build import check_policy
        from perdix.scan.job_files import write_job_files
        from perdix.scan.page import page
        from perdix.scan.table_file import write_csv
        from perdix.scan.webhook import send

        files: dict[str, Any] = {"csv": None, "html": None, "jobs": [], "left": [], "webhook": False}
        problems: list[str] = []
        with _noting(problems):
            if self.csv is not None:
                write_csv(self.csv, document)
                files["csv"] = self.csv
        with _noting(problems):
            if self.html is not None:
                self.html.write_text(page(document, found.jobs), encoding="utf-8")
                files["html"] = self.html
        with _noting(problems):
            if self.jobs is not None:
                written = write_job_files(self.jobs, found.wanted, found.jobs, check_policy)
                files |= {"jobs": list(written.files), "left": list(written.left)}
        with _noting(problems):
            if self.webhook is not None:
                send(self.webhook, document)
                files["webhook"] = True
        return files, problems


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Note why something could not be written or sent, and go on: the rest of a scan is worth having."""
    try:
        yield
    except OSError as error:
        problems.append(f"{error.filename}: cannot be written: {error.strerror}")
    except PlainError as error:
        problems.append(str(error))


def _check_places(csv: Path | None, html: Path | None, jobs: Path | None) -> None:
    """Raise ``UserError`` for what cannot be written: that must not be found out after a minute."""
    for option, path in (("--csv", csv), ("--html", html)):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            what = "is a folder" if path.is_dir() else f"its folder {path.absolute().parent} is not there"
            raise UserError(f"{option} {path}: {what}; name another file")
    if csv is not None and html is not None and csv.resolve() == html.resolve():
        raise UserError(f"--csv and --html name one file, {html}; name another for one of them")
    if jobs is not None and jobs.is_file():
        raise UserError(f"--write {jobs}: is a file; name a folder, such as conf/jobs")


def _price_of(prices: AskedPrices, worker_price: float | None) -> PriceOf:
    """Return the price of a worker in a fleet of a size; an unusable price list is refused before the scan begins."""
    from perdix.scan.saving import WorkerPrice, price_of_list

    pricing = prices.pricing()
    if pricing is not None:
        pricing.check()
        return lambda workers: price_of_list(pricing, workers)
    given = None if worker_price is None else WorkerPrice(worker_price, "", "as given with --worker-price")
    return lambda _: given


def _scanned(wanted: Wanted, only: set[str], price_of: PriceOf, processes: int | None, *, thorough: bool) -> Scan:
    import time

    from perdix.scan.scanning import NOTHING, found_in, scan
    from perdix.telemetry.prometheus_answers import PrometheusError

    began_s = time.perf_counter()
    try:
        found = found_in(wanted, only)
    except PrometheusError as error:
        raise UserError(f"{error}{_fix(error)}") from None
    if not found.jobs:
        raise UserError(_nothing(only, found.notes, NOTHING))
    missing = only - {job.name for job in found.jobs}
    found = replace(found, notes=(*found.notes, *(f"no job is called {name}" for name in sorted(missing))))
    with _progress_bar(len(found.jobs)) as tell:
        return scan(
            wanted,
            found,
            thorough=thorough,
            price_of=price_of,
            stopwatch_s=time.perf_counter,
            began_s=began_s,
            processes=processes,
            on_progress=tell,
        )


def _fix(error: PrometheusError) -> str:
    if str(error).startswith("ca_file"):
        return " (here: --ca-file)"
    return {
        "unauthorised": " (here: --token-file or --token-env)",
        "unreachable": "; is the address right, and does the server run?",
        "rejected": "; is this the address of a Prometheus?",
        "malformed": "; give the address of Prometheus itself, for example http://prometheus:9090",
    }.get(error.kind, "")


def _nothing(only: set[str], notes: tuple[str, ...], nothing: str) -> str:
    if only:
        return f"no job is called {', '.join(sorted(only))}; leave --job out to see all that there are"
    return "; ".join([nothing, *notes])


@contextmanager
def _progress_bar(jobs: int) -> Iterator[Callable[[float, int], None]]:
    """Show a bar on standard error; yields a function that takes how many jobs are done."""
    columns = (
        TextColumn("scan"),
        BarColumn(),
        TextColumn("{task.fields[ended]} of {task.total:.0f} jobs"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=complaints, transient=True) as progress:
        task = progress.add_task("scan", total=float(jobs), ended=0)
        yield lambda done, ended: progress.update(task, completed=done, ended=ended)


def _show(found: Mapping[str, Any]) -> None:
    wide = console.width >= WIDE
    money = found["price"] is not None
    saved = f"saved, {found['price']['currency'] or 'cost'}" if money else "saved, worker-h"
    columns = ["job", "engine", "now", "fixed", "perdix", saved, "late %", "sure"]
    rows = [_cells(row, money=money) for row in found["jobs"]]
    whys = [_why(row) for row in found["jobs"]]
    title = f"{found['url']}, the last {found['days']:g} d"
    if wide:
        table(title, [*columns, "why"], [[*row, why] for row, why in zip(rows, whys, strict=True)])
    else:
        table(title, columns, rows)
        for row, why in zip(found["jobs"], whys, strict=True):
            console.print(styled(f"{row['job']}:", "bold"), why)
    console.print(_sentence(found))
    for note in (*found["notes"], *_files(found["files"])):
        console.print(note)


def _cells(row: Mapping[str, Any], *, money: bool) -> list[str]:
    """Return a row of the table; what is advised is marked with a star."""
    if row["advice"] is None:
        return [row["job"], ENGINES[row["engine"]], "-", "-", "-", "-", "-", "-"]
    now, perdix, fixed = row["now"], row["perdix"], row["fixed"]
    saved = row["saved_cost_per_month"] if money else row["saved_worker_h_per_month"]
    return [
        row["job"],
        ENGINES[row["engine"]],
        _workers(now["average_workers"], now["peak_workers"]),
        str(fixed["workers"]) + (MARK if row["advice"] == "fixed" else ""),
        _workers(perdix["average_workers"], perdix["peak_workers"]) + (MARK if row["advice"] == "perdix" else ""),
        f"{saved:,.0f}",
        _late(row),
        row["confidence"]["grade"],
    ]


def _late(row: Mapping[str, Any]) -> str:
    """Return the lateness to expect, and what it is at most where a fixed size is advised on little knowledge."""
    late, most = row["late_share"], row["fixed"]["late_share_at_low_end"]
    expected = f"{100 * late:.1f}"
    return f"{expected} ({100 * most:.0f})" if row["advice"] == "fixed" and most > late + 0.005 else expected


def _why(row: Mapping[str, Any]) -> str:
    if row["advice"] is None:
        return f"not judged: {row['why']}"
    return f"{row['why']} ({row['confidence']['grade']}: {row['confidence']['reason']})"


def _workers(average: float, peak: int) -> str:
    return f"{average:.1f} ({peak})" if abs(average - peak) > 0.05 else str(peak)


def _sentence(found: Mapping[str, Any]) -> str:
    from perdix.scan.saving import saves_in_words

    summary = found["summary"]
    judged = f"{summary['judged']} of {summary['jobs']} jobs judged in {found['seconds']:.0f} s."
    if not summary["judged"]:
        return f"{judged} What each lacks stands in its row."
    if all(row["advice"] in {None, "keep"} for row in found["jobs"]):
        late = sum(row["advice"] is not None and row["late_share"] > found["error_budget"] for row in found["jobs"])
        are, stands = ("is", "its row") if late == 1 else ("are", "their rows")
        but = f", but {counted(late, 'job')} {are} late more than allowed: why stands in {stands}"
        return f"{judged} {BRACKETS} Nothing is advised{but if late else ': what runs is about what is needed'}."
    saved, worker_h = summary["saved_cost_per_month"], summary["saved_worker_h_per_month"]
    saves = saves_in_words(worker_h, "worker-hours")
    if saved is not None:
        saves = f"{saves_in_words(saved, found['price']['currency'])} ({abs(worker_h):,.0f} worker-hours)"
    workers = f"{number(summary['workers_advised'])} workers on average instead of {number(summary['workers_now'])}"
    return f"{judged} {BRACKETS} {MARK.strip()} is advised: it {saves}, {workers}."


def _files(files: Mapping[str, Any]) -> Iterator[str]:
    if files["csv"]:
        yield f"table: {files['csv']}"
    if files["html"]:
        yield f"page: {files['html']}"
    if files["jobs"]:
        written, read = files["jobs"][0].parent.resolve(), conf_folder() / "jobs"
        elsewhere = "" if written == read.resolve() else f"; perdix reads those in {read}"
        yield f"{counted(len(files['jobs']), 'job file')} written to {written}, to advise only{elsewhere}"
    for path in files["left"]:
        yield f"{path}: was there before, and stays as it is"
    if files["webhook"]:
        yield "summary sent to the webhook"

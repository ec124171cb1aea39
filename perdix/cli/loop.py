"""Commands of the control loop: tick, controller, pause, resume, copy-state."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from perdix.cli.output import (
    JobArgument,
    JsonOption,
    UserError,
    clock_time,
    complaints,
    console,
    emit,
    emit_line,
    styled,
    surviving_a_full_disk,
    table,
)
from perdix.cli.processes import LOOPBACK, stopping
from perdix.cli.stores import home, job_of_file, known, no_file, state, usable_files
from perdix.control.clock import WallClock
from perdix.settings.durations import DAY_S, seconds_of
from perdix.settings.home import STATE_VARIABLE, job_file_to_write
from perdix.settings.product import load_product_settings

if TYPE_CHECKING:
    from perdix.control.fleet_report import FleetReport, LoopFault
    from perdix.control.job_files import JobFiles
    from perdix.control.news import Stand

SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 10 * 365.25 * 86_400.0
MOST_NEWS = 20  # lines below that of a tick


def tick(
    job: Annotated[str | None, typer.Option("--job", help="This job only.", show_default="every job")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make one tick now: observe, forecast, decide, act (or advise), learn.

    Exit code 1 when the tick itself lacked something, such as a disk with room (faults in the document).

    Example: perdix tick --job ads --json
    """
    from perdix.control.controller import run
    from perdix.control.live import holder_name, live_io

    settings, files = load_product_settings().control, _chosen(job)
    with live_io(home(), settings) as io:
        reports = run(lambda: files, io, WallClock(), holder=holder_name("tick"), ticks=1, heartbeat=home().heartbeat)
        report = next(iter(reports))
    document = {
        "started_s": report.started_s,
        **report.summary(),
        "reports": [served.to_dict() for served in report.reports.values()],
        "others": {name: other.sentence for name, other in report.others.items()},
    }
    emit("perdix.tick/1", document, as_json=as_json, show=lambda: show_tick(report, files))
    if report.faults:
        raise typer.Exit(1)


def controller(
    interval_s: Annotated[
        float | None, typer.Option("--interval", help="Seconds between ticks.", min=1, max=DAY_S)
    ] = None,
    ticks: Annotated[int | None, typer.Option("--ticks", help="End after this many ticks.", min=1)] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", help="Serve /metrics at this port.", min=1, max=65_535, show_default="off"),
    ] = None,
    metrics_address: Annotated[
        str, typer.Option("--metrics-address", help="Address to serve /metrics at; 0.0.0.0 is every one.")
    ] = LOOPBACK,
    as_json: JsonOption = False,
) -> None:
    """Tick every minute without Dagster, until Ctrl-C. Only one controller acts on a job at a time.

    It trains nothing: champions come from perdix train (put it into cron, each night), or from Dagster's daemon.

    Below the line of a tick stands what is new: which jobs were scaled, are blind or served again, and why.

    With --json, one document per tick and line. A full disk does not end it: that is reported, and tried anew. With
    --ticks, exit code 1 when the last tick had such a fault.

    Example: perdix controller --interval 60 --metrics-port 9464
    """
    from contextlib import ExitStack

    from perdix.cli.metrics import collector_of, listening
    from perdix.control.controller import run
    from perdix.control.job_files import job_files
    from perdix.control.live import holder_name, live_io

    settings, followed = load_product_settings().control, job_files(home())
    faults: tuple[LoopFault, ...] = ()
    pace_s, holder = interval_s or settings.tick_interval_s, holder_name()
    with ExitStack() as stack:
        stop = stack.enter_context(stopping())
        collector = None
        if metrics_port is not None:  # first: a port that is taken must not be found out after the first decisions
            collector = collector_of(home(), pace_s, holder)
            stack.enter_context(listening(collector, metrics_address, metrics_port))
        io = stack.enter_context(live_io(home(), settings))
        log = Log(as_json)
        for report in run(
            lambda: followed.look(float("inf")),
            replace(io, tick_interval_s=pace_s),
            WallClock(),
            holder=holder,
            stop=stop,
            ticks=ticks,
            soft_deadline_s=settings.soft_deadline_s,
            heartbeat=home().heartbeat,
        ):
            faults = report.faults
            if collector is not None:
                collector.note(faults)
            with surviving_a_full_disk():
                log.tick(report)
    if ticks is not None and faults:
        raise typer.Exit(1)


class Log:
    """What the controller says of its ticks; what stays as it is, is said once, not with every tick."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        # How each job stood, and what the tick could not have, the last time
        self._stands: Mapping[str, Stand] = {}
        self._noted: frozenset[str] = frozenset()

    def tick(self, report: FleetReport) -> None:
        """Say how a tick went, what is new of the jobs, and what it could not have, such as MLflow."""
        from perdix.control.news import news_of, stands_of

        before, self._stands = self._stands, stands_of(report, self._stands)
        news = news_of(report, self._stands, before)
        if self._as_json:
            line = {"started_s": report.started_s, **report.summary(), "news": [asdict(each) for each in news]}
            emit_line("perdix.controller/1", line)
            return
        console.print(f"{clock_time(report.started_s)} {report.sentence()}", soft_wrap=True)
        for each in news[:MOST_NEWS]:
            console.print(f"  {each}", soft_wrap=True)
        if len(news) > MOST_NEWS:
            console.print(f"  and {len(news) - MOST_NEWS} more: perdix jobs")
        for note in sorted(frozenset(report.notes) - self._noted):
            complaints.print(styled("note", "yellow"), note, soft_wrap=True)
        self._noted = frozenset(report.notes)


def pause(
    job: JobArgument,
    duration: Annotated[str, typer.Option("--for", help="How long, for example 90m, 6h or 2d.")] = "1h",
    why: Annotated[str, typer.Option("--why", help="Shown to whoever asks why nothing happens.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Stop perdix from scaling a job until a time; it goes on watching, and resumes by itself.

    Example: perdix pause ads --for 6h --why "load test"
    """
    from perdix.control.pausing import pause_of_file_s

    seconds = seconds_of(duration)
    if not seconds:
        raise UserError(f"--for {duration}: not a duration; write it as 90m, 6h or 1d12h")
    if seconds < SHORTEST_PAUSE_S:
        raise UserError(f"--for {duration}: shorter than a second; write it as 90m, 6h or 1d12h")
    if seconds > LONGEST_PAUSE_S:
        raise UserError(f"--for {duration}: longer than 10 years; to change nothing for good, write mode: advise")
    until = job_of_file(job).paused_until
    now_s = WallClock().now_s()
    with state() as store:
        store.journal.pause(job, now_s + seconds, now_s, why)
    until_s = pause_of_file_s(until, now_s)
    document = {"job": job, "until_s": now_s + seconds, "why": why, "job_file_until_s": until_s}
    said = f"{job} is paused until {clock_time(now_s + seconds)}{_paused_by_file(until_s)}"
    emit("perdix.pause/1", document, as_json=as_json, show=lambda: console.print(said))


def resume(job: JobArgument, as_json: JsonOption = False) -> None:
    """End a pause before its time.

    Example: perdix resume ads
    """
    from perdix.control.pausing import pause_of_file_s

    files = usable_files()
    with state() as store:
        if not (was_paused := store.journal.resume(job)):
            known(job, {*files.jobs, *files.faults, *store.journal.statuses()}, "job", no_file())
    file = files.jobs.get(job)
    until_s = None if file is None else pause_of_file_s(file.paused_until, WallClock().now_s())
    said = f"{job} is resumed" if was_paused else f"{job} was not paused"
    if until_s is not None and not was_paused:
        said = f"{job} was not paused by an operator"
    emit(
        "perdix.resume/1",
        {"job": job, "was_paused": was_paused, "job_file_until_s": until_s},
        as_json=as_json,
        show=lambda: console.print(f"{said}{_paused_by_file(until_s)}"),
    )


def copy_state(as_json: JsonOption = False) -> None:
    """Copy the state of PERDIX_HOME (its state.db) into the empty store that PERDIX_STATE_URL names.

    End every loop before (perdix controller, perdix operators, Dagster), and start them with PERDIX_STATE_URL: loops on
    two stores know nothing of each other.

    Example: perdix copy-state
    """
    from perdix.control.state.store import StateStore

    place = home()
    if not place.state_is_elsewhere:
        raise UserError(f"{STATE_VARIABLE} is not set: let it name the store to copy to, as postgresql://...")
    if not place.own_state.is_file():
        raise UserError(f"{place.own_state}: there is no such file, so nothing to copy; let PERDIX_HOME name its home")
    with closing(StateStore(f"sqlite:///{place.own_state}")) as source, state() as store:
        document = {"from": str(place.own_state), "to": store.database.name, "rows": store.copy_from(source)}
    said = f"{document['rows']:,} rows copied from {document['from']} to {document['to']}"
    emit("perdix.copy-state/1", document, as_json=as_json, show=lambda: console.print(said))


def _paused_by_file(until_s: float | None) -> str:
    return "" if until_s is None else f"; its job file pauses it until {clock_time(until_s)}; remove paused_until there"


def show_tick(report: FleetReport, files: JobFiles) -> None:
    """Print a fleet tick: a line per job, the sentence of the whole, and who knows more of metrics that are missing."""
    from perdix.control.state.journal import Status

    rows = [
        [
            served.job,
            served.status.value,
            "-" if served.running is None else served.running,
            "-" if served.decision is None else served.decision.scale_out,
            "-" if served.decision is None else served.decision.reason.value,
            served.sentence,
        ]
        for served in report.reports.values()
    ]
    rows += [[name, other.status.value, "-", "-", "-", other.sentence] for name, other in report.others.items()]
    table("tick", ["job", "status", "runs", "decided", "reason", "why"], rows)
    console.print(report.sentence())
    blind = [name for name, served in report.reports.items() if served.status is Status.BLIND]
    asked = [name for name in blind if files.jobs[name].prometheus is not None]
    if asked:
        console.print(f"perdix doctor{f' --job {asked[0]}' if len(asked) == 1 else ''} names the fix")
    for note in report.notes:
        console.print(styled("note", "yellow"), note)


def _chosen(job: str | None) -> JobFiles:
    files = usable_files(but=job)
    if job is None:
        if not files.names:
            raise UserError(f"no stream job has a file yet: {job_file_to_write()}")
        return files
    known(job, files.jobs, "job", no_file(), files)
    return replace(files, jobs={job: files.jobs[job]}, faults={})

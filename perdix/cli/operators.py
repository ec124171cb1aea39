"""``perdix operators``: how many subtasks each operator of a running Flink job needs, and giving it them."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdix.cli.output import (
    JobArgument,
    JsonOption,
    UserError,
    clock_time,
    complaints,
    console,
    emit_line,
    number,
    table,
)
from perdix.cli.processes import ENDS, handled, interrupt
from perdix.cli.stores import home, job_of_file, state
from perdix.settings.durations import DAY_S
from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import FlinkSettings

if TYPE_CHECKING:
    from perdix.control.job_files import FollowedFiles
    from perdix.control.operators.look import Look
    from perdix.models.dataflow.rates import InstanceWindow


def operators(
    job: JobArgument,
    *,
    policy: Annotated[
        str, typer.Option("--policy", help="ds2, dhalion or flink-autoscaler; options follow colons.")
    ] = "ds2",
    interval_s: Annotated[
        float, typer.Option("--interval", help="Seconds between two looks.", min=1, max=DAY_S)
    ] = 30.0,
    decisions: Annotated[
        int, typer.Option("--decisions", help="End after this many; waiting for a warm-up is none. 0: never.", min=0)
    ] = 1,
    apply: Annotated[bool, typer.Option("--apply", help="Ask Flink for what was decided.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Size every operator of a running Flink job by what its subtasks really do.

    Flink alone is asked (REST, 1.18 or newer): what feeds what, busy, idle and back-pressured time of every subtask,
    and what waits before the sources. Operators that Flink has chained together are one. What a policy remembers of
    its former decisions is kept for an hour. With --json, one document per look and line.

    Example: perdix operators wordcount --policy ds2:curve=learned --decisions 3 --apply
    """
    from perdix.control.clock import WallClock
    from perdix.control.job_files import job_files
    from perdix.control.live import holder_name
    from perdix.control.operators.executor import Executor
    from perdix.control.operators.loop import looks
    from perdix.control.operators.memory import recall, remember
    from perdix.replay.operators.campaign import dataflow_contenders
    from perdix.targets.flink.target import FlinkTarget

    settings = job_of_file(job)
    target = _flink_settings(settings, act=apply)
    contenders = dataflow_contenders(policy)
    if len(contenders) != 1:
        raise UserError(f"--policy {policy}: name one policy")
    chosen, every_s = contenders[0].build(), contenders[0].interval_s or interval_s

    if not as_json:
        complaints.print(f"looking at {job} every {every_s:g} s; Ctrl-C ends it")
    decided, current = 0, _Current(job_files(home()), settings, act=apply)
    with state() as store, closing(FlinkTarget(target, job)) as flink, ExitStack() as stack:
        stack.enter_context(handled(ENDS, interrupt))  # SIGTERM, too: the lease is given back
        asked: dict[str, Any] = {}
        if apply:
            executor = Executor(flink, settings, store, WallClock(), holder_name("operators"), every_s)
            stack.callback(executor.close)

            def carried_out(look: Look) -> Look:
                executor.job = current()
                return executor.carry_out(look)

            asked = {"carry_out": carried_out}
        for look in looks(
            flink, chosen, lambda: current().bounds,
            interval_s=every_s, memory=recall(store, job, policy, time.time()),
            remember=lambda now_s, memory: remember(store, job, policy, now_s, memory), **asked,
        ):  # fmt: skip
            if as_json:
                emit_line("perdix.operators/1", {"job": job, **_document(look)})
            else:
                _show(look, applied=apply)
            decided += look.decided
            if decided == decisions > 0:
                return


@dataclass
class _Current:
    """What the file of a job says, which may change while the command runs."""

    files: FollowedFiles
    job: StreamJob
    act: bool  # whether the command scales the job

    def __call__(self) -> StreamJob:
        """Return the job as its file says now, or as it said last where that cannot be used.

        Raises ``UserError`` where the command may no longer go on.
        """
        name, target = self.job.name, self.job.target
        self.job = self.files.look(math.inf).jobs.get(name, self.job)
        if _flink_settings(self.job, act=self.act) != target:
            raise UserError(f"job '{name}': its target was changed while perdix operators ran; start it again")
        return self.job


def _flink_settings(job: StreamJob, *, act: bool) -> FlinkSettings:
    name = job.name
    if not isinstance(job.target, FlinkSettings):
        raise UserError(
            f"job '{name}': its target is of kind '{job.target.kind}', and only Flink's REST API knows operators; set "
            "target.kind: flink and target.url"
        )
    if act and job.mode == "act":
        raise UserError(
            f"job '{name}' has mode: act, so perdix' control loop scales it as a whole; set mode: advise to scale its "
            "operators with --apply"
        )
    return job.target


def _document(look: Look) -> dict[str, Any]:
    decision = look.decision
    return {
        "at_s": look.at_s,
        "reason": None if decision is None else decision.reason,
        "sentence": None if decision is None else decision.sentence,
        "changes": look.changes,
        "done": look.done,
        "problem": look.problem,
        "operators": _rows(look),
    }


def _rows(look: Look) -> list[dict[str, Any]]:
    """Return a row per operator, in the dataflow's order."""
    from perdix.models.dataflow.useful_time import measured_rates

    situation, decision = look.situation, look.decision
    if situation is None or decision is None:
        return []
    verdicts = {operator.operator: operator for operator in decision.operators}
    rows = []
    for operator in situation.graph:
        name, window = operator.name, situation.windows.get(operator.name)
        rates = None if window is None else measured_rates(window).rates
        verdict = verdicts.get(name)
        rows.append(
            {
                "operator": name,
                "inputs": operator.inputs,
                "running": situation.parallelism[name],
                "wanted": look.changes.get(name, situation.parallelism[name]),
                "unrounded": None if verdict is None else verdict.unrounded,
                "busy": None if window is None else _busy(window),
                "true_processing_per_s": None if rates is None or operator.is_source else rates.true_processing_per_s,
                "observed_processing_per_s": None
                if rates is None or operator.is_source
                else rates.observed_processing_per_s,
                "observed_output_per_s": None if rates is None else rates.observed_output_per_s,
                "arriving_per_s": situation.source_per_s.get(name),
                "waiting_records": situation.lag_records.get(name),
                "why": None if verdict is None else verdict.why,
            }
        )
    return rows


def _busy(window: InstanceWindow) -> float | None:
    """Return the share of the time in which its instances worked, or ``None`` where none of them reports."""
    reported = [useful_s for useful_s in window.useful_s.tolist() if math.isfinite(useful_s)]
    return sum(reported) / len(reported) / window.window_s if reported else None


def _show(look: Look, *, applied: bool) -> None:
    when = "" if look.at_s is None else clock_time(look.at_s)
    if look.decision is not None and look.decided:
        columns = ["operator", "runs", "wants", "busy", "true rate/s", "processes/s", "arrives/s", "waits"]
        rows = [
            [
                row["operator"],
                row["running"],
                row["wanted"],
                "-" if row["busy"] is None else f"{row['busy']:.0%}",
                number(row["true_processing_per_s"]),
                number(row["observed_processing_per_s"]),
                number(row["arriving_per_s"]),
                number(row["waiting_records"]),
            ]
            for row in _rows(look)
        ]
        table(when, columns, rows)
    if look.decision is not None:
        console.print(f"{when} {look.decision.sentence}")
    if look.problem is not None:
        console.print(f"{when} {look.problem}")
    if look.done:
        console.print("Flink was asked for it.")
    elif look.changes and not applied:
        console.print("Nothing was changed; --apply asks Flink for it.")

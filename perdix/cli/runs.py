"""Dagster jobs run in this process, with a line of progress for people."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import dagster as dg
from rich.console import Console

from perdix.cli.output import UserError, console, styled
from perdix.cli.processes import restoring
from perdix.pipelines.orphans import end_orphans, owned
from perdix.pipelines.progress import showing
from perdix.settings.home import Home, conf_part

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
_ODD_IN_A_URL = re.compile(r"\?|%[0-9A-Fa-f]{2}")
_OF_A_CLASS = re.compile(r"^(\w+\.)+\w+: ?")  # as Dagster puts it before an error's own words


@contextmanager
def instance(home: Home) -> Iterator[dg.DagsterInstance]:
    """Open the home's Dagster instance, configured on first use, so that the UI shows what the command line ran.

    Raises ``UserError`` where Dagster's URLs of its databases would name another folder.
    """
    folder = home.dagster
    if odd := _ODD_IN_A_URL.search(str(folder)):
        raise UserError(
            f"PERDIX_HOME {home.root}: Dagster finds no database in a folder with '{odd[0]}' in its path; name another"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "dagster.yaml").exists():
        shutil.copyfile(conf_part("dagster.yaml"), folder / "dagster.yaml")
    os.environ["DAGSTER_HOME"] = str(folder)
    with dg.DagsterInstance.from_config(str(folder)) as opened:
        end_orphans(opened)
        yield opened


def run_job(
    name: str,
    partitions: tuple[str, str],
    opened: dg.DagsterInstance,
    progress: Console | None,
    *,
    tags: Mapping[str, str] | None = None,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    must_succeed: bool = True,
) -> dg.ExecuteInProcessResult:
    """Run a Dagster job over a range of partitions (first and last) in this process.

    Raises ``UserError`` where it must succeed and does not, naming the step that failed and what it said; the run stays
    in Dagster with its whole log.

    ``config``: asset -> its configuration.
    """
    job = _definitions(name).resolve_job_def(name)
    with owned(opened) as process, showing(_line(progress) if progress else None):
        result = job.execute_in_process(
            instance=opened,
            tags={
                RANGE_START: partitions[0],
                RANGE_END: partitions[1],
                "perdix/reason": "manual",
                **process,
                **(tags or {}),
            },
            run_config={
                "loggers": {"progress": {"config": {}}},
                "ops": {asset: {"config": dict(settings)} for asset, settings in (config or {}).items()},
            },
            raise_on_error=False,
        )
    if must_succeed and not result.success:
        raise UserError("\n".join(why_failed(result)))
    return result


def measure(
    home: Home, name: str, job: str, config: Mapping[str, Mapping[str, Any]], restored: str | None, *, show: bool
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Run a Dagster job that measures one stream job; return the metadata of its assets, and why others failed.

    Raises ``UserError`` as :func:`run_job`, where an asset of the configuration was not made.

    ``restored``: what the stream job gets back before an interrupt ends the run; ``None``: there is nothing to restore.
    """
    with restoring(restored) if restored else nullcontext(), instance(home) as opened:
        opened.add_dynamic_partitions("stream_jobs", [job])
        progress = console if show else None
        result = run_job(name, (job, job), opened, progress, config=config, must_succeed=False)
    produced, failed = metadata(result), why_failed(result)
    if not config.keys() <= produced.keys():
        raise UserError("\n".join(failed))
    return produced, failed


def why_failed(result: dg.ExecuteInProcessResult) -> list[str]:
    """Return that a run failed, its steps that did with what each said, and its checks; empty where it succeeded.

    What other steps of such a run made stays, and is in :func:`metadata`.
    """
    if result.success:
        return []
    return [f"run {result.run_id} failed", *failed_steps(result), *explained_checks(result)]


def _definitions(job: str) -> dg.Definitions:
    """Return definitions that know a job, with no more imports than it needs."""
    from perdix.pipelines.ingesting import JOBS, ingesting_defs

    if job in {job_of_dagster.name for job_of_dagster in JOBS}:
        return ingesting_defs()
    from perdix.pipelines.training_location import defs

    return defs()


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Return the metadata of the last materialization of each asset of a run."""
    found: dict[str, dict[str, Any]] = {}
    for event in result.get_asset_materialization_events():
        if event.asset_key is not None:
            values = event.materialization.metadata
            found[event.asset_key.to_user_string()] = {key: item.value for key, item in values.items()}
    return found


def failed_checks(result: dg.ExecuteInProcessResult) -> list[str]:
    """Return the checks of a run that did not pass, as ``asset: check (severity)``."""
    return [
        f"{item.asset_key.to_user_string()}: {item.check_name} ({item.severity.value})"
        for item in result.get_asset_check_evaluations()
        if not item.passed
    ]


def explained_checks(result: dg.ExecuteInProcessResult) -> list[str]:
    """Return the checks of a run that did not pass with what they found; once, though each day of a run has them."""
    failed = [item for item in result.get_asset_check_evaluations() if not item.passed]
    named = [(f"{item.asset_key.to_user_string()}: {item.check_name} ({item.severity.value})", item) for item in failed]
    return list(dict.fromkeys(f"{name}: {item.description}" if item.description else name for name, item in named))


def errors_of_days(result: dg.ExecuteInProcessResult) -> list[str]:
    """Return the errors of a run's observations and features, each with its job and day."""
    said = metadata(result)
    rows = [
        (asset, row.data)
        for asset in ("observations", "features")
        if asset in said
        for row in said[asset]["jobs"].records
    ]
    return [f"{asset}: {row['job']}, {row['day']}: {row['error']}" for asset, row in rows if row["error"]]


def _line(progress: Console) -> Callable[[str], None]:
    return lambda said: progress.print(styled(f"  {time.strftime('%H:%M:%S')}", "dim"), said)


def failed_steps(result: dg.ExecuteInProcessResult) -> list[str]:
    """Return the steps that failed and what each said; a check that blocks is not a step that failed."""
    lines = []
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            cause = error.cause or error if error else None
            if cause and cause.cls_name == "DagsterAssetCheckFailedError":
                continue
            message = _OF_A_CLASS.sub("", cause.message.strip()) if cause else ""
            said = message.splitlines()[-1] if message else "no message"
            lines.append(f"{event.step_key}: {said}")
    return lines

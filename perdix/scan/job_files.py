"""Job files of what was found, ready for the controller: they only advise. A file that is there stays as it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from perdix.scan.advice import Advice
from perdix.scan.finding import FoundJob
from perdix.scan.judging import Judged, Wanted
from perdix.settings.stream_job import CheckPolicy, load_stream_job
from perdix.telemetry.http_access import shown


@dataclass(frozen=True)
class Written:
    """What became of the job files: paths of those that were written, and of those that were there before."""

    files: tuple[Path, ...]
    left: tuple[Path, ...]


def write_job_files(
    folder: Path, wanted: Wanted, jobs: Sequence[Judged], check_policy: CheckPolicy | None = None
) -> Written:
    """Write a file for each job that was judged.

    Raises ``OSError`` when the folder or a file cannot be written; ``SettingsError`` when a file would not be accepted:
    a defect.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    left: list[Path] = []
    for judged in jobs:
        if judged.advice is None:
            continue
        path = folder / f"{judged.job.name}.yaml"
        try:
            stream = path.open("x", encoding="utf-8")
        except FileExistsError:
            left.append(path)
            continue
        try:
            with stream:
                stream.write(text_of(wanted, judged.job, judged.advice))
            load_stream_job(path, check_policy)
        except BaseException:  # half a file, or one that is refused, would be left alone by the next scan
            path.unlink(missing_ok=True)
            raise
        files.append(path)
    return Written(tuple(files), tuple(left))


def text_of(wanted: Wanted, job: FoundJob, advice: Advice) -> str:
    """Return a job file: what was found as a comment, then the settings."""
    lines = [
        f"Written by perdix scan: {advice.why}.",
        f"Confidence {advice.confidence.grade}: {advice.confidence.reason}.",
    ]
    lines.append("It only advises: to let perdix act, name a target and set mode: act (docs/targets.md).")
    if job.topic is None and job.engine != "spark-structured-streaming":
        lines.append("Its topic is not known: add topic: NAME to the selector, or the load cannot be read live.")
    if wanted.access.url.username or wanted.access.url.password:
        lines.append("The user and the password of the address are left out: name a token_file or a token_env.")
    stream = StringIO()
    YAML().dump(_settings(wanted, job, advice), stream)
    comment = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    return comment + stream.getvalue()


def _settings(wanted: Wanted, job: FoundJob, advice: Advice) -> dict[str, Any]:
    access = wanted.access.model_dump(mode="json", exclude={"url"}, exclude_defaults=True)
    return {
        "engine": job.engine,
        "prometheus": {
            "url": shown(wanted.access),
            "selector": job.labels,
            **access,
            "scrape_interval_s": job.scrape_interval_s,
        },
        **({} if job.partitions is None else {"source_partitions": job.partitions}),
        "bounds": {"minimum": advice.bounds.minimum, "maximum": advice.bounds.maximum},
        "objectives": {
            "latency_p95_ms": advice.objectives.latency_p95_ms,
            "error_budget": advice.objectives.error_budget,
        },
        "target": {"kind": "advisory"},
        "mode": "advise",
    }

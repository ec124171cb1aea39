"""Job files for the twins of ``conf/twins``, written into the home beside the operator's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from perdix.cli.output import UserError
from perdix.settings.home import Home
from perdix.settings.stream_job import load_stream_job
from perdix.twin.parameters import load_demo_twins

SCRAPE_INTERVAL_S = 5.0
_HEADER = "# Written by perdix: a job of the digital twin.\n"


def is_twin_job(path: Path) -> bool:
    """Whether a job file is one that perdix wrote for a twin; ``False`` where there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.readline() == _HEADER
    except OSError:
        return False


def claim_twin_job(place: Home, name: str) -> None:
    """Write a job file that says no more than that this name is a twin's, in place of an earlier twin's file."""
    _write(place, name, {"mode": "advise"})


def write_twin_jobs(place: Home, url: str, mode: str, scrape_interval_s: float = SCRAPE_INTERVAL_S) -> list[str]:
    """Write one job file per twin that points at the twin's face under ``url``; returns the jobs' names."""
    names = []
    for name, parameters in load_demo_twins().items():
        document = {
            "engine": "flink",
            "prometheus": {
                "url": url,
                "selector": {"namespace": name, "topic": name, "job_name": name},
                "scrape_interval_s": scrape_interval_s,
            },
            "bounds": {"minimum": 1, "maximum": parameters.workers.maximum},
            "target": {"kind": "twin", "url": url},
            "mode": mode,
        }
        load_stream_job(_write(place, name, document))
        names.append(name)
    return names


def _write(place: Home, name: str, document: Mapping[str, Any]) -> Path:
    place.jobs.mkdir(parents=True, exist_ok=True)
    path = place.jobs / f"{name}.yaml"
    if path.exists() and not is_twin_job(path):
        raise UserError(f"{path}: this job file is not of a twin; rename it, or give another PERDIX_HOME")
    with path.open("w", encoding="utf-8") as stream:
        stream.write(_HEADER)
        YAML().dump(dict(document), stream)
    return path

"""Job files for the twins of ``conf/twins``, written into the home beside the operator's own."""

from __future__ import annotations

from ruamel.yaml import YAML

from settings.home import Home
from settings.stream_job import load_stream_job
from twin.parameters import load_demo_twins

SCRAPE_INTERVAL_S = 5.0


def write_twin_jobs(place: Home, url: str, mode: str, scrape_interval_s: float = SCRAPE_INTERVAL_S) -> list[str]:
    """Write one job file per twin that points at the twin's face under ``url``; returns the jobs' names."""
    place.jobs.mkdir(parents=True, exist_ok=True)
    names = []
    for name, parameters in load_demo_twins().items():
        path = place.jobs / f"{name}.yaml"
        document = {
            "engine": "flink",
            "prometheus": {
                "url": url,
                "selector": {"namespace": name, "topic": name, "job_name": name},
                "scrape_interval_s": scrape_interval_s,
            },
            "bounds": {"minimum": 1, "maximum": parameters.workers.maximum},
            "policy": {"name": "daedalus"},
            "target": {"kind": "twin", "url": url},
            "mode": mode,
        }
        with path.open("w", encoding="utf-8") as stream:
            stream.write("# Written by perdix: a job of the digital twin.\n")
            YAML().dump(document, stream)
        load_stream_job(path)
        names.append(name)
    return names

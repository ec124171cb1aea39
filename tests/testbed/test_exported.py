"""What is taken from Prometheus at the end of a run, however long that was."""

import gzip
import itertools
from pathlib import Path

import httpx
import orjson
import pytest

from perdix.telemetry.prometheus import POINTS_PER_PAGE
from testbed import exported
from testbed.settings import Testbed

NAME = "flink_jobmanager_job_uptime"


def prometheus(request: httpx.Request) -> httpx.Response:
    """Answer as Prometheus does, which gives no more points at once."""
    if request.url.path.startswith("/api/v1/label/"):
        return httpx.Response(200, json={"data": [NAME, "go_goroutines"]})
    start, end = float(request.url.params["start"]), float(request.url.params["end"])
    if end - start >= POINTS_PER_PAGE:
        return httpx.Response(400, json={"status": "error", "error": "exceeded maximum resolution of 11,000 points"})
    values = [[start + k, "1"] for k in range(round(end - start) + 1)]
    return httpx.Response(200, json={"data": {"result": [{"metric": {"__name__": NAME}, "values": values}]}})


def test_a_run_of_more_than_three_hours_is_exported_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = httpx.Client
    transport = httpx.MockTransport(prometheus)
    monkeypatch.setattr(httpx, "Client", lambda **settings: client(transport=transport, **settings))
    written = exported.export(Testbed(), 1_000.0, 13_000.0, tmp_path)
    answers = [orjson.loads(gzip.decompress(path.read_bytes()))["data"]["result"][0]["values"] for path in written]
    assert [at_s for at_s, _ in itertools.chain(*answers)] == list(range(1_000, 13_001))

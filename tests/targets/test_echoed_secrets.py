"""A server that echoes what it was asked with: neither the token nor the password comes to be stored or shown."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from perdix.control.fleet import tick_fleet
from perdix.control.state.store import StateStore
from perdix.settings.stream_job import PrometheusSource
from perdix.settings.targets import FlinkSettings
from perdix.targets.contract import TargetError
from perdix.targets.flink.target import FlinkTarget
from perdix.telemetry.prometheus import Prometheus
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.twin.living import SimulatedClock
from tests.control.rig import LOW, Rig
from tests.telemetry.wire_server import Wire, answer_of

TOKEN = "ey.s3cr3t-token"
PASSWORD = "s3cr3t-p4ss"
BASIC = base64.b64encode(f"perdix:{PASSWORD}".encode()).decode()


class Echo(BaseHTTPRequestHandler):
    """Refuses everything with the credentials in its answer, as a debugging proxy does."""

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization", "")
        told = f"bad credentials {sent} ({sent.partition(' ')[2]}) of {PASSWORD}"
        body = json.dumps({"errors": [told], "status": "error", "error": told}).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PATCH = do_PUT = do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("way", ["token", "password"])
def test_what_flink_and_prometheus_echo_is_masked(address: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_TOKEN", TOKEN)
    url = f"http://perdix:{PASSWORD}@{address}" if way == "password" else f"http://{address}"
    token = {} if way == "password" else {"token_env": "FLINK_TOKEN"}
    with closing(FlinkTarget(FlinkSettings(url=url, **token), "orders")) as target, pytest.raises(TargetError) as told:
        target.read()
    with closing(Prometheus(PrometheusSource(url=url, **token))) as client, pytest.raises(PrometheusError) as refused:
        client.query_range("up", 0.0, 60.0, 15.0)
    for error in (told.value, refused.value):
        assert "bad credentials" in str(error)
        assert TOKEN not in str(error)
        assert BASIC not in str(error)
        assert PASSWORD not in str(error) or way == "token"  # nobody sent it


@pytest.mark.parametrize("before", [0, 70])  # characters; 80 of such a body are shown
def test_what_is_quoted_of_a_body_that_cannot_be_read_is_masked_before_it_is_cut(before: int) -> None:
    with closing(Wire(answer_of(b"." * before + PASSWORD.encode()))) as wire:
        url = wire.url.replace("http://", f"http://perdix:{PASSWORD}@")
        with closing(FlinkTarget(FlinkSettings(url=url), "orders")) as target, pytest.raises(TargetError) as told:
            target.read()
    assert "." * before + "***" in str(told.value)
    assert PASSWORD[:8] not in str(told.value)


def test_nothing_of_it_reaches_the_state_store(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_TOKEN", TOKEN)
    target = FlinkTarget(FlinkSettings(url=f"http://{address}", token_env="FLINK_TOKEN"), "orders")
    with closing(StateStore(f"sqlite:///{tmp_path / 'state.db'}")) as store, closing(target):
        rig = Rig.of(store, LOW)
        io = type(rig.io)(rig.source, store, rig.champions, lambda _: target)
        tick_fleet([rig.job], io, SimulatedClock(rig.now_s), holder="a")
        assert "bad credentials Bearer ***" in store.journal.statuses()["orders"].sentence
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert TOKEN.encode() not in stored

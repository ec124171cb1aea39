import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from perdix.targets.contract import Running, TargetError
from perdix.targets.twin import LocalTwinTarget, TwinTarget
from perdix.twin.living import LivingTwin, SimulatedClock
from tests.twin.troubled_face import PrometheusFace, Trouble

START_S = 1_700_000_000


@pytest.fixture
def clock():
    return SimulatedClock(START_S + 600)


@pytest.fixture
def face(twin, clock):
    with PrometheusFace(LivingTwin({"orders": twin}, clock)) as face:
        yield face


def test_a_rescale_unsettles_and_then_really_runs(face, clock):
    with TwinTarget(face.url + "/", "orders") as target:
        assert target.scale(4, "a") == Running(2, 4, settled=False)
        clock.advance(300)
        assert target.read() == Running(4, 4, settled=True)


def test_the_local_twin_rescales_too(twin):
    target = LocalTwinTarget(twin)
    assert target.scale(4, "a") == Running(2, 4, settled=False)
    twin.step(300)
    assert target.read() == Running(4, 4, settled=True)
    with pytest.raises(TargetError, match=r"outside 1\.\.6") as refused:
        target.scale(7, "b")
    assert not refused.value.retriable


@pytest.mark.parametrize("trouble", [Trouble(down=True), Trouble(refuse_scaling=True), Trouble(delay_s=3.0)])
def test_a_server_in_trouble_may_be_asked_again(face, twin, trouble):
    face.trouble = trouble
    with TwinTarget(face.url, "orders", timeout_s=0.3) as target, pytest.raises(TargetError) as failed:
        target.scale(4, "a")
    assert failed.value.retriable
    face.trouble = Trouble()
    with TwinTarget(face.url, "orders") as target:  # on a busy machine 0.3 s are sometimes too short
        target.scale(4, "a")
    assert len(twin.outages) == 1


def test_nobody_listens(face):
    url = face.url
    face.close()
    with TwinTarget(url, "orders") as target, pytest.raises(TargetError, match="cannot be reached") as failed:
        target.read()
    assert failed.value.retriable


def test_an_unknown_job_is_refused_for_good(face):
    with TwinTarget(face.url, "no/body") as target, pytest.raises(TargetError, match="no job 'no/body'") as failed:
        target.read()
    assert not failed.value.retriable


def test_a_closed_target_raises_its_own_error(face):
    target = TwinTarget(face.url, "orders")
    target.close()
    with pytest.raises(TargetError):
        target.read()


@pytest.mark.parametrize(
    "body",
    [b"<html>login</html>", b"", b"[]", b"{}", b'{"scale_out": "4", "requested": 4, "settled": true}', b"\xff"],
)
def test_a_strangers_answer_is_a_target_error(body):
    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Stranger)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    with (
        TwinTarget(f"http://127.0.0.1:{server.server_port}", "orders") as target,
        pytest.raises(TargetError, match="not the answer of a twin") as failed,
    ):
        target.read()
    assert failed.value.retriable
    thread.join()
    server.server_close()


def test_the_targets_of_one_server_share_connections_and_the_last_one_closes_them(face):
    first, second = TwinTarget(face.url, "orders"), TwinTarget(face.url, "orders")
    assert first._twin._client is second._twin._client
    first.read()
    first.close()
    first.close()
    assert second.read().scale_out == 2, "although another was closed, twice"
    second.close()
    with TwinTarget(face.url, "orders") as again:
        assert again._twin._client is not first._twin._client
        assert again.read().scale_out == 2

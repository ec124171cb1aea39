"""Against servers that send anything they like over a real socket, the client keeps to its limits."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from contextlib import closing

import pytest

from perdix.settings.access import HttpAccess
from perdix.telemetry.http_client import MIB, HttpClient, HttpError, Limits
from tests.telemetry.wire_server import DRIPS, Wire, answer_of

LIMITS = Limits(pause_s=5.0, total_s=0.3, largest_bytes=MIB)


def asked(wire, limits=LIMITS):
    with closing(wire), closing(HttpClient(HttpAccess(url=wire.url), limits)) as client:
        return client.ask("GET", "/x")


def refused(wire, limits=LIMITS):
    with pytest.raises(HttpError) as raised:
        asked(wire, limits)
    return raised.value


@pytest.mark.parametrize("part", DRIPS)
def test_a_server_that_drips_is_left_when_the_time_for_the_whole_call_is_over(part):
    began_s = time.monotonic()
    assert refused(Wire(*DRIPS[part], pause_s=0.02)).trouble == "too slow"
    assert time.monotonic() - began_s < 3.0, "each byte alone came in time"


def test_a_connection_that_is_used_again_gets_its_time_anew():
    wire = Wire(answer_of(b"1"))
    with closing(wire), closing(HttpClient(HttpAccess(url=wire.url), LIMITS)) as client:
        assert client.ask("GET", "/x").body == b"1"
        time.sleep(LIMITS.total_s)
        assert client.ask("GET", "/x").body == b"1"


def test_a_bomb_is_unpacked_no_further_than_an_answer_may_grow():
    bomb = gzip.compress(bytes(200 * MIB))
    tracemalloc.start()
    error = refused(Wire(answer_of(bomb, "gzip")), Limits(5.0, 20.0, MIB))
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.trouble == "too large"
    assert "more than 1 MiB" in str(error)
    assert most_bytes < 4 * MIB + len(bomb)


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "gzip, identity, gzip"])
def test_a_body_packed_twice_or_otherwise_than_asked_for_is_not_unpacked_at_all(coding):
    twice = gzip.compress(gzip.compress(bytes(MIB)))
    error = refused(Wire(answer_of(twice, coding)))
    assert error.trouble == "unreadable"
    assert coding in str(error)


def test_an_answer_that_is_never_finished_stops_at_the_size_limit():
    endless = [b"HTTP/1.1 200 OK\r\n\r\n", *[bytes(65_536)] * 64]
    assert refused(Wire(*endless), Limits(5.0, 20.0, MIB)).trouble == "too large"


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        pytest.param(gzip.compress(b"[1]"), "gzip", id="gzip"),
        pytest.param(zlib.compress(b"[1]"), "deflate", id="deflate"),
        pytest.param(b"[1]", "identity", id="as it is"),
    ],
)
def test_what_keeps_to_the_limits_is_read(body, coding):
    assert asked(Wire(answer_of(body, coding))).body == b"[1]"


def test_an_answer_that_is_exactly_as_large_as_it_may_be_is_read():
    exactly = bytes(MIB)
    assert len(asked(Wire(answer_of(gzip.compress(exactly), "gzip"))).body) == MIB


def test_an_empty_refusal_that_claims_to_be_packed_is_still_a_refusal():
    assert asked(Wire(answer_of(b"", "gzip", b"503 Busy"))).status == 503


@pytest.mark.parametrize(
    ("wire", "trouble"),
    [
        pytest.param([answer_of(b"not gzip", "gzip")], "unreadable", id="not what it claims"),
        pytest.param([answer_of(gzip.compress(b"[1]" * 99)[:20], "gzip")], "broken off", id="half of it"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1"], "broken off", id="shorter than told"),
        pytest.param([b"SSH-2.0-OpenSSH_9.6\r\n"], "broken off", id="no HTTP"),
        pytest.param([], "broken off", id="nothing"),
    ],
)
def test_a_broken_answer_is_named(wire, trouble):
    assert refused(Wire(*wire)).trouble == trouble


def test_where_nobody_listens_is_told():
    wire = Wire()
    wire.close()
    assert refused(wire).trouble == "unreachable"

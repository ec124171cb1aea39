"""Answers of a target's server that are of no use: refusals, garbage, and numbers that cannot be."""

from __future__ import annotations

import gzip

from benchmarks.storm.network import HEADERS, Response

GARBAGE = {
    "page": Response(200, b"<html>Sign in</html>", {"Content-Type": "text/html"}),
    "half": Response(200, b'{"scale_out": 4, "requ', HEADERS),
    "list": Response(200, b"[]", HEADERS),
    "number": Response(500, b"7", HEADERS),
    "deep": Response(200, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, HEADERS),
    "errors": Response(500, b'{"errors":[1]}', HEADERS),
    "gzip": Response(200, gzip.compress(b"{}")[:-9] + b"\x00rot", {**HEADERS, "Content-Encoding": "gzip"}),
    "surrogate": Response(
        500, b'{"errors":["\\ud800"],"error":"\\ud800 [/]","message":"\\ud800","kind":"Status"}', HEADERS
    ),
}
BAD_ANSWERS = tuple(GARBAGE)


def refusal(kind: str, status: int) -> Response:
    """Return a refusal as that kind of server words it."""
    said = "refused for the storm"
    if kind == "flink":
        return Response.of(status, {"errors": [said]})
    if kind == "twin":
        return Response.of(status, {"error": said})
    return Response.of(status, {"kind": "Status", "apiVersion": "v1", "message": said, "code": status})


def absurd(document: object, amount: float) -> object:
    """Return an answer with its numbers of workers changed."""
    if isinstance(document, dict):
        return {
            key: _lie(value, amount)
            if key in {"scale_out", "requested", "parallelism", "replicas", "readyReplicas"} and type(value) is int
            else absurd(value, amount)
            for key, value in document.items()
        }
    return [absurd(part, amount) for part in document] if isinstance(document, list) else document


def _lie(value: int, amount: float) -> int:
    return value * 2 if amount == 2 else int(amount)

"""Answers of a target's server that are of no use: refusals, garbage, and numbers that cannot be."""

from __future__ import annotations

import gzip

from benchmarks.storm.network import HEADERS, Response

BAD_ANSWERS = ("page", "half", "list", "number", "deep", "errors", "gzip", "surrogate")


def refusal(kind: str, status: int) -> Response:
    """Return a refusal as that kind of server words it."""
    said = "refused for the storm"
    if kind == "flink":
        return Response.of(status, {"errors": [said]})
    if kind == "twin":
        return Response.of(status, {"error": said})
    return Response.of(status, {"kind": "Status", "apiVersion": "v1", "message": said, "code": status})


def garbage(what: str) -> Response:
    """Return one of the :data:`BAD_ANSWERS`."""
    match what:
        case "page":
            return Response(200, b"<html>Sign in</html>", {"Content-Type": "text/html"})
        case "half":
            return Response(200, b'{"scale_out": 4, "requ', dict(HEADERS))
        case "list":
            return Response(200, b"[]", dict(HEADERS))
        case "number":
            return Response(500, b"7", dict(HEADERS))
        case "deep":
            return Response(200, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, dict(HEADERS))
        case "errors":
            return Response(500, b'{"errors":[1]}', dict(HEADERS))
        case "gzip":
            return Response(200, gzip.compress(b"{}")[:-9] + b"\x00rot", {**HEADERS, "Content-Encoding": "gzip"})
    return Response(
        500, b'{"errors":["\\ud800"],"error":"\\ud800 [/]","message":"\\ud800","kind":"Status"}', dict(HEADERS)
    )


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

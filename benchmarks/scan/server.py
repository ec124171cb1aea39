"""A Prometheus over real HTTP, in a process of its own, whose answers were worked out before."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import orjson

from benchmarks.scan.past import Answer

_SEVERAL = re.compile(r'(\w+)=~"([^"|]*\|[^"]*)"(?=[,}])')


@contextmanager
def serving(files: Sequence[Path], shift_s: float) -> Iterator[str]:
    """Serve the answers of some files, each moved ``shift_s`` seconds on, until the block ends; yields the base URL."""
    context = get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(there, tuple(files), shift_s), daemon=True)
    server.start()
    try:
        yield here.recv()
    finally:
        server.terminate()
        server.join()


def _serve(parent: Connection, files: Sequence[Path], shift_s: float) -> None:
    known: dict[str, list[Answer]] = {}
    for path in files:
        for answer in pickle.loads(path.read_bytes()):
            known.setdefault(answer.promql, []).append(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = dict(parse_qsl(urlsplit(self.path).query))
            start_s, end_s, step_s = (float(asked[name]) for name in ("start", "end", "step"))
            steps_s = start_s + step_s * np.arange(int((end_s - start_s) / step_s + 1e-9) + 1)
            answers = known.get(asked["query"]) or _of_several(known, asked["query"])
            rows = [_row(answer, steps_s - shift_s, steps_s) for answer in answers]
            found = [row for row in rows if row["values"]]
            body = orjson.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    parent.send(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()


def _of_several(known: Mapping[str, Sequence[Answer]], promql: str) -> list[Answer]:
    """Return the answers to a query that asks for several jobs: those of each, with the labels that tell them apart."""
    many = {name: values.split("|") for name, values in _SEVERAL.findall(promql)}
    found = []
    for number in range(len(next(iter(many.values()), []))):
        mine = {name: values[number] for name, values in many.items()}
        alone = promql.replace(f"({', '.join(many)}, ", "(")
        for name, values in many.items():
            alone = alone.replace(f'{name}=~"{"|".join(values)}"', f'{name}="{mine[name]}"')
        found += [replace(answer, labels={**answer.labels, **mine}) for answer in known.get(alone, [])]
    return found


def _row(answer: Answer, steps_s: np.ndarray[Any, Any], said_s: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return answer series at some steps: the newest value that is at most answer step old."""
    places = np.floor((steps_s - answer.first_s) / answer.step_s + 1e-6).astype(np.int64)
    there = (places >= 0) & (places < len(answer.values))
    values = np.where(there, answer.values[np.clip(places, 0, len(answer.values) - 1)], np.nan)
    known = np.flatnonzero(~np.isnan(values))
    pairs = zip(said_s[known].tolist(), values[known].tolist(), strict=True)
    return {"metric": answer.labels, "values": [(time_s, repr(value)) for time_s, value in pairs]}

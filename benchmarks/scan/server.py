"""A Prometheus over real HTTP, whose answers were worked out before."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import orjson

from benchmarks.own_process import JsonHandler
from benchmarks.scan.past import Answer

_SEVERAL = re.compile(r'(\w+)=~"([^"|]*\|[^"]*)"(?=[,}])')


def answering(files: Sequence[Path], shift_s: float) -> type[JsonHandler]:
    """Return what gives the answers of some files, each moved ``shift_s`` seconds on."""
    known: dict[str, list[Answer]] = {}
    for path in files:
        for answer in pickle.loads(path.read_bytes()):
            known.setdefault(answer.promql, []).append(answer)

    class Handler(JsonHandler):
        def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
            asked = dict(parse_qsl(urlsplit(self.path).query))
            start_s, end_s, step_s = (float(asked[name]) for name in ("start", "end", "step"))
            steps_s = start_s + step_s * np.arange(int((end_s - start_s) / step_s + 1e-9) + 1)
            answers = known.get(asked["query"]) or _of_several(known, asked["query"])
            rows = [_row(answer, steps_s - shift_s, steps_s) for answer in answers]
            found = [row for row in rows if row["values"]]
            self.send(orjson.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}))

    return Handler


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

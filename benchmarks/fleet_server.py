"""A Prometheus and the targets of a fleet over real HTTP, in a process of its own: one twin under many names.

What it costs is not what is measured, so an answer is made once and repeated under each name.
"""

from __future__ import annotations

import json
import re
from functools import cache
from urllib.parse import parse_qsl, urlsplit

import httpx

from benchmarks.own_process import JsonHandler
from perdix.twin import prometheus_api
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import load_twin

_QUERY = re.compile(r'(?P<metric>\w+)\{job(?:=~"(?P<many>[^"]*)"|="(?P<one>[^"]*)")\}')


def move_to(url: str, now_s: float) -> None:
    """Let the server's time be ``now_s``."""
    httpx.post(f"{url}/now/{now_s:.0f}", trust_env=False, timeout=60.0).raise_for_status()


def fleet(name: str, seed: int, start_s: int, warm_s: int) -> type[JsonHandler]:
    """Return what answers for a fleet of jobs, all of them the one twin's; ``POST /now/<epoch second>`` moves time."""
    clock = SimulatedClock(start_s + warm_s)
    living = LivingTwin({name: JobTwin(load_twin(name), seed, start_s=start_s)}, clock)
    living.advance()

    @cache
    def rows(metric: str, window: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
        """Return the text before and after the job's name of each series."""
        asked = {"query": f'{metric}{{job="{name}"}}', **dict(window)}
        status, answer = prometheus_api.query_range(living, asked)
        if status != 200:
            raise ValueError(answer)
        cut = []
        for row in answer["data"]["result"]:
            row["metric"]["job"] = "\0"
            before, _, after = json.dumps(row, separators=(",", ":")).partition('"\\u0000"')
            cut.append((before + '"', '"' + after))
        return cut

    class Handler(JsonHandler):
        def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
            address = urlsplit(self.path)
            if address.path.startswith("/jobs/"):
                self._scale()
                return
            asked = dict(parse_qsl(address.query))
            found = _QUERY.fullmatch(asked.pop("query"))
            if found is None:
                raise ValueError(self.path)
            names = (found["many"] or found["one"]).split("|")
            cut = rows(found["metric"], tuple(sorted(asked.items())))
            results = ",".join(f"{before}{job}{after}" for job in names for before, after in cut)
            self.send(f'{{"status":"success","data":{{"resultType":"matrix","result":[{results}]}}}}'.encode())

        def do_PUT(self) -> None:  # noqa: N802 - as http.server calls it
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with living.lock:  # all jobs see the same, and so ask for the same
                if living.job(name).requested != asked["scale_out"]:
                    living.rescale(name, asked["scale_out"], asked["idempotency_key"])
            self._scale()

        def do_POST(self) -> None:  # noqa: N802 - as http.server calls it
            clock.step(float(self.path.rpartition("/")[2]) - clock.now_s())
            rows.cache_clear()
            self.send(b"{}")

        def _scale(self) -> None:
            with living.lock:
                of = living.job(name)
                said = {"scale_out": of.scale_out, "requested": of.requested, "settled": of.settled}
            self.send(json.dumps(said).encode())

    return Handler

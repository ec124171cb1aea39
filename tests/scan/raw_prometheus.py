"""A Prometheus over real HTTP that holds raw series as exporters show them, and answers PromQL as the twin does."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from perdix.telemetry.series import Series
from perdix.twin import prometheus_api
from perdix.twin.promql_evaluation import NAME

SCRAPED_S = 60.0


class RawPrometheus:
    """Holds ``(name, labels, values)``, a value a minute up to ``end_s``."""

    def __init__(self, end_s, raw):
        self.read = []
        for name, labels, values in raw:
            times_ms = np.round(1_000 * (end_s - SCRAPED_S * np.arange(len(values))[::-1])).astype(np.int64)
            self.read.append(Series(name, None, times_ms, np.asarray(values, dtype=np.float64), labels))
        holder = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked = dict(parse_qsl(urlsplit(self.path).query))
                status, answer = prometheus_api.query_range(holder, asked)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def series(self, matchers, from_s, to_s):
        found = []
        for series in self.read:
            labels = {NAME: series.metric, **series.labels}
            if not all(matcher.matches(labels.get(matcher.label, "")) for matcher in matchers):
                continue
            inside = (series.times_ms >= 1_000 * from_s) & (series.times_ms <= 1_000 * to_s)
            if inside.any():
                found.append(Series(series.metric, None, series.times_ms[inside], series.values[inside], series.labels))
        return found

    def close(self):
        self.server.shutdown()
        self.server.server_close()

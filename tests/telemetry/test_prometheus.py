"""The client against a real HTTP server on a loopback port that behaves, and misbehaves, like those in the field."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from urllib.parse import parse_qs, urlparse

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.settings.access import HttpAccess
from perdix.telemetry.metrics import CANONICAL
from perdix.telemetry.prometheus import POINTS_PER_PAGE, Prometheus, pages
from perdix.telemetry.prometheus_answers import PrometheusError
from perdix.telemetry.queries import load_queries

NO_WAIT = {"sleep": lambda seconds: None}


def success(*results, **more):
    data = {"resultType": "matrix", "result": [{"metric": m, "values": v} for m, v in results]}
    return 200, "application/json", json.dumps({"status": "success", "data": data, **more}).encode()


def like_prometheus(asked):
    """Answer ``time()`` for two series, and refuse more than 11,000 steps as Prometheus 2.42 does."""
    start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
    if (end - start) / step > 11_000:
        error = "exceeded maximum resolution of 11,000 points per timeseries."
        return (
            400,
            "application/json",
            json.dumps({"status": "error", "errorType": "bad_data", "error": error}).encode(),
        )
    times = np.arange(round((end - start) / step) + 1) * step + start
    return success(*(({"__name__": "up", "pod": pod}, [[t, str(t)] for t in times.tolist()]) for pod in "ab"))


class Server:
    """Answers with what ``answer(parameters)`` returns; keeps every request."""

    def __init__(self):
        self.answer = like_prometheus
        self.asked = []
        self.headers = []
        self.paths = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked = {name: values[0] for name, values in parse_qs(urlparse(self.path).query).items()}
                outer.asked.append(asked)
                outer.headers.append(dict(self.headers))
                outer.paths.append(urlparse(self.path).path)
                answer = outer.answer(asked)
                if answer is None:
                    return
                status, kind, body, *length = answer
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(length[0] if length else len(body)))
                self.end_headers()
                for piece in body if isinstance(body, list) else [body]:
                    self.wfile.write(piece)
                    self.wfile.flush()
                    if isinstance(body, list):
                        time.sleep(0.05)

            def log_message(self, *args):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # the client hangs up on purpose

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def client(server):
    with Prometheus(HttpAccess(url=server.url), timeout_s=30.0, **NO_WAIT) as client:
        yield client


@pytest.fixture
def patient(server):
    """For tests that count requests: on a busy machine half a second is sometimes too short, and it is asked again."""
    with Prometheus(HttpAccess(url=server.url), timeout_s=30.0, **NO_WAIT) as client:
        yield client


def always(*answer):
    return lambda asked: answer


class TestPaging:
    def test_a_day_at_one_second_comes_in_pages_without_overlap_or_gap(self, server, patient):
        found = patient.query_range("up", 1_700_000_000, 1_700_000_000 + 86_400, 1)
        assert len(server.asked) == 8
        assert [series.labels for series in found] == [{"pod": "a"}, {"pod": "b"}]
        assert found[0].metric == "up"
        assert len(found[0]) == 86_401
        assert set(np.diff(found[0].times_ms).tolist()) == {1000}
        np.testing.assert_allclose(found[0].values, found[0].times_ms / 1000)

    def test_one_page_more_than_the_limit_would_be_refused(self, server, patient):
        patient.query_range("up", 0, POINTS_PER_PAGE - 1, 1)
        assert len(server.asked) == 1
        patient.query_range("up", 0, POINTS_PER_PAGE, 1)
        assert len(server.asked) == 3

    @given(st.integers(0, 10**12), st.integers(0, 10**8), st.integers(1, 10**6))
    def test_pages_tile_the_range(self, first, length, step):
        cut = list(pages(first / 1000, (first + length) / 1000, step / 1000))
        assert cut[0][0] == first
        for (_, last, _), (following, _, _) in pairwise(cut):
            assert following - last == step
        assert all((last - start) // step < POINTS_PER_PAGE for start, last, _ in cut)
        assert first + length - cut[-1][1] < step

    @pytest.mark.parametrize(("start", "end", "step"), [(0, 10, 0), (10, 0, 1)])
    def test_a_range_that_cannot_be_is_refused(self, patient, start, end, step):
        with pytest.raises(ValueError, match=r"step|range"):
            patient.query_range("up", start, end, step)

    def test_a_series_of_some_pages_only_keeps_its_gap(self, server, patient):
        def answer(asked):
            start = float(asked["start"])
            return success(({"pod": "a"}, [[start, "1"]]), *([({"pod": "b"}, [[start, "2"]])] if start else []))

        server.answer = answer
        found = patient.query_range("up", 0, 2 * POINTS_PER_PAGE, 1)
        assert [len(series) for series in found] == [3, 2]


class TestValues:
    def test_nan_and_infinities_are_read_as_they_are(self, server, client):
        server.answer = always(*success(({}, [[1, "NaN"], [2, "+Inf"], [3, "-Inf"], [4.25, "1e3"]])))
        (series,) = client.query_range("x", 0, 10, 1)
        np.testing.assert_array_equal(series.values, [np.nan, np.inf, -np.inf, 1000])
        assert series.times_ms.tolist() == [1000, 2000, 3000, 4250]

    def test_no_series_is_no_error(self, server, client):
        server.answer = always(*success())
        assert client.query_range("x", 0, 10, 1) == []

    def test_warnings_are_kept_once_until_drained(self, server, client):
        server.answer = always(*success(warnings=["store 3 is down"], isPartial=True))
        client.query_range("x", 0, 10, 1)
        client.query_range("x", 0, 10, 1)
        kept = client.drain_warnings()
        assert kept[0] == "store 3 is down"
        assert len(kept) == 2
        assert client.drain_warnings() == ()

    def test_what_prometheus_remarks_of_a_query_is_no_sign_of_a_partial_answer(self, server, client):
        info = 'PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "x" (1:6)'
        server.answer = always(*success(({}, [[15, "3"]]), infos=[info]))
        client.query_range("rate(x[1m])", 0, 60, 15)
        assert client.drain_warnings() == ()
        assert client.pull(load_queries("canonical"), {}, 0, 60, 15)
        assert client.drain_warnings() == ()

    def test_a_path_prefix_is_kept(self, server):
        with Prometheus(HttpAccess(url=f"{server.url}/tenant/prometheus/")) as client:
            client.query_range("x", 0, 1, 1)
        assert server.paths == ["/tenant/prometheus/api/v1/query_range"]


VECTOR = b'{"status":"success","data":{"resultType":"vector","result":[]}}'
HTML = b"<!doctype html><title>Sign in</title>"
CUT = success(({}, [[1, "1"]]))[2][:-9]
REFUSED = json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error at char 3"}).encode()


LEAF = st.none() | st.integers() | st.text() | st.lists(st.integers() | st.text(), max_size=3)
KEYS = st.sampled_from(["status", "data", "result", "resultType", "metric", "values", "warnings", "x"])
WORDS = st.sampled_from(["success", "matrix"])
JSON = st.recursive(
    LEAF | WORDS, lambda inner: st.dictionaries(KEYS, inner) | st.lists(inner, max_size=3), max_leaves=12
)


class TestTrouble:
    @pytest.mark.parametrize(
        ("answer", "kind", "said"),
        [
            ((200, "text/html", HTML), "malformed", "web page"),
            ((200, "application/json", CUT), "malformed", "broken JSON"),
            ((200, "application/json", b""), "malformed", "broken JSON"),
            ((200, "application/json", b"[1]"), "malformed", "instead of Prometheus"),
            (
                (200, "application/json", b'{"status":"success","data":{"resultType":"vector","result":[]}}'),
                "malformed",
                "vector",
            ),
            ((200, "application/json", b'{"status":"success","data":null}'), "malformed", "not a range.*: parts"),
            (success(({}, [[1, "one"]])), "malformed", "not a range"),
            (success(({}, [[1]])), "malformed", "not a range of series: parts of it are missing"),
            (success(({}, [["NaN", "1"], [2, "1"]])), "malformed", "times that are none, such as nan"),
            (success(({}, [[1, "1"], [1e300, "1"], [2, "1"]])), "malformed", "times that are none, such as 1e.300"),
            ((400, "application/json", REFUSED), "rejected", "parse error at char 3"),
            ((422, "application/json", REFUSED), "rejected", "parse error"),
            ((200, "application/json", REFUSED), "rejected", "parse error"),
            ((404, "text/html", HTML), "rejected", "is the URL right"),
            ((302, "text/html", b""), "rejected", "redirects"),
            ((401, "text/html", HTML), "unauthorised", "token_file"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_is_named_and_asked_once(self, server, client, answer, kind, said):
        server.answer = always(*answer)
        with pytest.raises(PrometheusError, match=said) as raised:
            client.query_range("x", 0, 10, 1)
        assert raised.value.kind == kind
        assert len(server.asked) == 1

    @pytest.mark.parametrize("status", [429, 500, 502, 503])
    def test_overload_is_retried_a_bounded_number_of_times(self, server, client, status):
        server.answer = always(status, "text/plain", b"busy")
        with pytest.raises(PrometheusError) as raised:
            client.query_range("x", 0, 10, 1)
        assert raised.value.kind == "overloaded"
        assert len(server.asked) == 3

    def test_a_passing_trouble_passes(self, server, client):
        answers = iter([(503, "text/plain", b""), (429, "text/plain", b""), success(({}, [[1, "1"]]))])
        server.answer = lambda asked: next(answers)
        assert len(client.query_range("x", 0, 10, 1)) == 1

    def test_waits_grow_between_tries(self, server):
        waits = []
        server.answer = always(503, "text/plain", b"")
        with Prometheus(HttpAccess(url=server.url), sleep=waits.append) as client, pytest.raises(PrometheusError):
            client.query_range("x", 0, 10, 1)
        assert len(waits) == 2
        assert 0 < waits[0] < waits[1] <= 2

    def test_nobody_listens(self, server):
        server.close()
        with (
            Prometheus(HttpAccess(url=server.url), **NO_WAIT) as client,
            pytest.raises(PrometheusError, match="cannot be reached") as raised,
        ):
            client.query_range("x", 0, 10, 1)
        assert raised.value.kind == "unreachable"

    def test_a_server_that_hangs(self, server):
        release = threading.Event()
        server.answer = lambda asked: release.wait(10) and None
        began = time.monotonic()
        with (
            Prometheus(HttpAccess(url=server.url), timeout_s=0.1, **NO_WAIT) as client,
            pytest.raises(PrometheusError) as raised,
        ):
            client.query_range("x", 0, 10, 1)
        release.set()
        assert raised.value.kind == "timeout"
        assert time.monotonic() - began < 5

    def test_a_server_that_drips(self, server):
        server.answer = always(200, "application/json", [b" "] * 100, 100)
        with (
            Prometheus(HttpAccess(url=server.url), timeout_s=5, deadline_s=0.2, attempts=1) as client,
            pytest.raises(PrometheusError, match="took over") as raised,
        ):
            client.query_range("x", 0, 10, 1)
        assert raised.value.kind == "timeout"

    def test_a_server_that_breaks_off(self, server, client):
        server.answer = always(200, "application/json", b'{"sta', 500)
        with pytest.raises(PrometheusError, match=r"broke off|in time") as raised:
            client.query_range("x", 0, 10, 1)
        assert raised.value.kind in {"unreachable", "timeout"}

    def test_any_body_is_an_answer_or_an_error_in_words(self, server, client):
        @given(st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode))
        def any_body(body):
            server.answer = always(200, "application/json", body)
            with contextlib.suppress(PrometheusError):
                client.query_range("x", 0, 10, 1)

        any_body()


class TestToken:
    def test_is_sent_and_read_anew(self, server, tmp_path):
        file = tmp_path / "token"
        with Prometheus(HttpAccess(url=server.url, token_file=file)) as client:
            for token in ("first", "second"):
                file.write_text(f"{token}\n")
                client.query_range("x", 0, 1, 1)
        assert [headers["Authorization"] for headers in server.headers] == ["Bearer first", "Bearer second"]

    def test_is_never_told(self, server, tmp_path):
        file = tmp_path / "token"
        file.write_text("s3cret")
        url = server.url.replace("http://", "http://user:hunter2@")
        for status in (200, 302, 400, 401, 503):
            server.answer = always(status, "text/html", HTML)
            with (
                Prometheus(HttpAccess(url=url, token_file=file), **NO_WAIT) as client,
                pytest.raises(PrometheusError) as raised,
            ):
                client.query_range("x", 0, 1, 1)
            told = f"{raised.value!s} {raised.value!r} {raised.value.__cause__!r}"
            assert "s3cret" not in told
            assert "hunter2" not in told

    def test_changes_no_number_and_no_label_that_holds_the_same_digits(self, server):
        url = server.url.replace("http://", "http://user:1234@")
        server.answer = always(*success(({"pod": "tm-1234"}, [[1234, "0.1234567"]])))
        with Prometheus(HttpAccess(url=url), **NO_WAIT) as client:
            (series,) = client.query_range("x", 0, 2000, 1)
        assert (series.labels, series.times_ms.tolist(), series.values.tolist()) == (
            {"pod": "tm-1234"},
            [1_234_000],
            [0.1234567],
        )

    @pytest.mark.parametrize(
        "answer",
        [
            (200, "application/json", b'{"status":"error","error":"bad hunter2"}'),
            (503, "application/json", b'{"status":"error","error":["bad hunter2"]}'),
            (400, "application/json", b'{"status":"error","error":"bad \\u0068unter2"}'),
            success(({}, [[1, "hunter2"]])),
            (200, "application/json", b'{"status":"success","data":{"resultType":"hunter2"}}'),
        ],
        ids=["refused with 200", "overloaded", "escaped", "value", "type"],
    )
    def test_is_not_told_where_an_answer_that_is_no_success_quotes_it(self, server, answer):
        server.answer = always(*answer)
        url = server.url.replace("http://", "http://user:hunter2@")
        with Prometheus(HttpAccess(url=url), **NO_WAIT) as client, pytest.raises(PrometheusError) as raised:
            client.query_range("x", 0, 1, 1)
        assert "***" in str(raised.value)
        assert "hunter2" not in str(raised.value)

    def test_is_not_told_where_a_warning_quotes_it(self, server):
        server.answer = always(*success(warnings=["store of user:hunter2 is down"]))
        url = server.url.replace("http://", "http://user:hunter2@")
        with Prometheus(HttpAccess(url=url), **NO_WAIT) as client:
            client.query_range("x", 0, 1, 1)
            assert client.drain_warnings() == ("store of user:*** is down",)

    @pytest.mark.parametrize("content", [None, b"", b"a\nb", b"\xff\xfe"])
    def test_that_cannot_be_used_is_named(self, server, tmp_path, content):
        file = tmp_path / "token"
        if content is not None:
            file.write_bytes(content)
        with (
            Prometheus(HttpAccess(url=server.url, token_file=file)) as client,
            pytest.raises(PrometheusError, match="token file") as raised,
        ):
            client.query_range("x", 0, 1, 1)
        assert raised.value.kind == "unauthorised"
        assert not server.asked


class TestPull:
    def test_series_are_canonical_and_named_by_worker(self, server, client):
        def answer(asked):
            if asked["query"].startswith("sum by (pod") and "numRecordsIn" in asked["query"]:
                return success(({"pod": "tm-1", "tm_id": "x"}, [[15, "10"]]), ({"tm_id": "y"}, [[15, "20"]]))
            return success(({}, [[15, "3"]])) if asked["query"].startswith("count by") else success()

        server.answer = answer
        found = client.pull(load_queries("flink"), {"job_name": "ads"}, 0, 60, 15)
        assert {(s.metric, s.worker, float(s.values[0])) for s in found} == {
            ("throughput_per_s", "tm-1", 10.0),
            ("throughput_per_s", "y", 20.0),
            ("scale_out", None, 3.0),
        }
        assert all(asked["lookback_delta"] == "30.000" for asked in server.asked)
        assert any("[60s]" in asked["query"] for asked in server.asked)

    def test_one_bad_query_leaves_the_others(self, server, client):
        server.answer = lambda asked: (
            (400, "application/json", REFUSED) if "latency" in asked["query"] else success(({}, [[15, "3"]]))
        )
        found = client.pull(load_queries("canonical"), {}, 0, 60, 15)
        assert "latency_p95_ms" not in {series.metric for series in found}
        assert len(found) == len(CANONICAL) - 1
        (warning,) = client.drain_warnings()
        assert warning.startswith("latency_p95_ms: ")

    def test_what_cannot_be_asked_is_a_warning(self, server, client):
        server.answer = always(*success())
        client.pull(load_queries("flink"), {}, 0, 60, 15, metrics=["workload_per_s", "scale_out"])
        (warning,) = client.drain_warnings()
        assert "needs the label topic" in warning

    def test_every_query_refused_is_an_error(self, server, client):
        server.answer = always(400, "application/json", REFUSED)
        with pytest.raises(PrometheusError, match="parse error"):
            client.pull(load_queries("canonical"), {}, 0, 60, 15)

    def test_an_unreachable_server_is_not_asked_for_every_metric(self, server, client):
        server.answer = always(503, "text/plain", b"")
        with pytest.raises(PrometheusError):
            client.pull(load_queries("canonical"), {}, 0, 60, 15)
        assert len(server.asked) == 3

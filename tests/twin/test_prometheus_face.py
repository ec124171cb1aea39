import contextlib
import http.client
import socket
import time

import httpx
import numpy as np
import pytest

from perdix.telemetry.metrics import CANONICAL, Scope
from perdix.telemetry.queries import canonical_queries, load_queries
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import Heap
from tests.twin.troubled_face import PrometheusFace, Trouble

START_S = 1_700_000_000
NOW_S = START_S + 3_600


@pytest.fixture
def living(parameters):
    jobs = {
        name: JobTwin(parameters(name=name, heap=Heap(own=0.1, state=0.5)), seed, start_s=START_S)
        for seed, name in enumerate(("orders", "bills"))
    }
    return LivingTwin(jobs, SimulatedClock(NOW_S), scraping=Scraping(5.0))


@pytest.fixture
def face(living):
    with PrometheusFace(living) as face:
        yield face


@pytest.fixture
def client(face):
    with httpx.Client(base_url=face.url, timeout=10) as client:
        yield client


def matrix(client, query, start_s=NOW_S - 60, end_s=NOW_S, step="5", method="GET"):
    asked = {"query": query, "start": start_s, "end": end_s, "step": step}
    path = "/api/v1/query_range"
    response = client.get(path, params=asked) if method == "GET" else client.post(path, data=asked)
    assert response.status_code == 200, response.text
    body = response.json()
    assert (body["status"], body["data"]["resultType"]) == ("success", "matrix")
    return body["data"]["result"]


@pytest.mark.parametrize("engine", ["flink", "canonical"])
@pytest.mark.parametrize("metric", list(CANONICAL))
def test_every_query_of_conf_is_answered_with_the_truth(living, client, engine, metric):
    queries = load_queries("flink") if engine == "flink" else canonical_queries()
    selector = (
        {"namespace": "orders", "topic": "orders", "job_name": "orders"} if engine == "flink" else {"job": "orders"}
    )
    result = matrix(client, queries.promql(metric, selector, 20.0))
    history = living.job("orders").history
    workers = {queries.worker_of(metric, r["metric"]) for r in result}
    assert workers == (
        {"orders-taskmanager-00", "orders-taskmanager-01"} if CANONICAL[metric].scope is Scope.WORKER else {None}
    )
    last = np.sort([float(r["values"][-1][1]) for r in result])
    assert {len(r["values"]) for r in result} == {13}
    rows, idle = slice(-60, None), living.job("orders").parameters.cpu.idle
    truth = {
        "workload_per_s": [1_500.0],
        "throughput_per_s": np.sort(history.column("worker_processed")[-20:, :2].mean(axis=0)),
        "cpu_load": np.sort(history.column("worker_cpu")[rows, :2].mean(axis=0)),
        "busy_ratio": np.sort((history.column("worker_cpu")[-20:, :2].mean(axis=0) - idle) / (1.0 - idle)),
        "consumer_lag_records": [0.0],
        "latency_p95_ms": [history.column("latency_p95_ms")[-1]],
        "scale_out": [2.0],
        "memory_ratio": [0.1 + 0.5 / 2],
        "uptime_s": [3_600.0],
    }[metric]
    assert last == pytest.approx(truth, rel=0.02)


def test_get_and_post_answer_alike_and_times_may_be_rfc3339(client):
    plain = matrix(client, 'scale_out{job="orders"}')
    assert matrix(client, 'scale_out{job="orders"}', method="POST") == plain
    assert matrix(client, 'scale_out{job="orders"}', "2023-11-14T23:12:20Z", "2023-11-14T23:13:20Z", "5s") == plain


def test_instant_query(client):
    body = client.get("/api/v1/query", params={"query": "sum(scale_out)"}).json()
    assert body["data"] == {"resultType": "vector", "result": [{"metric": {}, "value": [NOW_S, "4"]}]}
    assert client.get("/api/v1/query", params={"query": "nothing"}).json()["data"]["result"] == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"step": "1", "start": NOW_S - 11_001}, "exceeded maximum resolution of 11,000 points per timeseries"),
        ({"step": "0"}, "zero or negative"),
        ({"step": "soon"}, "step"),
        ({"start": "yesterday"}, 'cannot parse "yesterday" to a valid timestamp'),
        ({"start": "nan"}, "valid timestamp"),
        ({"start": "2023-11-14T23:12:20"}, "valid timestamp"),
        ({"query": "+".join("1" * 3_000)}, "nested"),
        ({"end": NOW_S - 100}, "must not be before start"),
        ({"query": "sum("}, "expected"),
        ({"query": ""}, "no expression"),
    ],
)
def test_errors_have_prometheus_form(client, changes, says):
    asked = {"query": "scale_out", "start": NOW_S - 60, "end": NOW_S, "step": "5", **changes}
    response = client.get("/api/v1/query_range", params=asked)
    body = response.json()
    assert response.status_code == 400
    assert (body["status"], body["errorType"]) == ("error", "bad_data")
    assert says in body["error"]


@pytest.mark.parametrize(("start_s", "end_s"), [(1e300, 1e300), (-1e300, -1e300), (0, 1)])
def test_at_times_far_away_nothing_is_known(client, start_s, end_s):
    assert matrix(client, "sum(rate(arrived_total[5m])) or scale_out", start_s, end_s) == []


def test_a_range_that_begins_long_ago_is_answered_by_what_is_there(client):
    steps = matrix(client, "max_over_time(scale_out{job='orders'}[20000w])", 0, NOW_S, "10000000")
    assert steps == []
    (series,) = matrix(client, "count_over_time(scale_out{job='orders'}[20000w])", NOW_S, NOW_S)
    assert series["values"] == [[NOW_S, "720"]]


def test_exactly_eleven_thousand_steps_are_still_answered(client):
    assert (
        len(matrix(client, 'scale_out{job="orders"}', NOW_S - 11_000, NOW_S, "1")[0]["values"]) == 3_596
    )  # scraped from 5 s on


def test_health_and_build(client):
    assert client.get("/-/healthy").status_code == 200
    assert client.get("/api/v1/status/buildinfo").json()["status"] == "success"
    assert client.get("/api/v1/nothing").status_code == 404


def test_scale_is_read_and_set_once(living, client):
    pods = ["orders-taskmanager-00", "orders-taskmanager-01"]
    equal = {"mix": {}, "requested_mix": {}, "subtasks": pods, "key_groups": 128}
    assert client.get("/jobs/orders/scale").json() == {"scale_out": 2, "requested": 2, "settled": True, **equal}
    for _ in range(3):
        answer = client.put("/jobs/orders/scale", json={"scale_out": 4, "idempotency_key": "a"})
        assert answer.json() == {"scale_out": 2, "requested": 4, "settled": False, **equal}
    assert len(living.job("orders").outages) == 1
    assert len(living.job("bills").outages) == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/jobs/nobody/scale", {"scale_out": 3, "idempotency_key": "a"}, 404),
        ("PUT", "/jobs/orders/scale", {"scale_out": 99, "idempotency_key": "a"}, 400),
        ("PUT", "/jobs/orders/scale", {"scale_out": True, "idempotency_key": "a"}, 400),
        ("PUT", "/jobs/orders/scale", {"scale_out": 3.5, "idempotency_key": "a"}, 400),
        ("PUT", "/jobs/orders/scale", {"scale_out": 3}, 400),
        ("PUT", "/jobs/orders/scale", [], 400),
        ("POST", "/jobs/orders/scale", {"scale_out": 3, "idempotency_key": "a"}, 405),
        ("POST", "/jobs/orders/failures", {"worker": 5}, 400),
        ("POST", "/jobs/orders/failures", {"worker": "x"}, 400),
        ("POST", "/jobs/orders/failures", {"worker": 1}, 200),
        ("GET", "/jobs/orders/failures", None, 405),
    ],
)
def test_bad_requests_are_refused_and_change_nothing(living, client, method, path, body, status):
    response = client.request(method, path, json=body) if body is not None else client.request(method, path)
    assert response.status_code == status
    assert len(living.job("orders").outages) == (1 if status == 200 else 0)


def test_a_key_for_another_number_is_a_conflict(client):
    client.put("/jobs/orders/scale", json={"scale_out": 3, "idempotency_key": "a"})
    response = client.put("/jobs/orders/scale", json={"scale_out": 4, "idempotency_key": "a"})
    assert response.status_code == 409
    assert "was used for 3 workers" in response.json()["error"]


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"null", b"[" * 100_000])
def test_a_body_that_is_not_json_is_refused(client, content):
    assert client.put("/jobs/orders/scale", content=content).status_code == 400


def test_a_body_without_length_or_too_long_is_refused(face):
    host = face.url.removeprefix("http://")
    for headers, status in (({}, 411), ({"Content-Length": "2000000"}, 413), ({"Content-Length": "x"}, 411)):
        with contextlib.closing(http.client.HTTPConnection(host, timeout=5)) as connection:
            connection.putrequest("PUT", "/jobs/orders/scale")
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            assert connection.getresponse().status == status


def test_drills(face, client):
    face.trouble = Trouble(down=True)
    assert client.get("/-/healthy").status_code == 503
    face.trouble = Trouble(refuse_scaling=True)
    assert client.put("/jobs/orders/scale", json={"scale_out": 3, "idempotency_key": "a"}).status_code == 503
    assert client.get("/jobs/orders/scale").status_code == 200
    face.trouble = Trouble(newest_s=NOW_S - 1_000)
    assert matrix(client, "scale_out") == []
    assert matrix(client, "scale_out", NOW_S - 1_060, NOW_S - 1_000) != []
    face.trouble = Trouble(delay_s=5.0)
    with pytest.raises(httpx.ReadTimeout):
        client.get("/-/healthy", timeout=0.2)


def test_close_frees_the_port_at_once_even_while_answers_are_held_back(living):
    face = PrometheusFace(living).start()
    face.trouble = Trouble(delay_s=60.0)
    with contextlib.suppress(httpx.HTTPError):
        httpx.get(f"{face.url}/-/healthy", timeout=0.2)
    began = time.monotonic()
    face.close()
    assert time.monotonic() - began < 5
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{face.url}/-/healthy", timeout=1)


def test_an_answer_leaves_in_one_piece(face):
    """Two pieces are two packets, and without care the second one waits for the first one's acknowledgement."""
    with socket.create_connection(face.url.removeprefix("http://").split(":")) as connection:
        connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65_536).endswith(b'{"status":"success"}')

"""``perdix scan`` as a user calls it, over real HTTP against a twin's Prometheus."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.cli.scan import Outputs, _files, _sentence
from perdix.scan.document import Scan, document
from perdix.scan.judging import Wanted
from perdix.settings.access import HttpAccess
from perdix.settings.stream_job import load_stream_job
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace

SCHEMA_KEYS = {
    *("schema", "url", "from_s", "until_s", "days", "error_budget", "price", "summary", "jobs", "assumptions"),
    *("notes", "seconds", "files"),
}


@pytest.fixture(scope="module")
def face() -> Iterator[PrometheusFace]:
    """A day of a job with a steady load until now, which keeps twelve workers."""
    now_s = int(time.time())
    begin_s = now_s - 86_400 - 600
    ads = JobTwin(load_twin("ads"), 3, start_s=begin_s, scale_out=12, arrivals=lambda _, count: np.full(count, 2e5))
    clock = SimulatedClock(float(now_s))
    living = LivingTwin({"ads": ads}, clock, scraping=Scraping(interval_s=30.0))
    with PrometheusFace(living) as served:
        yield served


def scan(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["scan", *arguments, "--workers", "1"])
    assert result.exit_code == code, result.output
    return result.output


def refused(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    def run() -> None:
        app(["scan", *arguments, "--workers", "1"], standalone_mode=False)

    assert run_guarded(run, known_errors) == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.fixture(scope="module")
def outputs(face: PrometheusFace, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """Everything that one scan writes."""
    folder = tmp_path_factory.mktemp("scan")
    options = ["--csv", str(folder / "t.csv"), "--html", str(folder / "t.html"), "--write", str(folder / "jobs")]
    text = scan(face.url, "--days", "1", "--worker-price", "0.05", "--json", *options)
    return json.loads(text), folder


def test_a_twin_is_found_read_learned_and_judged(outputs):
    found, _ = outputs
    assert set(found) == SCHEMA_KEYS
    (row,) = found["jobs"]
    assert (row["job"], row["engine"]) == ("ads", "flink")
    assert row["selector"] == {"job_name": "ads", "namespace": "ads", "topic": "ads"}
    assert row["now"] == {"average_workers": 12.0, "peak_workers": 12, "late_share": row["now"]["late_share"]}
    assert row["fixed"]["workers"] < 12
    assert row["saved_cost_per_month"] > 0
    assert row["confidence"]["grade"] in "ABCD"


def test_where_nothing_is_advised_nothing_is_called_saved(outputs):
    found, _ = outputs
    assert "is advised: it saves" in _sentence(found)
    kept = {**found, "jobs": [{**row, "advice": "keep"} for row in found["jobs"]]}
    in_time = {**kept, "jobs": [{**row, "late_share": 0.0} for row in kept["jobs"]]}
    assert _sentence(in_time).endswith("Nothing is advised: what runs is about what is needed.")
    late = {**kept, "jobs": [{**row, "late_share": 0.3} for row in kept["jobs"]]}
    assert _sentence(late).endswith("Nothing is advised, but 1 job is late more than allowed: why stands in its row.")


def test_files_are_written_and_a_job_file_is_one_that_the_controller_accepts(outputs):
    found, folder = outputs
    assert found["files"]["jobs"] == [str(folder / "jobs" / "ads.yaml")]
    assert load_stream_job(folder / "jobs" / "ads.yaml").mode == "advise"
    assert (folder / "t.csv").read_text().startswith("job,engine,advice")
    assert "a month" in (folder / "t.html").read_text()


class Answering:
    """A server that answers everything with one status and body."""

    def __init__(self, status: int, body: bytes, kind: str = "application/json"):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


EMPTY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Answering(401, b"{}"), "--token-file or --token-env"),
        (Answering(200, b"<html>Grafana</html>", "text/html"), "give the address of Prometheus itself"),
        (Answering(200, EMPTY), "no job of Flink, Kafka Streams or Spark"),
    ],
)
def test_a_server_that_is_no_use_is_told_with_its_fix(server, said, capsys):
    assert said in refused(server.url, capsys=capsys)


def test_a_wrong_address_is_told_without_a_trace(capsys):
    assert "is the address right" in refused("http://127.0.0.1:9", capsys=capsys)
    assert "write it as http://prometheus:9090" in refused("prometheus:9090", capsys=capsys)


def test_a_job_that_is_not_there_is_told(face, capsys):
    assert "no job is called orders" in refused(face.url, "--days", "1", "--job", "orders", capsys=capsys)


def test_what_cannot_be_written_is_told_before_the_work(capsys):
    assert "its folder" in refused("http://127.0.0.1:9", "--html", "/no/such/folder/t.html", capsys=capsys)


def test_a_page_takes_no_place_of_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    both = ("--csv", "savings", "--html", str(tmp_path / "savings"))
    assert "--csv and --html name one file" in refused("http://127.0.0.1:9", *both, capsys=capsys)


def test_job_files_go_into_no_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("ads.yaml").touch()
    said = refused("http://127.0.0.1:9", "--write", "ads.yaml", capsys=capsys)
    assert "ads.yaml: is a file; name a folder" in said


def test_a_table_that_cannot_be_written_keeps_no_page_from_being_written(tmp_path):
    access = HttpAccess.model_validate({"url": "http://prometheus:9090"})
    found = Scan(Wanted(access, 1e9, 1.0), (), None, (), 1.0)
    outputs = Outputs(tmp_path / "gone" / "t.csv", tmp_path / "t.html", None, None)
    files, problems = outputs.write(found, document(found))
    assert (files["csv"], files["html"]) == (None, tmp_path / "t.html")
    assert "t.csv: cannot be written" in problems[0]


def test_job_files_that_are_written_where_none_is_read_are_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path / "conf"))
    monkeypatch.chdir(tmp_path)
    read, written = tmp_path / "conf" / "jobs", {"csv": None, "html": None, "left": [], "webhook": False}
    (here,) = _files({**written, "jobs": [Path("conf/jobs/ads.yaml")]})
    assert here == f"1 job file written to {read}, to advise only"
    (elsewhere,) = _files({**written, "jobs": [Path("jobs/ads.yaml")]})
    assert elsewhere == f"1 job file written to {tmp_path / 'jobs'}, to advise only; perdix reads those in {read}"


@pytest.fixture(scope="module")
def again(face: PrometheusFace, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What is said of another scan, of one job too many, where there is a job file and a webhook does not answer."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "ads.yaml").write_text("mode: act\n")
    url = f"{Answering(404, b'no_service').url}/services/T000/B000/s3cr3tpart"
    options = ["--days", "1", "--job", "ads", "--job", "adz", "--write", str(folder), "--webhook", url]
    result = CliRunner().invoke(app, ["scan", face.url, *options, "--workers", "1"])
    assert result.exit_code == 1, result.output
    return " ".join((result.output + result.stderr).split()), folder


def test_a_second_scan_leaves_job_files_and_says_so(again):
    said, folder = again
    assert "was there before" in said
    assert (folder / "ads.yaml").read_text() == "mode: act\n"
    assert list(folder.iterdir()) == [folder / "ads.yaml"]


def test_a_name_that_no_job_has_is_noted_beside_those_that_were_found(again):
    said, _ = again
    assert "1 of 1 jobs judged" in said
    assert "no job is called adz" in said


def test_no_secret_of_a_webhook_is_printed(again, face, capsys):
    said, _ = again
    assert "answers HTTP 404" in said
    assert "s3cr3tpart" not in said
    assert "s3cr3tpart" not in refused(face.url, "--webhook", "ftp://host/s3cr3tpart", capsys=capsys)


@pytest.mark.parametrize("option", ["--latency-objective", "--worker-price", "--days", "--error-budget"])
@pytest.mark.parametrize("value", ["inf", "nan", "1e300"])
def test_a_number_that_is_none_is_refused_before_the_scan(option, value):
    said = scan("http://127.0.0.1:9", option, value, code=2)
    assert option in said
    assert "defect" not in said


def test_a_wrong_file_of_authorities_is_called_that(tmp_path, capsys):
    (tmp_path / "ca.pem").write_text("no certificate\n")
    said = refused("https://127.0.0.1:9", "--ca-file", str(tmp_path / "ca.pem"), capsys=capsys)
    assert "--ca-file" in said
    assert "--token-file" not in said

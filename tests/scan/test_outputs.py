"""What is made of a scan: document, table, page, job files and message."""

from __future__ import annotations

import csv
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from perdix.policies.build import check_policy
from perdix.replay.pace import LONGEST_TICK_S
from perdix.replay.pricing import pricing_named
from perdix.scan.confidence import COVERAGES, DAYS, WIDTHS, legend
from perdix.scan.job_files import text_of, write_job_files
from perdix.scan.page import page, picture
from perdix.scan.saving import MONTH_H, price_of_list
from perdix.scan.table_file import write_csv
from perdix.scan.webhook import WebhookError, message, send
from perdix.scan.with_perdix import LOOKS_EVERY_S
from perdix.settings.access import HttpAccess
from perdix.settings.stream_job import load_stream_job
from perdix.settings.yaml_files import SettingsError
from tests.scan.made import EURO, capacities, found_job, judged, learned, load, scanned, told, unjudged

ORDERS = judged()


class TestDocument:
    def test_savings_are_the_workers_that_are_no_longer_needed_for_a_month(self):
        found = told(ORDERS, price=EURO)
        assert found["summary"]["saved_worker_h_per_month"] == pytest.approx(6 * MONTH_H)
        assert found["summary"]["saved_cost_per_month"] == pytest.approx(6 * MONTH_H * EURO.per_h)

    def test_without_a_price_there_is_no_cost(self):
        assert told(ORDERS)["summary"]["saved_cost_per_month"] is None

    def test_jobs_that_cannot_be_judged_stand_in_it_last_and_are_not_counted(self):
        found = told(unjudged(), ORDERS)
        assert [row["job"] for row in found["jobs"]] == ["orders", "mystery"]
        assert found["jobs"][1]["why"] == "no cpu_load in Prometheus"
        assert found["summary"]["judged"] == 1
        assert set(found["jobs"][0]) == set(found["jobs"][1])

    def test_a_list_of_prices_tells_what_a_worker_costs(self):
        price = price_of_list(pricing_named("aws-ec2-us-east-1"), 40)
        assert price.currency == "USD"
        assert 0.0 < price.per_h < 1.0


def test_the_csv_holds_a_row_per_job_and_no_formula(tmp_path):
    write_csv(tmp_path / "t.csv", told(ORDERS, unjudged("=cmd()")))
    with (tmp_path / "t.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0]["fixed_workers"] == "6"
    assert rows[1]["job"] == "'=cmd()"
    assert rows[1]["fixed_workers"] == ""
    assert list(rows[0])[-1] == "currency"
    assert rows[0]["currency"] == "", "without a price"


def test_the_csv_says_in_which_currency_its_costs_are(tmp_path):
    write_csv(tmp_path / "t.csv", told(ORDERS, unjudged(), price=EURO))
    with (tmp_path / "t.csv").open() as stream:
        assert [row["currency"] for row in csv.DictReader(stream)] == ["EUR", "EUR"]


class TestPage:
    def test_it_says_the_money_first_and_asks_nothing_of_any_server(self):
        made = page(told(ORDERS, unjudged(), price=EURO), [ORDERS, unjudged()])
        saved = f"{6 * MONTH_H * EURO.per_h:,.0f}"
        assert made.index(saved) < made.index("Job by job")
        assert "data:image/png;base64," in made
        assert not re.search(r"(?:src|href)=\"(?!data:)", made)
        assert "<script" not in made
        assert "no cpu_load in Prometheus" in made

    def test_where_no_job_could_be_judged_it_promises_nothing(self):
        found = told(unjudged(), price=EURO)
        made, sent = page(found, [unjudged()]), message(found)["text"]
        assert "None yet" in made
        assert "a month" not in made[: made.index("Job by job")]
        assert sent == "perdix could judge none of 1 stream jobs yet"

    def test_jobs_that_are_too_small_cost_more_and_that_is_said(self):
        found = told(ORDERS, price=EURO)
        more = {**found["summary"], "saved_cost_per_month": -40.0, "saved_worker_h_per_month": -800.0}
        made, sent = page({**found, "summary": more}, [ORDERS]), message({**found, "summary": more})["text"]
        assert "a month more: jobs are too small today" in made
        assert sent.startswith("What perdix advises costs 40 EUR a month more")

    def test_what_well_known_jobs_save_may_be_more_than_all_together(self):
        """A job that is too small needs more; how much is hardly known."""
        jobs = [
            judged("known", learned(workers=12)),
            judged("small", learned(workers=2, capacities=capacities(width=0.5))),
        ]
        found = told(*jobs)
        found["summary"]["well_known"]["saved_worker_h_per_month"] = 2 * found["summary"]["saved_worker_h_per_month"]
        made = page(found, jobs)
        assert "Of this" not in made
        assert f"Jobs with a confidence of A or B alone come to {2 * 2 * MONTH_H:,.0f}." in made

    def test_one_worker_is_one(self):
        one = judged("small", learned(load(lambda hours: 55.0 + 0.0 * hours), workers=1))
        made = page(told(one), [one])
        assert "1 worker; late" in made
        assert "1 worker, at most 1" in made

    def test_a_name_from_outside_is_no_markup(self):
        evil = unjudged("<img src=x>")
        assert "<img src=x>" not in page(told(evil), [evil])


class TestWords:
    """What pages say of grades, limits and looks is what the code does."""

    DOCS = (Path(__file__).parents[2] / "docs" / "scan.md").read_text(encoding="utf-8")

    def test_grades_are_explained_by_the_limits_that_give_them(self):
        for words in (page(told(ORDERS), [ORDERS]), self.DOCS):
            assert legend() in words
        for width, days, coverage in zip(WIDTHS, DAYS, COVERAGES, strict=True):
            assert f"±{100 * width:.0f} %" in legend()
            assert f"{days:.0f} day" in legend()
            assert f"{100 * coverage:.0f} %" in legend()

    def test_partitions_are_looked_at_and_memory_is_not(self):
        (limits,) = [text for text in told(ORDERS)["assumptions"] if "memory" in text]
        assert "partitions of its source" in limits
        assert "memory is not looked at" in limits

    def test_the_pages_say_how_often_the_policy_looks(self):
        (few, often_s), (more, seldom_s) = LOOKS_EVERY_S
        assert (
            f"every {often_s // 60} minutes (every {seldom_s // 60} where more than {few} jobs are judged, every "
            f"{LONGEST_TICK_S // 60} where more than {more} are)"
        ) in " ".join(self.DOCS.split())


class TestJobFiles:
    def test_a_file_is_accepted_only_advises_and_holds_what_was_found(self, tmp_path):
        scan = scanned(ORDERS, unjudged())
        written = write_job_files(tmp_path / "jobs", scan.wanted, scan.jobs, check_policy)
        (path,) = written.files
        job = load_stream_job(path, check_policy)
        assert (job.name, job.mode, job.target.kind) == ("orders", "advise", "advisory")
        assert job.prometheus.selector == {"job_name": "orders", "namespace": "shop", "topic": "orders"}
        assert job.bounds.maximum == 12

    def test_one_that_would_be_refused_is_not_left_for_the_next_scan_to_spare(self, tmp_path):
        def refuse(_policy):
            raise SettingsError("no such policy")

        with pytest.raises(SettingsError):
            write_job_files(tmp_path, scanned(ORDERS).wanted, [ORDERS], refuse)
        assert list(tmp_path.iterdir()) == []

    def test_a_file_that_is_there_stays_as_it_is(self, tmp_path):
        (tmp_path / "orders.yaml").write_text("mode: act\n")
        written = write_job_files(tmp_path, scanned(ORDERS).wanted, [ORDERS])
        assert written.files == ()
        assert written.left == (tmp_path / "orders.yaml",)
        assert (tmp_path / "orders.yaml").read_text() == "mode: act\n"

    def test_no_password_of_the_address_stands_in_it(self):
        scan = scanned(ORDERS, url="http://me:hunter22@prometheus:9090")
        text = text_of(scan.wanted, ORDERS.job, ORDERS.advice)
        assert "hunter22" not in text
        assert "left out" in text

    def test_a_topic_that_is_not_known_is_asked_for(self):
        text = text_of(scanned(ORDERS).wanted, found_job(topic=None), ORDERS.advice)
        assert "add topic: NAME" in text

    def test_partitions_stand_in_it_where_they_are_known(self):
        wanted = scanned(ORDERS).wanted
        assert "source_partitions: 12\n" in text_of(wanted, found_job(partitions=12), ORDERS.advice)
        assert "source_partitions" not in text_of(wanted, found_job(), ORDERS.advice)


class Hook:
    """A server that keeps what it is sent, and answers with a status."""

    def __init__(self, status):
        kept = self.kept = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                kept.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.access = HttpAccess(url=f"http://127.0.0.1:{self.server.server_port}/services/T0/B0/s3cr3tpart")


class TestWebhook:
    def test_the_summary_arrives_in_slacks_form(self):
        hook = Hook(200)
        send(hook.access, told(ORDERS, price=EURO))
        (sent,) = hook.kept
        assert sent["text"].startswith("What perdix advises saves")
        assert "EUR" in sent["text"]
        assert all(block["text"]["type"] == "mrkdwn" for block in sent["blocks"])

    def test_a_refusal_names_the_host_and_not_the_secret(self):
        with pytest.raises(WebhookError, match=r"127\.0\.0\.1 answers HTTP 404") as refused:
            send(Hook(404).access, told(ORDERS))
        assert "s3cr3tpart" not in str(refused.value)

    def test_forty_jobs_fit_into_what_slack_takes(self):
        found = told(ORDERS)
        sent = message({**found, "jobs": [{**found["jobs"][0], "job": "x" * 63}] * 40})
        assert all(len(block["text"]["text"]) <= 3_000 for block in sent["blocks"])
        assert len(sent["blocks"]) <= 50

    def test_a_name_from_outside_is_no_markup(self):
        found = told(ORDERS)
        sent = message({**found, "jobs": [{**found["jobs"][0], "job": "<!channel>"}]})
        assert "<!channel>" not in json.dumps(sent)


def test_the_picture_says_which_size_takes_what(monkeypatch):
    drawn = []
    monkeypatch.setattr("perdix.scan.page.to_png", lambda figure, dpi: drawn.append(figure) or b"")
    picture(ORDERS)
    legends = [axes.get_legend() for axes in drawn[0].axes]
    assert [text.get_text() for text in legends[0].get_texts()] == ["12 workers", "6 workers"]

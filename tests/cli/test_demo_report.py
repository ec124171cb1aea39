"""The demo's page: money and lateness of each policy first, then each job with its picture and why it was scaled."""

from __future__ import annotations

import re

import pytest

from perdix.cli.demo.comparison import BEST_FIXED, HPA, PERDIX, POLICIES, TODAY, Course, price_of_a_worker
from perdix.cli.demo.report import over_all_jobs, write_report
from perdix.control.explain import Explanation
from perdix.control.state.ledger import Entry, Intent, State
from perdix.policies.contract import Reason
from perdix.scan.saving import MONTH_H, WorkerPrice
from perdix.settings.home import Home

PRICE = WorkerPrice(0.05, "USD", "m6i.xlarge of a list")
WORKERS = {PERDIX: 4.0, BEST_FIXED: 5.0, HPA: 6.0, TODAY: 12.0}
CANDIDATES = [
    {"scale_out": 3, "capacity_per_s": 300.0, "recovery_s": None, "rejected_by": None, "mix": {}},
    {"scale_out": 6, "capacity_per_s": 600.0, "recovery_s": None, "rejected_by": "its plan costs <more>", "mix": {}},
]


def row(job: str, **changes: object) -> dict[str, object]:
    found: dict[str, object] = {"job": job, "family": "ensemble", "wape": 0.1, "capacity_error": 0.05}
    for policy in POLICIES:
        found |= {f"{policy}_workers": WORKERS[policy], f"{policy}_rescales": 3, f"{policy}_p95_ms": 900.0}
        found |= {f"{policy}_above_objective": 0.02}
    return {**found, **changes}


def course(policy: str) -> Course:
    minutes = 120
    return Course(policy, [1_000.0] * minutes, [WORKERS[policy]] * minutes, [800.0] * 119 + [float("nan")])


def explanation(job: str) -> Explanation:
    intent = Intent(
        job=job, window_end_s=0.0, made_s=1_772_000_000.0, from_scale_out=6, scale_out=3, policy="perdix",
        reason=Reason.SCALE_IN, sentence="The load <falls>.", valid_until_s=1_772_000_600.0, versions={},
        explanation={"candidates": CANDIDATES},
    )  # fmt: skip
    entry = Entry("d1", intent, State.CONFIRMED)
    return Explanation(job, None, entry, last_rescale=entry)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [row("ads"), row("clicks", wape=None, family=None)]
    courses = {"ads": [course(policy) for policy in POLICIES], "clicks": [course(policy) for policy in POLICIES]}
    explained = {"ads": explanation("ads"), "clicks": Explanation("clicks", None, None)}
    paths = write_report(Home(tmp_path_factory.mktemp("home")), rows, courses, explained, PRICE)
    assert paths["png"].read_bytes().startswith(b"\x89PNG")
    return paths["html"].read_text(encoding="utf-8")


def test_money_and_lateness_come_first(page: str) -> None:
    saved = (24.0 - 8.0) * MONTH_H * PRICE.per_h
    first = re.sub(r"<[^>]+>", " ", page[page.index("<h1>") : page.index("<h2>")])
    assert f"{saved:,.0f}" in first
    assert "late in 2.0 %" in first
    assert "best fixed sizes, known only afterwards" in first
    assert "HPA at 80 % CPU" in first


def test_each_job_says_why_as_a_page_and_not_as_a_terminal_does(page: str) -> None:
    assert "<pre" not in page
    assert "The load &lt;falls&gt;." in page
    assert "rejected: its plan costs &lt;more&gt;" in page
    assert "from 6 to 3 workers" in page
    assert page.count("<article>") == page.count("data:image/png") == 2
    assert "None" not in page
    assert "not known" not in page


def test_the_page_asks_nothing_of_any_server(page: str) -> None:
    assert "http" not in page.replace("http-equiv", "")


def test_lateness_over_all_jobs_is_that_of_the_worst() -> None:
    rows = [row("ads"), row("clicks", **{f"{PERDIX}_above_objective": 0.3})]
    ours, *others = over_all_jobs(rows, PRICE)
    assert (ours.workers, ours.late_share, ours.rescales) == (8.0, 0.3, 6)
    assert {other.late_share for other in others} == {0.02}


def test_a_worker_has_the_price_of_a_list_that_comes_along() -> None:
    price = price_of_a_worker(36)
    assert price.currency == "USD"
    assert 0.0 < price.per_h < 1.0

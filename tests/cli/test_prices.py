"""``perdix prices``, and the prices of ``perdix replay``, as a user calls them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result
from typer.testing import CliRunner

from perdix.cli.main import app
from perdix.cli.output import UserError
from perdix.cli.replay.job_text import show
from perdix.replay.campaign import Campaign, Setup
from perdix.replay.contenders import contenders
from perdix.replay.document import document
from perdix.replay.pricing import Pricing, priced
from perdix.replay.workload import own
from perdix.settings.prices import load_prices, price_list_names
from perdix.settings.stream_job import Bounds
from perdix.settings.yaml_files import SettingsError
from perdix.twin.parameters import load_twin
from tests.replay.played import played

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"
QUICK = ("--policy", "static-12", "--hours", "0.05", "--workers", "1", "--no-mlflow", "--no-pictures")
Call = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(app, list(arguments))
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_every_list_is_listed(call: Call) -> None:
    said = call("prices").stdout
    assert all(name in said for name in price_list_names())
    assert "second, 60 s at least" in said
    assert "30 min" in said
    found = json.loads(call("prices", "--json").stdout)
    assert found["schema"] == "perdix.prices/1"
    assert [row["name"] for row in found["lists"]] == price_list_names()
    assert found["failed"] == []


def test_a_list_that_cannot_be_read_does_not_hide_the_others(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "conf" / "prices"
    folder.mkdir(parents=True)
    good = (Path(__file__).resolve().parents[2] / "conf" / "prices" / "visp-10.yaml").read_text()
    (folder / "good.yaml").write_text(good)
    (folder / "bad.yaml").write_text(good.replace("price_per_h: 6", "price_per_h: -6"))
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path / "conf"))
    said = call("prices").stdout
    assert "good" in said
    assert re.search(r"not read: .*bad\.yaml:\d+", said.replace("\n", ""))


def test_workers_are_quoted_on_each_type_the_cheapest_first(call: Call) -> None:
    asked = ("prices", "aws-ec2-us-east-1", "--worker-cpu", "1", "--worker-memory", "4096", "--workers", "12")
    found = json.loads(call(*asked, "--json").stdout)
    prices = [quote["price_per_h"] for quote in found["quotes"]]
    assert prices == sorted(prices)
    assert found["quotes"][0] == {
        "instance_type": "r6i.xlarge",
        "per_host": 4,
        "hosts": 3,
        "price_per_h": pytest.approx(0.756),
        "worker_price_per_h": pytest.approx(0.063),
        "utilisation": 1.0,
    }
    assert list(found["left_out"]) == ["c6i.large"]
    row = re.search(r"^\| `perdix\.prices/1` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    assert set(found) - {"schema"} <= set(re.findall(r"`(\w+)`", row[1]))
    said = call(*asked).stdout
    assert "r6i.xlarge is cheapest" in said
    assert "10% of the memory of each host are left to its system" in said
    assert "too small for one worker: c6i.large" in said


def test_a_worker_that_fits_nowhere_is_an_error_in_words(call: Call) -> None:
    with pytest.raises(
        UserError, match="no instance type takes such a worker; dockerhost: a worker of 5 cores and 2,048"
    ):
        call("prices", "visp-10", "--worker-cpu", "5")
    with pytest.raises(SettingsError, match="did you mean 'visp-10'"):
        call("prices", "visp10")


def test_a_worker_that_fits_nowhere_is_compared_with_the_largest_host(call: Call) -> None:
    """It was compared with the first of the list, of 2 cores, as if 3 were too many."""
    with pytest.raises(
        UserError, match=r"c6i\.4xlarge: a worker of 17 cores and 2,048 MB fits on no host that has 16 c"
    ):
        call("prices", "aws-ec2-us-east-1", "--worker-cpu", "17")


def test_a_replay_is_priced_in_every_output(call: Call, tmp_path: Path) -> None:
    """Twelve workers of 2 GB are four of the paper's hosts; three minutes are one unit of ten, at 1 each."""
    asked = ("replay", *QUICK, "--prices", "visp-10", "--out", str(tmp_path / "out"))
    found = json.loads(call(*asked, "--json").stdout)
    assert found["results"][0]["cost"] == 4.0
    assert found["results"][0]["bill"]["instance_type"] == "dockerhost"
    assert found["pricing"]["release"] == "at-once"
    text = DOCS.read_text()
    assert {key for key in found["results"][0]["bill"] if f"`{key}`" not in text} == set()
    assert {key for key in found["pricing"] if f"`{key}`" not in text} == set()
    hosts = duckdb.sql(f"SELECT avg(hosts) FROM '{tmp_path}/out/series/static-12*.parquet'").fetchall()[0][0]
    assert hosts == pytest.approx(4.0)
    fixed = found["results"][-1]
    assert (fixed["policy"], fixed["cost"]) == ("best-static", -(-fixed["scale_out"] // 3))
    assert f"for {fixed['cost']:g} unit" in found["recommendation"]["sentence"]


def test_options_say_what_a_worker_is_given_and_when_hosts_go(call: Call) -> None:
    asked = ("replay", *QUICK, "--prices", "aws-ec2-us-east-1", "--instance-type", "m6i.xlarge", "--json")
    more = ("--worker-cpu", "2", "--worker-memory", "1024", "--release", "after-600")
    found = json.loads(call(*asked, *more).stdout)
    assert found["results"][0]["bill"]["most_hosts"] == 6
    assert found["pricing"]["release_delay_s"] == 600
    assert found["pricing"]["worker"] == {"cores": 2.0, "memory_mb": 1024.0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--prices", "visp-10", "--worker-price", "2"), "two prices of the same workers; drop one"),
        (("--worker-cpu", "2"), "--worker-cpu is for hosts of a price list; name one with --prices"),
        (("--release", "end-of-unit"), "--release is for hosts of a price list"),
        (("--prices", "visp-10", "--release", "soon"), "release 'soon': there is none; write at-once"),
        (("--prices", "visp-10", "--instance-type", "m5"), "no instance type 'm5'; known: dockerhost"),
        (("--prices", "visp-10", "--worker-memory", "9000"), "fits on no host that has 4 cores and 7,168 MB"),
        (("--prices", "nowhere"), "there is no price list 'nowhere'"),
        (("--twin", "enrich", "--worker-price", "3"), "--worker-price: the workers of twin 'enrich' have prices,"),
        (("--twin", "enrich", "--prices", "visp-10", "--worker-cpu", "2"), "--worker-cpu: the workers of twin"),
        (("--twin", "enrich", "--prices", "visp-10", "--worker-memory", "99"), "--worker-memory: the workers of twin"),
    ],
)
def test_what_cannot_be_priced_is_refused_before_anything_runs(call: Call, words: tuple[str, ...], said: str) -> None:
    with pytest.raises((UserError, SettingsError)) as caught:
        call("replay", *QUICK, *words)
    assert said in str(caught.value)


def test_people_see_currency_hosts_and_the_cheapest_by_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """Seven workers on average cost more than nine, when the seven come and go and each coming pays an hour."""
    pricing, parameters = Pricing(load_prices("visp-60")), load_twin("wordcount")
    setup = Setup(
        contenders("hpa-80,static-9"),
        own(parameters, 3_600),
        parameters,
        Bounds(maximum=12),
        hours=1.0,
        pricing=pricing,
    )
    coming_and_going = played("hpa-80", 1, 7.0, unprocessed=0.0)
    workers = coming_and_going.course.workers
    workers[:] = 6.0
    for begin in range(300, 3_600, 600):
        workers[begin : begin + 100] = 12.0
    bills = priced([coming_and_going, played("static-9", 1, 9.0)], {}, pricing)
    made: dict[str, Any] = document(Campaign(setup, bills.played, priced=bills))
    show({**made, "mlflow": None, "folder": "there"})
    said = " ".join(capsys.readouterr().out.split())
    assert "priced by visp-60 as of 2018" in said
    assert "on instances of dockerhost dockerhost" in said
    assert "cost, unit 84 18" in said
    assert "Recommended: static-9." in said
    assert "with 9 workers on average for 18 unit" in said
    assert "hpa-80 with 7 workers on average for 84 unit, 367 % more" in said

"""A live job's range, pulled over real HTTP from a twin's Prometheus face into the landing folder."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from perdix.settings.durations import DAY_S
from perdix.settings.home import Home
from perdix.settings.stream_job import PrometheusSource, StreamJob
from perdix.telemetry.lake import Lake
from perdix.telemetry.landing import landed, pulled_name
from perdix.telemetry.live_range import PulledRange, landing_file, pull_missing, pull_ranges
from perdix.telemetry.metrics import WORKLOAD
from perdix.telemetry.tables import SERIES, SOURCES
from perdix.twin.emission import Scraping
from perdix.twin.living import LivingTwin, SimulatedClock, revive
from perdix.twin.parameters import load_twin
from tests.telemetry.test_prometheus import Server, success
from tests.twin.troubled_face import PrometheusFace, Trouble

NOW_S = datetime(2026, 3, 5, 1, 0, tzinfo=UTC).timestamp()  # an hour after midnight: a range over two days
DAYS = ("2026-03-04", "2026-03-05")
HOUR_S = 3_600.0
SELECTOR = {"namespace": "wordcount", "topic": "wordcount", "job_name": "wordcount"}


@pytest.fixture(scope="module")
def living() -> LivingTwin:
    return revive({"wordcount": load_twin("wordcount")}, SimulatedClock(NOW_S), hours=3.0, scraping=Scraping(15.0))


@pytest.fixture
def face(living: LivingTwin) -> Iterator[PrometheusFace]:
    with PrometheusFace(living) as serving:
        yield serving


@pytest.fixture
def server() -> Iterator[Server]:
    opened = Server()
    yield opened
    opened.close()


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path).make()


def a_job(url: str, name: str = "wordcount", **prometheus: object) -> StreamJob:
    source = PrometheusSource(url=url, **{"selector": SELECTOR, "scrape_interval_s": 15.0, **prometheus})
    return StreamJob(name=name, prometheus=source)


def contents(home: Home) -> dict[str, bytes]:
    return {file.name: file.path.read_bytes() for file in landed(home, "wordcount")}


def lines(home: Home, day: str) -> list[str]:
    return gzip.decompress(landing_file(home, "wordcount", day).read_bytes()).decode().splitlines()


def samples(home: Home, day: str) -> dict[str, tuple[list[int], list[float]]]:
    read = [json.loads(line) for line in lines(home, day)]
    return {json.dumps(row["metric"]): (row["timestamps"], row["values"]) for row in read}


def pull_range(home: Home, job: StreamJob, from_s: float, until_s: float) -> PulledRange:
    return pull_ranges(home, job, ((from_s, until_s),), until_s)


def export(lake: Lake, source: str, first_h: float, *metrics: str, last_h: float = 1.0) -> None:
    """Let an export by hand hold metrics from this many hours before now until this many, one, before it."""
    first, last = (datetime.fromtimestamp(NOW_S - hours * HOUR_S, UTC) for hours in (first_h, last_h))
    empty = dict.fromkeys(("bytes", "read", "kept", "masked", "quarantined", "unmapped"), 0)
    row = {"file": source, "format": "", "digest": "", **empty, "first_ts": first, "last_ts": last, "remarks": ""}
    one = {"worker": None, "name": "", "labels": "{}", "kind": "gauge", "mapped": True}
    series = [{"series_id": n, "metric": metric, **one} for n, metric in enumerate(metrics)]
    for table, rows in ((SOURCES, [row]), (SERIES, series)):
        keys = {"job": "wordcount", "source": source}
        lake.put(table.name, keys, pa.Table.from_pylist(rows, schema=table.columns))


class TestPull:
    def test_ranges_of_one_day_become_one_file(self, home: Home, face: PrometheusFace) -> None:
        ranges = ((NOW_S - 3_000.0, NOW_S - 2_400.0), (NOW_S - 1_200.0, NOW_S - 600.0))
        pulled = pull_ranges(home, a_job(face.url), ranges, NOW_S)
        assert (pulled.days, pulled.from_s, pulled.until_s) == (DAYS[1:], NOW_S - 3_000.0, NOW_S - 600.0)
        times_ms = {at_ms for times, _ in samples(home, DAYS[1]).values() for at_ms in times}
        assert len(times_ms) == 82

    def test_what_was_answered_is_not_asked_for_again_unless_nothing_was_found(
        self, home: Home, server: Server
    ) -> None:
        lake, answer = Lake(home.lake), server.answer
        server.answer = lambda _: success()  # a wrong selector, say
        for _ in range(2):
            server.asked.clear()
            list(pull_missing([a_job(server.url)], home, lake, NOW_S, history_days=3))
            assert min(float(asked["start"]) for asked in server.asked) == NOW_S - 3 * DAY_S
        server.answer = answer
        list(pull_missing([a_job(server.url)], home, lake, NOW_S, history_days=3))
        server.asked.clear()
        list(pull_missing([a_job(server.url)], home, lake, NOW_S + 60.0, history_days=3))
        assert {float(asked["start"]) for asked in server.asked} == {NOW_S + 15.0}

    @pytest.mark.parametrize("refused", [False, True])
    def test_what_was_answered_in_part_is_asked_for_again(self, home: Home, server: Server, refused: bool) -> None:
        """A store of Thanos is away, or one query is refused for now; a label that the selector lacks is neither."""
        lake, answer, job = Lake(home.lake), server.answer, a_job(server.url, selector={"job_name": "wordcount"})

        def in_part(asked):
            if refused and "numRecordsIn" in asked["query"]:
                return 422, "application/json", b'{"status": "error", "error": "store is loading"}'
            warnings = [] if refused else ["store-3 is away"]
            return success(({}, [[float(asked["start"]), "1"], [float(asked["end"]), "1"]]), warnings=warnings)

        server.answer = in_part
        (first,) = pull_missing([job], home, lake, NOW_S, history_days=3)
        assert first.samples > 0
        server.answer = answer
        for later_s, again_s in ((60.0, -3 * DAY_S), (120.0, 75.0)):
            server.asked.clear()
            list(pull_missing([job], home, lake, NOW_S + later_s, history_days=3))
            oldest_s = min(float(asked["start"]) for asked in server.asked) - NOW_S
            assert again_s <= oldest_s <= again_s + 120.0

    def test_what_was_not_there_yet_is_asked_for_again(self, home: Home, server: Server) -> None:
        """Remote write is twenty minutes late."""
        lake, job = Lake(home.lake), a_job(server.url)
        server.answer = lambda asked: success(({}, [[min(float(asked["end"]), NOW_S - 1_200.0), "1"]]))
        list(pull_missing([job], home, lake, NOW_S, history_days=1))
        server.asked.clear()
        list(pull_missing([job], home, lake, NOW_S + HOUR_S, history_days=1))
        assert NOW_S - 1_200.0 <= min(float(asked["start"]) for asked in server.asked) <= NOW_S - 1_185.0

    @pytest.mark.parametrize("since_s", [DAY_S, 900.0], ids=["some", "nothing"])
    def test_one_metric_that_was_not_there_yet_is_asked_for_again(
        self, home: Home, server: Server, since_s: float
    ) -> None:
        """Kafka's exporter is twenty minutes late, Flink's is not; what came is in the lake."""
        lake, job, answer = Lake(home.lake), a_job(server.url), server.answer

        def late(asked):
            end_s = min(float(asked["end"]), NOW_S - (0.0 if "numRecordsIn" in asked["query"] else 1_200.0))
            return success(({}, [[end_s, "1"]])) if end_s >= float(asked["start"]) else success()

        server.answer = late
        pull_range(home, job, NOW_S - since_s, NOW_S)
        export(lake, pulled_name(DAYS[1]), 24.0, WORKLOAD.name, last_h=0.0)
        server.answer = answer
        for later_s, again_s in ((HOUR_S, -min(since_s, 1_200.0)), (HOUR_S + 600.0, HOUR_S)):
            server.asked.clear()
            list(pull_missing([job], home, lake, NOW_S + later_s, history_days=1))
            oldest_s = min(float(asked["start"]) for asked in server.asked) - NOW_S
            assert again_s <= oldest_s <= again_s + 15.0, "it is asked for until it came"

    @pytest.mark.parametrize("ranges", [(), ((NOW_S - 50.0, NOW_S - 5.0),)])
    def test_where_nothing_is_to_be_asked_nothing_is_missing(self, home: Home, server: Server, ranges) -> None:
        """After exports that end now, or between two trainings within one scrape interval."""
        pulled = pull_ranges(home, a_job(server.url, scrape_interval_s=60.0), ranges, NOW_S)
        assert (server.asked, pulled.problems, pulled.samples) == ([], (), 0)

    def test_a_range_becomes_a_file_per_day_that_ingest_reads(self, home: Home, face: PrometheusFace) -> None:
        pulled = pull_range(home, a_job(face.url), NOW_S - 2 * HOUR_S, NOW_S)
        assert pulled.days == DAYS
        assert pulled.problems == ()
        assert pulled.samples > 2 * 240 * 10
        assert [file.name for file in landed(home, "wordcount")] == [f"prometheus-{day}.json.gz" for day in DAYS]
        assert any('"__name__":"workload_per_s"' in line for line in lines(home, DAYS[0]))

    def test_pulled_twice_is_the_same_truth(self, home: Home, face: PrometheusFace) -> None:
        pull_range(home, a_job(face.url), NOW_S - 2 * HOUR_S, NOW_S)
        once = contents(home)
        pull_range(home, a_job(face.url), NOW_S - 2 * HOUR_S, NOW_S)
        assert contents(home) == once

    def test_pulled_in_two_parts_is_what_is_pulled_at_once(self, home: Home, face: PrometheusFace, tmp_path) -> None:
        pull_range(home, a_job(face.url), NOW_S - HOUR_S, NOW_S - 1800)
        pull_range(home, a_job(face.url), NOW_S - 1800 + 0.001, NOW_S)
        at_once = Home(tmp_path / "other").make()
        pull_range(at_once, a_job(face.url), NOW_S - HOUR_S, NOW_S)
        in_parts, whole = samples(home, DAYS[1]), samples(at_once, DAYS[1])
        assert in_parts.keys() == whole.keys()
        for name, (times, values) in whole.items():
            assert in_parts[name][0] == times
            assert in_parts[name][1] == pytest.approx(values, rel=1e-9), "the twin's means round by where they begin"

    def test_what_prometheus_has_forgotten_since_stays(self, home: Home, face: PrometheusFace, server: Server) -> None:
        pull_range(home, a_job(face.url), NOW_S - HOUR_S, NOW_S)
        before = contents(home)
        server.answer = lambda asked: success()
        pulled = pull_range(home, a_job(server.url), NOW_S - HOUR_S, NOW_S)
        assert contents(home) == before
        assert "is the selector right?" in pulled.problems[0]

    def test_long_ranges_at_one_second_are_paged(self, home: Home, server: Server) -> None:
        """``Server`` refuses more than 11,000 points, as Prometheus does."""
        pulled = pull_range(home, a_job(server.url, scrape_interval_s=1.0), NOW_S - 5 * HOUR_S, NOW_S - 2 * HOUR_S)
        assert pulled.problems == ()
        asked_s = [float(asked["end"]) - float(asked["start"]) for asked in server.asked]
        assert 0 < max(asked_s) < 11_000

    def test_the_jobs_token_and_selector_are_used(self, home: Home, server: Server, tmp_path) -> None:
        token = tmp_path / "token"
        token.write_text("s3cret\n")
        pull_range(home, a_job(server.url, token_file=token), NOW_S - 60, NOW_S)
        assert {headers["Authorization"] for headers in server.headers} == {"Bearer s3cret"}
        assert any('job_name="wordcount"' in asked["query"] for asked in server.asked)

    def test_values_that_are_no_numbers_survive_being_completed(self, home: Home, server: Server) -> None:
        server.answer = lambda asked: success(({}, [[float(asked["start"]), "NaN"], [float(asked["end"]), "+Inf"]]))
        pull_range(home, a_job(server.url), NOW_S - 60, NOW_S - 30)
        pull_range(home, a_job(server.url), NOW_S - 15, NOW_S)
        assert '"values":[null,"Infinity",null,"Infinity"]' in lines(home, DAYS[1])[0]


class TestWhatCannotBePulled:
    def test_a_server_that_is_down_is_told_and_nothing_is_lost(self, home: Home, face: PrometheusFace) -> None:
        pull_range(home, a_job(face.url), NOW_S - HOUR_S, NOW_S)
        before = contents(home)
        face.trouble = Trouble(down=True)
        pulled = pull_range(home, a_job(face.url), NOW_S - HOUR_S, NOW_S)
        assert pulled.samples == 0
        assert pulled.server_failed
        assert "down for a drill" in pulled.problems[0]
        assert contents(home) == before

    def test_a_server_that_is_down_is_asked_once_for_all_of_its_jobs(self, home: Home, server: Server) -> None:
        server.answer = lambda asked: (503, "application/json", b"{}")
        jobs = [a_job(server.url, name) for name in ("one", "two", "three")]
        found = list(pull_missing(jobs, home, Lake(home.lake), NOW_S, history_days=1))
        assert [pull.job for pull in found] == ["one", "two", "three"]
        assert all("HTTP 503" in pull.problems[0] for pull in found)
        assert len(server.asked) == 3, "the attempts of one question"

    @pytest.mark.parametrize("manifest", ['{"tab', "{}"])
    def test_a_job_whose_manifest_is_broken_keeps_no_other_from_being_pulled(
        self, home: Home, server: Server, manifest: str
    ) -> None:
        server.answer = lambda asked: success(({}, [[float(asked["start"]), "1"]]))
        path = home.lake / "sources" / "job=first" / "source=x.csv" / "_manifest.json"
        path.parent.mkdir(parents=True)
        path.write_text(manifest)
        jobs = [a_job(server.url, name) for name in ("first", "second")]
        first, second = pull_missing(jobs, home, Lake(home.lake), NOW_S, history_days=1)
        assert (first.job, first.samples) == ("first", 0)
        assert first.problems == (f"{path}: not a manifest; remove the folder and ingest its source again",)
        assert not first.server_failed
        assert (second.job, second.samples > 0, second.problems) == ("second", True, ())

    def test_a_job_whose_landing_folder_is_a_file_keeps_no_other_from_being_pulled(
        self, home: Home, server: Server
    ) -> None:
        server.answer = lambda asked: success(({}, [[float(asked["start"]), "1"]]))
        home.landing.mkdir()
        (home.landing / "first").write_text("a file")
        jobs = [a_job(server.url, name) for name in ("first", "second")]
        first, second = pull_missing(jobs, home, Lake(home.lake), NOW_S, history_days=1)
        assert (first.samples, first.server_failed) == (0, False)
        (problem,) = first.problems
        assert str(home.landing / "first") in problem
        assert "remove what is in its way" in problem
        assert second.samples > 0

    def test_a_job_without_prometheus_is_left_to_exports(self, home: Home) -> None:
        assert list(pull_missing([StreamJob(name="x")], home, Lake(home.lake), NOW_S, history_days=1)) == []

    def test_a_metric_that_is_not_there_is_named_and_the_others_are_pulled(self, home: Home, server: Server) -> None:
        def without_lag(asked):
            if "pendingRecords" in asked["query"]:
                return success()
            return success(({}, [[float(asked["start"]), "1"]]))

        server.answer = without_lag
        pulled = pull_range(home, a_job(server.url), NOW_S - 60, NOW_S)
        assert pulled.samples > 0
        (problem,) = pulled.problems
        assert "does not hold consumer_lag_records, 2026-03-05 00:59Z to 2026-03-05 01:00Z" in problem

    def test_a_label_that_the_selector_lacks_is_named(self, home: Home, face: PrometheusFace) -> None:
        source = a_job(face.url).prometheus
        assert source is not None
        bare = StreamJob(
            name="wordcount", prometheus=source.model_copy(update={"selector": {"namespace": "wordcount"}})
        )
        pulled = pull_range(home, bare, NOW_S - 60, NOW_S)
        assert any("workload_per_s needs the label topic" in problem for problem in pulled.problems)

    def test_a_day_that_is_refused_does_not_keep_the_next_one_out(self, home: Home, server: Server) -> None:
        def looks_back_an_hour(asked):
            if float(asked["start"]) < NOW_S - HOUR_S:
                return 422, "application/json", b'{"status": "error", "error": "too far back"}'
            return success(({}, [[float(asked["start"]), "1"]]))

        server.answer = looks_back_an_hour
        pulled = pull_range(home, a_job(server.url), NOW_S - 2 * HOUR_S, NOW_S)
        assert pulled.days == DAYS[1:]
        assert any("too far back" in problem for problem in pulled.problems)

    def test_a_server_whose_answers_are_no_metrics_is_not_said_to_hold_nothing(
        self, home: Home, server: Server
    ) -> None:
        """Beside the login page that answered stood the question whether the selector was right."""
        server.answer = lambda _asked: (200, "text/html", b"<html>login</html>")
        (problem,) = pull_range(home, a_job(server.url), NOW_S - HOUR_S, NOW_S).problems
        assert problem.endswith("answers with a web page (a login or a proxy?) instead of Prometheus' JSON")

    def test_what_is_left_to_an_export_of_one_metric_is_named(self, home: Home, server: Server) -> None:
        """Two weeks of latency alone keep everything else of them from being pulled."""
        lake = Lake(home.lake)
        server.answer = lambda asked: success(({}, [[float(asked["start"]), "1"]]))
        export(lake, "latency.csv", 5.0, "latency_p95_ms")
        export(lake, "load.csv", 3.0, "workload_per_s", "throughput_per_s")
        (pulled,) = pull_missing([a_job(server.url)], home, lake, NOW_S, history_days=1)
        left = [problem for problem in pulled.problems if "is left to" in problem]
        assert left == [
            "2026-03-04 20:00Z to 2026-03-05 00:00Z is left to latency.csv, which holds no cpu_load: "
            "ingest an export of it, too",
            "2026-03-04 22:00Z to 2026-03-05 00:00Z is left to load.csv, which holds no cpu_load: "
            "ingest an export of it, too",
        ]

    def test_a_damaged_file_of_an_earlier_pull_is_replaced(self, home: Home, face: PrometheusFace) -> None:
        path = landing_file(home, "wordcount", DAYS[1])
        path.parent.mkdir(parents=True)
        path.write_bytes(b"\x1f\x8b broken")
        pulled = pull_range(home, a_job(face.url), NOW_S - HOUR_S, NOW_S)
        assert pulled.problems == ()
        assert any("workload_per_s" in line for line in lines(home, DAYS[1]))

"""Series of two jobs that were given as one are reported with the label, the values and the fix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.mixed_jobs import joined, mixed_jobs, stretches
from perdix.telemetry.queries import SeriesMap
from perdix.telemetry.staged_export import ExportPart, Receipt, stage_part
from tests.telemetry.export_writers import Written, query_range

RECORDS = "flink_taskmanager_job_task_operator_numRecordsIn"
MESSAGES = "kafka_server_brokertopicmetrics_messagesin_total"
Report = Callable[[Sequence[Written]], tuple[str, ...]]


@pytest.fixture
def report(tmp_path: Path, series_map: SeriesMap) -> Report:
    def reported(series: Sequence[Written]) -> tuple[str, ...]:
        path = tmp_path / "export.json"
        path.write_bytes(query_range(series))
        part = ExportPart(str(path), "throughput_1.json", "throughput_1.json")
        receipt = stage_part(part, tmp_path, series_map, Hint(), Limits())
        return mixed_jobs(Receipt.from_json(receipt.to_json()).job_spans)

    return reported


def source(first_s: int = 0, name: str = RECORDS, **labels: str) -> Written:
    operator = {"operator_name": "Source: in", "tm_id": "tm-1"} if name == RECORDS else {}
    return Written(name, {**operator, **labels}, tuple((1000 * (first_s + 15 * k), float(k)) for k in range(10)))


def test_two_jobs_of_one_export_are_named_with_label_values_and_fix(report: Report) -> None:
    (said,) = report([source(job_name="ads"), source(job_name="enrich")])
    assert said == (
        "series of 2 jobs were taken as one: job_name is 'ads' and 'enrich' in throughput_per_s;"
        ' export one of them, with job_name=~"ads|" in each selector, which keeps series without job_name,'
        " and ingest each under its own --job"
    )


def test_a_result_without_a_name_and_canonical_names_tell_jobs_apart_too(report: Report) -> None:
    for name in ("", "throughput_per_s", "cpu_load"):
        (said,) = report([source(name=name, job_name="ads"), source(name=name, job_name="enrich")])
        assert f"in {name or 'throughput_per_s'};" in said


def test_the_same_name_in_two_namespaces_is_two_jobs(report: Report) -> None:
    (said,) = report([source(job_name="ads", namespace="prod"), source(job_name="ads", namespace="test")])
    assert "namespace is 'prod' and 'test'" in said


def test_what_names_a_job_is_written_as_a_selector_takes_it(report: Report) -> None:
    (said,) = report([source(job_name='a.b"c'), source(job_name="enrich")])
    assert r"""job_name=~"a\\.b\"c|" in each selector""" in said


def test_two_jobs_are_found_whatever_the_order_and_the_offset_of_their_samples(report: Report) -> None:
    ads, enrich = source(job_name="ads"), source(7, job_name="enrich")
    for shuffled in (ads.samples[::-1], ads.samples[::2] + ads.samples[1::2]):
        assert report([replace(ads, samples=shuffled), enrich])


def test_jobs_of_which_each_sample_is_a_series_of_its_own_line_are_found(series_map: SeriesMap, tmp_path: Path) -> None:
    lines = "".join(
        f'{RECORDS}{{operator_name="Source: in",job_name="{job}"}} {k} {15 * k}\n'
        for k in range(10)
        for job in ("ads", "enrich")
    )
    path = tmp_path / "export.txt"
    path.write_text(lines + "# EOF\n")
    part = ExportPart(str(path), "export.txt", "export.txt")
    assert mixed_jobs(stage_part(part, tmp_path, series_map, Hint(), Limits()).job_spans)


def test_a_series_of_many_gaps_has_few_stretches() -> None:
    times_ms = np.cumsum(np.where(np.arange(100_000) % 3, 15_000, 900_000))
    found = stretches(times_ms)
    assert len(found) <= 200
    assert (found[0].first_ms, found[-1].last_ms) == (times_ms[0], times_ms[-1])


def test_stretches_that_were_read_in_pieces_are_as_those_of_the_whole() -> None:
    times_ms = 15_000 * np.concatenate([np.arange(100), np.arange(400, 500)])
    whole = stretches(times_ms)
    assert [(span.first_ms, span.last_ms) for span in whole] == [(0, 1_485_000), (6_000_000, 7_485_000)]
    for size in (1, 7, 50):
        pieces = [stretch for at in range(0, 200, size) for stretch in stretches(times_ms[at : at + size])]
        assert joined(pieces) == whole


def test_topics_that_add_up_to_the_workload_are_named(report: Report) -> None:
    """A dump of all brokers: what a job reads and what it writes was its load, without a word."""
    (said,) = report(
        [source(name=MESSAGES, topic="ads", instance=f"kafka-{k}") for k in range(2)]
        + [source(name=MESSAGES, topic="clicks")]
    )
    assert said == (
        "workload_per_s is the sum of 2 topics, 'ads' and 'clicks'; where the job does not read all of them, export"
        ' with topic=~"ads|" in each selector, which keeps series without topic'
    )


@pytest.mark.parametrize(
    ("metric", "content", "said"),
    [
        ("workload_per_s", "long", "workload_per_s is the sum of 2 series, 'clicks' and 'errors'"),
        ("latency_p95_ms", "long", "latency_p95_ms is the highest of 2 series, 'clicks' and 'errors'"),
        ("cpu_load", "long", "cpu_load is the mean of 2 series, 'clicks' and 'errors'"),
        ("workload_per_s", "wide", "workload_per_s is the sum of 2 series, 'clicks' and 'errors'"),
        ("cpu_load", "wide", None),  # workers
        ("workload_per_s", "renamed", None),
        ("workload_per_s", "known", None),
    ],
)
def test_names_that_a_hint_makes_one_metric_are_named(
    tmp_path: Path, series_map: SeriesMap, metric: str, content: str, said: str | None
) -> None:
    """They were summed without a word."""
    rows = [(1677064200 + 15 * k, k) for k in range(20)]
    text = {
        "long": "ts,metric,value\n" + "".join(f"{t},clicks,{k}\n{t},errors,0\n" for t, k in rows),
        "wide": "Time,clicks,errors\n" + "".join(f"{t},{k},0\n" for t, k in rows),
        "renamed": "ts,metric,value\n" + "".join(f"{t},{'clicks' if k < 9 else 'errors'},{k}\n" for t, k in rows),
        "known": "Time,workload_per_s,errors\n" + "".join(f"{t},{k},0\n" for t, k in rows),
    }[content]
    path = tmp_path / "export.csv"
    path.write_text(text)
    receipt = stage_part(ExportPart(str(path), path.name, path.name), tmp_path, series_map, Hint(metric), Limits())
    expected = [] if said is None else [f"{said}; leave out of the export what is not part of it"]
    assert [*mixed_jobs(Receipt.from_json(receipt.to_json()).job_spans)] == expected


def test_many_jobs_are_counted_and_some_are_named(report: Report) -> None:
    (said,) = report([source(job_name=f"job-{k}") for k in range(9)])
    assert said.startswith("series of 9 jobs were taken as one: job_name is 'job-0', 'job-1', 'job-2' and 6 more in")


@pytest.mark.parametrize(
    "series",
    [
        [source(job_name="ads", job_id="1"), source(150, job_name="ads", job_id="2")],
        [source(job_name="ads", job_id="1"), source(job_name="ads", job_id="1", tm_id="tm-2")],
        [source(job_name="ads"), source(name=MESSAGES, topic="ads", job="brokers")],
        [source(job_name="ads-v1"), source(150, job_name="ads-v2")],
        [source(job_name="ads"), source(150, job_name="ads-v2"), source(300, job_name="ads")],
        [
            replace(source(job_name="ads"), samples=(*source().samples, *source(300).samples)),
            source(150, job_name="ads-v2"),
        ],
        [source(job_name="ads-v1"), source(105, job_name="ads-v2")],
        [source(name=MESSAGES, topic="ads", cluster="kafka-1"), source(name=MESSAGES, topic="ads", cluster="kafka-2")],
        [source(name=MESSAGES, topic="ads"), source(name=MESSAGES, topic="__consumer_offsets")],
        [
            source(name=f"flink_taskmanager_job_{kind}", quantile="0.95", cluster=kind)
            for kind in ("task_operator_eventTimeLag", "latency_source_latency")
        ],
        [source(job_name="ads", job="tm-1"), source(job_name="ads", job="tm-2")],
        [source(name="cpu_load", job="tm-1"), source(name="cpu_load", job="tm-2")],
        [source(job_name="ads"), source(name="go_threads", job_name="enrich")],
    ],
    ids=[
        "restarted",
        "workers",
        "topic",
        "renamed",
        "renamed-back",
        "renamed-back-1",
        "handed-over",
        "brokers",
        "internal-topics",
        "kinds",
        "scrape-jobs",
        "scrape-jobs-canonical",
        "unmapped",
    ],
)
def test_one_job_is_one_job(report: Report, series: Sequence[Written]) -> None:
    assert report(series) == ()

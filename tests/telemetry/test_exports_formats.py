"""Each format, plain and gzipped: what was written is what is read."""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdix.telemetry.exports.naming import Hint
from tests.telemetry.export_writers import FORMATS, WRITERS, Written, gzipped, query_range

START = 1_700_000_000_000
PLAIN = [
    Written("cpu_load", {"worker": "tm-0"}, tuple((START + 15_000 * k, 0.5 + k / 100) for k in range(20))),
    Written("cpu_load", {"worker": "tm-1"}, tuple((START + 15_000 * k, 0.25 + k / 100) for k in range(20))),
    Written("workload_per_s", {}, tuple((START + 15_000 * k, 1e5 + k) for k in range(20))),
]


def gathered(named):
    """Samples of each series over all of its runs, in the order in which they were read."""
    series = {}
    for stream in named:
        key = (stream.series.metric, stream.series.worker, tuple(sorted(stream.series.labels.items())))
        series.setdefault(key, []).extend(
            zip(stream.series.times_ms.tolist(), stream.series.values.tolist(), strict=True)
        )
    return series


def expected(series):
    return {
        (stream.name, stream.labels.get("worker"), tuple(sorted(stream.labels.items()))): list(stream.samples)
        for stream in series
        if stream.samples
    }


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", WRITERS)
def test_reads_back_what_was_written(read, form, zipped):
    content = WRITERS[form](PLAIN)
    named, reading = read(gzipped(content) if zipped else content, "anything.at.all")
    assert reading.format == FORMATS[form]
    assert gathered(named) == expected(PLAIN)
    assert (reading.tally.kept, reading.tally.masked, reading.tally.quarantined) == (60, 0, 0)
    assert all(stream.mapped for stream in named)


@pytest.mark.parametrize("form", sorted(set(WRITERS) - {"parquet"}))
def test_text_may_begin_with_the_mark_of_utf_8(read, form):
    """As PowerShell writes it: the first line of JSON lines, or of a dump, was quarantined."""
    content = WRITERS[form](PLAIN)
    named, reading = read(BOM_UTF8 + content.removeprefix(BOM_UTF8))
    assert gathered(named) == expected(PLAIN)
    assert reading.quarantined == []


def test_an_error_behind_the_mark_of_utf_8_is_shown(read):
    _, reading = read(BOM_UTF8 + b'{"status":"error","errorType":"bad_data","error":"too many points"}')
    assert reading.quarantined[0].reason.startswith("Prometheus answered with an error: 'bad_data: too many points'")


@pytest.mark.parametrize("form", WRITERS)
def test_values_that_are_no_numbers_are_kept_apart(read, form):
    odd = Written("cpu_load", {"worker": "a"}, ((START, math.nan), (START + 1000, math.inf), (START + 2000, -math.inf)))
    named, reading = read(WRITERS[form]([PLAIN[0], odd]))
    values = np.concatenate([stream.series.values for stream in named if stream.series.worker == "a"])
    assert np.isnan(values[0])
    assert values[1:].tolist() == [math.inf, -math.inf]
    assert (reading.tally.kept, reading.tally.masked, reading.tally.quarantined) == (20, 3, 0)


@pytest.mark.parametrize("form", sorted(set(WRITERS) - {"csv"}))  # a wide table has one row per time
def test_order_and_duplicates_are_kept_as_they_came(read, form):
    samples = ((START + 3000, 3.0), (START, 1.0), (START, 1.0), (START + 1000, 2.0))
    named, reading = read(WRITERS[form]([Written("workload_per_s", {}, samples)]))
    assert gathered(named) == {("workload_per_s", None, ()): list(samples)}
    assert reading.tally.kept == 4


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("sort_keys", [False, True])
def test_a_query_range_document_may_be_printed_prettily(read, indent, sort_keys):
    named, reading = read(query_range(PLAIN, indent=indent, sort_keys=sort_keys))
    assert gathered(named) == expected(PLAIN)
    assert reading.quarantined == []


@pytest.mark.parametrize("wrap", ["{0}", '{{"resultType":"matrix","result":{0}}}', '{{"data":{{"result":{0}}}}}'])
def test_a_result_may_stand_alone(read, wrap):
    bare = query_range(PLAIN).decode()
    bare = bare[bare.index('"result":') + 9 : -2]
    named, _ = read(wrap.format(bare).encode())
    assert gathered(named) == expected(PLAIN)


def test_a_result_may_stand_as_a_series_per_line(read):
    result = json.loads(query_range(PLAIN))["data"]["result"]
    named, reading = read("\n".join(json.dumps(item, separators=(",", ":")) for item in result).encode())
    assert gathered(named) == expected(PLAIN)
    assert (reading.format, reading.quarantined) == ("query_range", [])


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("after", ["", "\n", ",\n"])
def test_answers_may_follow_each_other_in_one_file(read, indent, after):
    """As a loop of ``curl ... >> answers.json`` writes them, an hour each."""
    answers = [json.dumps(json.loads(query_range([stream])), indent=indent) for stream in PLAIN]
    named, reading = read(f"{after}".join(answers).encode())
    assert gathered(named) == expected(PLAIN)
    assert reading.tally.quarantined == 0


@pytest.mark.parametrize(
    ("place", "error"),
    [
        *(
            (place, '{"status":"error","errorType":"bad_data","error":"resolution of 11,000 points"}')
            for place in range(3)
        ),
        *((place, "<html>\r\n<h1>504: no 11,000 points</h1><style>p {x}</style></html>\r\n") for place in (1, 2)),
    ],
)
def test_an_error_among_several_answers_is_reported(read, place, error):
    answers = [query_range([stream]).decode() for stream in PLAIN[:2]]
    answers.insert(place, error)
    named, reading = read("\n".join(answers).encode())
    assert gathered(named) == expected(PLAIN[:2])
    assert [row.reason for row in reading.quarantined] == [
        "one of the answers is an error; fix its query and export again"
    ]
    assert "11,000 points" in reading.quarantined[0].excerpt


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("series", [PLAIN, []], ids=["series", "nothing"])
@pytest.mark.parametrize(
    ("warned", "said"),
    [
        ({"warnings": ["no store matched", "b"]}, ": no store matched"),  # of Thanos and Prometheus
        ({"isPartial": True}, ""),  # of VictoriaMetrics
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_an_answer_that_may_be_partial_is_reported(read, indent, series, warned, said, first):
    """What was missing of it was nobody's load, without a word; of a live pull it was said."""
    answer = json.loads(query_range(series))
    answer = {**warned, **answer} if first else {**answer, **warned}
    named, reading = read(json.dumps(answer, indent=indent).encode())
    assert gathered(named) == expected(series)
    remark = f"the server warned that its answer may lack series or samples{said}; export it again"
    assert reading.remarks == [remark, *([] if series else ["the query matched no series"])]


@pytest.mark.parametrize("whole", [{"warnings": [], "isPartial": False}, {"infos": ["might not be a counter"]}])
def test_an_answer_that_is_whole_is_not_remarked_on(read, whole):
    assert read(json.dumps({**json.loads(query_range(PLAIN)), **whole}).encode())[1].remarks == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("my_records_total", "counter"),
        ("kafka_topic_partition_current_offset", "counter"),  # of kafka_exporter, which calls it a gauge
        ("flink_taskmanager_job_task_operator_numRecordsOut", "counter"),  # so does Flink
        ("flink_taskmanager_job_task_operator_numRecordsOutPerSecond", "gauge"),
    ],
)
def test_a_counter_that_a_hint_names_is_one_also_where_the_export_has_no_types(read, name, kind):
    """As JSON of Prometheus or VictoriaMetrics: its count was read as a rate."""
    line = f'{{"metric":{{"__name__":"{name}","pod":"a"}},"values":[123456789],"timestamps":[1700000000000]}}'
    [found] = read(line.encode(), hint=Hint("throughput_per_s"))[0]
    assert (found.series.metric, found.series.kind) == ("throughput_per_s", kind)
    [found] = read(line.encode(), hint=Hint("consumer_lag_records"))[0]
    assert found.series.kind == "gauge"


@pytest.mark.parametrize(("metric", "kind"), [("throughput_per_s", "counter"), ("uptime_s", "gauge")])
def test_a_counter_that_a_hint_names_stays_one_where_its_metric_is_a_rate(read, metric, kind):
    content = b'# TYPE my_records counter\nmy_records_total{pod="a"} 123456789 1700000000\n# EOF\n'
    [one] = read(content, hint=Hint(metric))[0]
    assert (one.mapped, one.series.metric, one.series.kind) == (True, metric, kind)


def test_when_a_counter_was_created_is_not_the_metric_that_a_hint_names(read):
    """Seconds since 1970 were records/s beside those of the counter."""
    content = b"# TYPE my counter\nmy_total 5 1700000000\nmy_created 1690000000 1700000000\n# EOF\n"
    named, _ = read(content, hint=Hint("workload_per_s"))
    assert [(series.series.metric, series.mapped) for series in named] == [
        ("workload_per_s", True),
        ("my_created", False),
    ]


# ------------------------------------------------------------------ property-based

_label_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
_labels = st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), _label_text, max_size=3)
_samples = st.lists(
    st.tuples(st.integers(0, 4_000_000_000_000), st.floats(width=64, allow_nan=False)), min_size=1, max_size=8
)
_series = st.builds(
    Written,
    st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True),
    _labels.filter(lambda labels: not {"__name__", "worker"} & set(labels)),
    _samples.map(tuple),
)
_exact = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("form", ["query_range", "victoriametrics", "tsdb_dump", "parquet"])
@_exact
@given(
    series=st.lists(
        _series, min_size=1, max_size=4, unique_by=lambda series: (series.name, str(sorted(series.labels.items())))
    )
)
def test_any_series_survives_the_round_trip(read, form, series):
    if form == "tsdb_dump":  # its milliseconds are told from seconds by their size
        series = [Written(s.name, s.labels, tuple((at + 100_000_000_000, v) for at, v in s.samples)) for s in series]
    named, reading = read(WRITERS[form](series))
    seen = {}
    for stream in named:
        samples = zip(stream.series.times_ms.tolist(), stream.series.values.tolist(), strict=True)
        seen.setdefault((stream.name, tuple(sorted(stream.series.labels.items()))), []).extend(samples)
    assert seen == {(stream.name, tuple(sorted(stream.labels.items()))): list(stream.samples) for stream in series}
    finite = sum(math.isfinite(value) for stream in series for _, value in stream.samples)
    total = sum(len(stream.samples) for stream in series)
    assert (reading.tally.kept, reading.tally.masked, reading.tally.quarantined) == (finite, total - finite, 0)


@pytest.mark.parametrize(
    "content",
    [
        b'[{"ts": 1677064200, "metric": "cpu", "value": 0.5}, {"ts": 1677064201, "metric": "cpu", "value": 0.6}]',
        b'{"ts": 1677064200, "metric": "cpu", "value": 0.5}\n{"ts": 1677064201, "metric": "cpu", "value": 0.6}\n',
        b'{"ts": {"0": 1677064200}, "metric": {"0": "cpu_load"}, "value": {"0": 0.5}}',
        b"[1, 2]",
    ],
    ids=["records", "lines", "columns", "numbers"],
)
def test_json_records_are_sent_to_a_table(read, content):
    named, reading = read(content)
    assert named == []
    assert [row.samples for row in reading.quarantined] == [1]
    assert "or save records as CSV or Parquet with the columns ts, metric and value" in reading.quarantined[0].reason

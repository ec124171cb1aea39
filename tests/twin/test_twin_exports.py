import csv
import gzip
import io
import json
import math
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.export_forms import ALL_FORMS, grafana_csv, write_exports
from perdix.telemetry.series import Series
from perdix.twin.emission import Scraping, emit
from perdix.twin.job import JobTwin

START_S = 1_700_000_000
AWKWARD = Series(
    "odd_metric",
    None,
    np.array([1_700_000_000_123, 1_700_000_001_000, 1_700_000_002_000, 1_700_000_003_000]),
    np.array([0.1 + 0.2, np.nan, np.inf, -np.inf]),
    {"path": 'C:\\a"b\nc', "text": "größer, {x=1}"},
)


@pytest.fixture
def series(parameters):
    twin = JobTwin(parameters(), 3, start_s=START_S)
    twin.step(300)
    twin.rescale(3, "a")
    twin.step(300)
    return [*emit(twin, Scraping(15.0, jitter_s=0.2), names="flink"), AWKWARD]


def content(path):
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def as_dict(series):
    return {
        (s.metric, tuple(sorted(s.labels.items()))): (s.times_ms.tolist(), [repr(v) for v in s.values.tolist()])
        for s in series
    }


UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def labels_of(text):
    pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', text)
    return {k: re.sub(r'\\\\|\\"|\\n', lambda m: UNESCAPED[m[0]], v) for k, v in pairs}


def grouped(rows):
    found = {}
    for label_pairs, time_ms, value in rows:
        labels = dict(label_pairs)
        times, values = found.setdefault((labels.pop("__name__"), tuple(sorted(labels.items()))), ([], []))
        times.append(time_ms)
        values.append(repr(float(value)))
    return found


def read_back(form, path):
    text = content(path)
    if form == "query-range":
        answer = json.loads(text)
        assert (answer["status"], answer["data"]["resultType"]) == ("success", "matrix")
        result = answer["data"]["result"]
        return grouped((r["metric"], round(1000 * t), v) for r in result for t, v in r["values"])
    if form == "victoria-metrics":
        lines = [json.loads(line) for line in text.splitlines()]
        return grouped(
            (line["metric"], t, math.nan if v is None else v)
            for line in lines
            for t, v in zip(line["timestamps"], line["values"], strict=True)
        )
    if form == "openmetrics":
        lines = text.split("\n")
        assert lines[-2:] == ["# EOF", ""]
        rows = [re.fullmatch(r"(\w+)\{(.*)\} (\S+) (\S+)", line) for line in lines[:-2]]
        return grouped(({"__name__": m[1], **labels_of(m[2])}, round(1000 * float(m[4])), m[3]) for m in rows)
    rows = [re.fullmatch(r"\{(.*)\} (\S+) (\d+)", line) for line in text.splitlines()]
    return grouped((labels_of(m[1]), int(m[3]), m[2]) for m in rows)


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("form", ["query-range", "victoria-metrics", "openmetrics", "tsdb-dump"])
def test_nothing_is_lost_or_changed(series, tmp_path, form, gzipped):
    (path,) = write_exports(series, tmp_path, form, "orders", gzipped=gzipped)
    assert (path.suffix == ".gz") == gzipped
    assert read_back(form, path) == as_dict(series)


def test_parquet_holds_the_canonical_form(series, tmp_path):
    (path,) = write_exports(series, tmp_path, "parquet", "orders")
    table = pq.read_table(path)
    assert table.column_names == ["metric", "worker", "labels", "ts", "value"]
    assert table.num_rows == sum(len(s) for s in series)
    rows = table.to_pylist()
    found = grouped(
        ({"__name__": r["metric"], **json.loads(r["labels"])}, round(1000 * r["ts"].timestamp()), r["value"])
        for r in rows
    )
    assert found == as_dict(series)


def test_grafana_writes_a_panel_per_metric_with_empty_cells(series, tmp_path):
    paths = write_exports(series, tmp_path, "grafana-csv", "orders", gzipped=True)
    assert len(paths) == len({s.metric for s in series})
    (path,) = [p for p in paths if "CPU_Load" in p.name]
    text = content(path)
    assert text.startswith(
        '\ufeff"Time","flink_taskmanager_Status_JVM_CPU_Load{namespace=""orders"", pod=""orders-task'
    )
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    cpu = [s for s in series if s.metric.endswith("CPU_Load")]
    for entry in cpu:
        (column,) = [name for name in rows[0] if f'pod="{entry.worker}"' in name]
        cells = [row[column] for row in rows if row[column]]
        assert [repr(float(cell)) for cell in cells] == [repr(v) for v in entry.values.tolist()]
    assert "" in rows[0].values()  # a worker that came later
    assert rows[0]["Time"].startswith("2023-11-14 22:13:")


def test_two_samples_within_a_second_are_two_rows():
    entry = Series("m", None, np.array([1_000, 1_400, 2_000]), np.array([1.0, 2.0, 3.0]))
    assert "".join(grafana_csv([entry])).splitlines()[1:] == [
        "1970-01-01 00:00:01,1",
        "1970-01-01 00:00:01,2",
        "1970-01-01 00:00:02,3",
    ]


@pytest.mark.parametrize("form", sorted(ALL_FORMS))
def test_bytes_repeat_and_no_series_is_a_file_too(form, tmp_path):
    first = write_exports([], tmp_path / "a", form, "x", gzipped=True)
    second = write_exports([], tmp_path / "b", form, "x", gzipped=True)
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]

"""The lake: replaced by partition, atomic for readers, none the worse after a crash."""

from __future__ import annotations

import json
import threading
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perdix.telemetry.lake import Lake, LakeError, source_key
from perdix.telemetry.partitions import read_manifest
from perdix.telemetry.tables import TABLES

DAY = "2026-01-31"


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake")


def workload(values, start="2026-01-31"):
    times = pd.date_range(start, periods=len(values), freq="10s", tz="UTC")
    return pd.DataFrame({"ts": times, "workload_per_s": np.asarray(values, dtype=float)})


def rows_of(lake, table="workload_features", **options):
    return lake.read(table, **options)["workload_per_s"].to_pylist()


def test_what_is_written_is_read(lake):
    manifest = lake.replace("workload_features", "a", DAY, workload([1, np.nan, 3]), counts={"from": 3})
    assert (manifest.rows, manifest.counts) == (3, {"from": 3})
    table = lake.read("workload_features", "a")
    assert table.schema == TABLES["workload_features"].schema
    assert table["workload_per_s"].to_pylist() == [1, None, 3]
    assert set(table["job"].to_pylist()) == {"a"}
    assert set(table["day"].to_pylist()) == {DAY}


def test_the_same_content_twice_is_the_same_truth(lake):
    first = lake.replace("workload_features", "a", DAY, workload([1, 2]))
    files = lake.files("workload_features", "a")
    assert lake.replace("workload_features", "a", date(2026, 1, 31), workload([1, 2])) == first
    assert lake.files("workload_features", "a") == files
    assert rows_of(lake) == [1, 2]


def test_a_replaced_partition_leaves_the_others(lake):
    lake.replace("workload_features", "a", DAY, workload([1]))
    lake.replace("workload_features", "a", "2026-02-01", workload([2], "2026-02-01"))
    lake.replace("workload_features", "b", DAY, workload([3]))
    lake.replace("workload_features", "a", DAY, pa.Table.from_pandas(workload([9, 9]), preserve_index=False))
    assert sorted(rows_of(lake)) == [2, 3, 9, 9]
    assert rows_of(lake, job="a", days=[date(2026, 2, 1)]) == [2]
    assert lake.jobs("workload_features") == ["a", "b"]
    assert lake.days("workload_features", "a") == [DAY, "2026-02-01"]


def test_reading_a_day_opens_no_manifest_of_another(lake, monkeypatch):
    """A year of a thousand jobs has hundreds of thousands of them, and one may be broken."""
    for day in (DAY, "2026-02-01"):
        lake.replace("workload_features", "a", day, workload([1], day))
    opened = []
    monkeypatch.setattr("perdix.telemetry.lake.read_manifest", lambda path: opened.append(path) or read_manifest(path))
    assert rows_of(lake, days=[DAY]) == [1]
    assert {path.parent.name for path in opened} == {f"day={DAY}"}
    assert lake.manifests("workload_features", days=[]) == []


def test_no_rows_is_a_content(lake):
    lake.replace("workload_features", "a", DAY, workload([1]))
    lake.replace("workload_features", "a", DAY, workload([]))
    assert rows_of(lake) == []
    assert lake.days("workload_features", "a") == []


def test_reading_what_is_not_there_gives_the_schema(lake):
    assert lake.read("samples", "nobody").schema == TABLES["samples"].schema
    assert lake.read("samples", columns=["ts", "job"]).column_names == ["ts", "job"]
    assert (lake.jobs(), lake.days("samples", "x"), lake.files("series")) == ([], [], [])


def test_columns_may_be_chosen(lake):
    lake.replace("workload_features", "a", DAY, workload([1, 2]))
    assert lake.read("workload_features", "a", columns=["job", "workload_per_s"]).to_pydict() == {
        "job": ["a", "a"],
        "workload_per_s": [1, 2],
    }


def observed(worker, names):
    times = pd.date_range(DAY, periods=len(names), freq="15s", tz="UTC")
    frame = pd.DataFrame({"series_id": range(len(names)), "metric": names, "worker": worker, "ts": times})
    return frame.assign(value=1.5, mask=None)


def test_coded_texts_are_the_same_texts(lake):
    """Each file has a dictionary of its own, and each partition a word that the others do not know."""
    lake.put("samples", {"job": "a", "day": DAY, "source": "x"}, observed("w1", ["cpu_load", "scale_out", "cpu_load"]))
    lake.put("samples", {"job": "a", "day": "2026-02-01", "source": "y"}, observed(None, ["scale_out", "uptime_s"]))
    lake.put("samples", {"job": "b", "day": DAY, "source": "x"}, observed(["w2", None], ["uptime_s", "näme"]))
    plain = lake.read("samples")
    coded = lake.read("samples", coded=True)
    assert coded.to_pylist() == plain.to_pylist()
    frame = coded.to_pandas()
    assert set(frame.select_dtypes("category")) == {"metric", "worker", "mask", "job", "day", "source"}
    assert frame.astype(object).equals(plain.to_pandas().astype(object))
    days = {"days": ["2026-02-01"], "columns": ["day", "metric"]}
    assert lake.read("samples", coded=True, **days).to_pylist() == lake.read("samples", **days).to_pylist()
    assert lake.read("samples", "nobody", coded=True).to_pandas()["metric"].tolist() == []


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda lake: lake.read("sample"), "known tables"),
        (lambda lake: lake.read("samples", columns=["val"]), "no column"),
        (lambda lake: lake.replace("workload_features", "../a", DAY, workload([1])), "cannot be a job"),
        (lambda lake: lake.replace("workload_features", "a", "31.1.2026", workload([1])), "not a day"),
        (lambda lake: lake.replace("samples", "a", DAY, workload([1])), "use put"),
        (lambda lake: lake.replace("workload_features", "a", DAY, workload([1]).drop(columns="ts")), "missing"),
        (lambda lake: lake.replace("workload_features", "a", DAY, workload([1]).assign(extra=1)), "extra"),
        (lambda lake: lake.replace("workload_features", "a", DAY, workload([1]).assign(ts="x")), "workload_features"),
        (lambda lake: lake.put("sources", {"job": "a"}, workload([1])), "partitioned by"),
        (lambda lake: lake.days("sources", "a"), "not partitioned by day"),
        (lambda lake: lake.manifests("samples", "a/../../b"), "cannot be a job"),
    ],
)
def test_what_cannot_be_used_is_named(lake, call, says):
    with pytest.raises(LakeError, match=says):
        call(lake)
    assert not (lake.root / "workload_features").exists()


def test_a_moment_is_no_longer_a_day_than_its_day(lake):
    lake.replace("workload_features", "a", datetime(2026, 1, 31, 12, 30, tzinfo=UTC), workload([1]))
    assert lake.days("workload_features", "a") == [DAY]


def test_a_crash_before_the_manifest_leaves_the_old_partition(lake, monkeypatch):
    lake.replace("workload_features", "a", DAY, workload([1]))

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("perdix.telemetry.lake.write_manifest", crash)
    with pytest.raises(KeyboardInterrupt):
        lake.replace("workload_features", "a", DAY, workload([2]))
    monkeypatch.undo()
    folder = lake.files("workload_features")[0].parent
    assert len(list(folder.glob("*.parquet"))) == 2
    assert rows_of(lake) == [1]
    lake.replace("workload_features", "a", DAY, workload([3]))
    assert [path.name for path in folder.glob("*.parquet")] == list(lake.manifests("workload_features")[0].files)
    assert rows_of(lake) == [3]


def test_a_staging_folder_left_by_a_crash_is_swept_and_a_living_one_is_not(lake):
    left, unborn = lake.root / "_staging" / "left", lake.root / "_staging" / "unborn"
    left.mkdir(parents=True)
    unborn.mkdir()
    (left / ".lock").touch()
    with lake.staging() as living:
        assert not left.exists()
        assert not unborn.exists()
        with lake.staging():
            assert living.exists()
    assert list((lake.root / "_staging").iterdir()) == []


def test_readers_see_the_old_or_the_new_partition_while_it_is_replaced(lake):
    lake.replace("workload_features", "a", DAY, workload([0] * 100))
    seen, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            seen.add(tuple(rows_of(lake, job="a")))

    reader = threading.Thread(target=read)
    reader.start()
    for round_ in range(1, 60):
        lake.replace("workload_features", "a", DAY, workload([round_] * 100))
    stop.set()
    reader.join()
    assert seen
    assert all(len(rows) == 100 and len(set(rows)) == 1 for rows in seen)


def test_writers_of_one_partition_do_not_lose_each_others_files(lake):
    def write(value):
        for _ in range(15):
            lake.replace("workload_features", "a", DAY, workload([value] * 10))

    writers = [threading.Thread(target=write, args=(value,)) for value in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert rows_of(lake) in ([1] * 10, [2] * 10)


def test_many_writers_stage_at_once(lake):
    failed = []

    def write(number):
        try:
            for _ in range(10):
                lake.replace("workload_features", f"job-{number}", DAY, workload([number]))
        except Exception as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed == []
    assert sorted(rows_of(lake)) == list(range(8))


def test_adopted_files_are_moved_and_counted(lake):
    with lake.staging() as staging:
        staged = []
        for part in range(2):
            staged.append(staging / f"{part}.parquet")
            rows = {"ts": [datetime(2026, 1, 31, tzinfo=UTC)], "workload_per_s": [float(part)]}
            pq.write_table(pa.table(rows).cast(TABLES["workload_features"].columns), staged[-1])
        manifest = lake.adopt("workload_features", {"job": "a", "day": DAY}, staged)
    assert manifest.rows == 2
    assert sorted(rows_of(lake)) == [0, 1]


def test_a_dropped_partition_is_gone(lake):
    manifest = lake.replace("workload_features", "a", DAY, workload([1]))
    lake.drop("workload_features", manifest.keys)
    lake.drop("workload_features", manifest.keys)
    assert (rows_of(lake), lake.jobs("workload_features")) == ([], [])


def test_a_job_is_renamed_with_its_folder(lake):
    lake.replace("workload_features", "a", DAY, workload([1, 2]))
    table = lake.root / "workload_features"
    (table / "job=a").rename(table / "job=b")
    assert lake.read("workload_features", "b").column("job").to_pylist() == ["b", "b"]
    assert (rows_of(lake), rows_of(lake, job="a"), lake.jobs("workload_features")) == ([1, 2], [], ["b"])


def test_a_broken_manifest_says_how_to_mend(lake):
    lake.replace("workload_features", "a", DAY, workload([1]))
    path = lake.files("workload_features")[0].parent / "_manifest.json"
    path.write_text("{")
    with pytest.raises(LakeError, match="ingest its source again"):
        lake.read("workload_features")


@pytest.mark.parametrize("content", ['{"tab', "{}", "[]", "3", '{"files": 3}', '{"files": [], "odd": 1}', "\xff"])
def test_a_manifest_of_another_kind_names_its_place_and_the_fix(lake, content):
    lake.replace("workload_features", "a", DAY, workload([1]))
    lake.replace("workload_features", "b", DAY, workload([2]))
    path = lake.files("workload_features", "a")[0].parent / "_manifest.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(LakeError, match="ingest its source again") as caught:
        lake.read("workload_features")
    assert str(path) in str(caught.value)
    assert lake.jobs("workload_features") == ["a", "b"], "jobs are known without what their manifests say"
    assert rows_of(lake, job="b") == [2]


def test_a_broken_data_file_names_its_place_and_the_fix(lake):
    lake.replace("workload_features", "b", DAY, workload([2]))
    lake.replace("workload_features", "a", DAY, workload(range(5_000)))
    (path,) = lake.files("workload_features", "a")
    whole = path.read_bytes()
    for broken in (b"", b"PAR1", whole[:100], whole[:50] + b"\x00" * 200 + whole[250:]):
        path.write_bytes(broken)
        with pytest.raises(LakeError, match="ingest its source again") as caught:
            lake.read("workload_features")
        assert str(path) in str(caught.value)
    assert rows_of(lake, job="b") == [2]


def test_the_manifest_is_readable_by_people(lake):
    lake.replace("workload_features", "a", DAY, workload([1]))
    path = lake.files("workload_features")[0].parent / "_manifest.json"
    assert json.loads(path.read_text())["keys"] == {"job": "a", "day": DAY}


@pytest.mark.parametrize(
    "name", ["cpu_1.csv", "a/b.json", "..", "ünïcode.csv", "x" * 300, "a b", "\udcff.csv", "-", ""]
)
def test_any_name_makes_a_partition_and_different_names_different_ones(name):
    key = source_key(name)
    assert source_key(key) == key
    assert "/" not in key
    assert not key.startswith(".")
    assert key != source_key(name + "x")

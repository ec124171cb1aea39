"""Ingest through real Spark: idempotent, counted, and no file costs another."""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from perdix.settings.home import Home
from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.ingest import ingest, new_files
from perdix.telemetry.lake import Lake, LakeError
from perdix.telemetry.landing import land, landed
from perdix.telemetry.staged_export import stage_part
from perdix.telemetry.tables import WORKLOAD_FEATURES
from tests.telemetry.export_writers import FORMATS, WRITERS, Written, gzipped, openmetrics, query_range

pytestmark = pytest.mark.spark

MIDNIGHT = 1_700_006_400_000  # 2023-11-15T00:00Z


def around_midnight(worker, count=40):
    return Written("cpu_load", {"worker": worker}, tuple((MIDNIGHT + 1000 * (k - 20), k / 7) for k in range(count)))


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path / "lake")


@pytest.fixture
def exports(tmp_path):
    """One file per format (half of them gzipped) beside some that are not exports."""
    folder = tmp_path / "exports"
    folder.mkdir()
    for number, (form, write) in enumerate(WRITERS.items()):
        series = [around_midnight(f"{form}-a"), around_midnight(f"{form}-b"), Written("mine", {}, ((MIDNIGHT, 1.0),))]
        content = write(series)
        (folder / form).write_bytes(gzipped(content) if number % 2 else content)
    (folder / "login.html").write_bytes(b"<html>401</html>")
    (folder / "empty.json").write_bytes(b"")
    (folder / "cut.json.gz").write_bytes(gzipped(query_range([around_midnight("cut", 4000)]))[:-200])
    return folder


def truth(lake, job="job"):
    """Everything that the lake says of a job, in a comparable form."""
    tables = {}
    for name in ("samples", "series", "quarantine", "sources"):
        table = lake.read(name, job)
        tables[name] = sorted(table.to_pylist(), key=str)
    return tables


def check_counts(lake, report):
    """The report, the manifests, the tables and the quarantine tell the same numbers."""
    samples, quarantine = lake.read("samples", report.job), lake.read("quarantine", report.job)
    for file in report.files:
        assert file.read == file.kept + file.masked + file.quarantined
        rows = samples.filter(pc.equal(samples["source"], file.source))
        if not file.stored:
            assert file.read == file.quarantined == sum(file.reasons.values())
            continue
        assert rows.num_rows == file.kept + file.masked
        assert rows["value"].null_count == file.masked == rows.num_rows - rows["mask"].null_count
        mine = quarantine.filter(pc.equal(quarantine["source"], file.source))
        assert (pc.sum(mine["samples"]).as_py() or 0) == file.quarantined == sum(file.reasons.values())
        assert sorted(set(rows["day"].to_pylist())) == list(file.days)
    sources = lake.read("sources", report.job)
    for name in ("read", "kept", "masked", "quarantined", "unmapped"):
        assert pc.sum(sources[name]).as_py() == sum(getattr(file, name) for file in report.files if file.stored)


def test_every_format_is_ingested_and_ingesting_again_changes_nothing(spark, lake, exports):
    report = ingest(spark, lake, [exports], "job")
    check_counts(lake, report)
    formats = {file.file: file.format for file in report.files}
    assert {name: formats[name] for name in FORMATS} == FORMATS
    for file in report.files:
        if file.file in FORMATS:
            assert (file.kept, file.masked, file.quarantined) == (81, 0, 0), file
            assert (file.series, file.unmapped) == (3, 1)
            assert file.days == ("2023-11-14", "2023-11-15")
        else:
            assert file.quarantined == 1
    assert json.loads(json.dumps(report.to_dict()))["totals"]["files"] == len(WRITERS) + 3
    before, files = truth(lake), lake.files("samples")
    again = ingest(spark, lake, [exports], "job")
    assert truth(lake) == before
    assert lake.files("samples") == files
    assert again.totals == report.totals


def test_samples_carry_names_workers_and_masks(spark, lake, tmp_path):
    odd = Written(
        "cpu_load", {"worker": "a"}, ((MIDNIGHT, 0.5), (MIDNIGHT + 1, float("nan")), (MIDNIGHT + 2, float("-inf")))
    )
    (tmp_path / "x.json").write_bytes(query_range([odd]))
    report = ingest(spark, lake, [tmp_path / "x.json"], "job")
    check_counts(lake, report)
    rows = lake.read("samples", "job").to_pylist()
    assert [(row["metric"], row["worker"], row["value"], row["mask"]) for row in rows] == [
        ("cpu_load", "a", 0.5, None),
        ("cpu_load", "a", None, "nan"),
        ("cpu_load", "a", None, "inf"),
    ]
    [series] = lake.read("series", "job").to_pylist()
    assert series["series_id"] == rows[0]["series_id"]
    assert json.loads(series["labels"]) == {"worker": "a"}
    [source] = lake.read("sources", "job").to_pylist()
    assert (source["first_ts"].timestamp(), source["last_ts"].timestamp()) == (MIDNIGHT / 1000, MIDNIGHT / 1000 + 0.002)


def test_a_changed_file_supersedes_what_it_left_before(spark, lake, tmp_path):
    first, other = tmp_path / "x.json", tmp_path / "other.json"
    first.write_bytes(query_range([around_midnight("a")]))
    other.write_bytes(query_range([around_midnight("b")]))
    ingest(spark, lake, [first, other], "job")
    assert lake.days("samples", "job") == ["2023-11-14", "2023-11-15"]
    kept = lake.read("samples", "job", columns=["source"])["source"].to_pylist().count("other.json")
    lake.replace("workload_features", "job", "2023-11-14", WORKLOAD_FEATURES.columns.empty_table())
    first.write_bytes(query_range([Written("cpu_load", {"worker": "a"}, ((MIDNIGHT + 90_000_000, 1.0),))]))
    report = ingest(spark, lake, [first, other], "job")
    check_counts(lake, report)
    files = {file.file: file for file in report.files}
    assert files["x.json"].removed == {"2023-11-14": 20, "2023-11-15": 20}
    assert files["x.json"].removal() == (
        "x.json replaced an earlier file: 40 samples of 2023-11-14 to 2023-11-15 removed"
    )
    assert (files["other.json"].removed, files["other.json"].removal()) == ({}, "")
    assert report.to_observe == ("2023-11-14", "2023-11-15", "2023-11-16"), "of the first two, the other file is left"
    assert lake.jobs("workload_features") == ["job"]
    mine = lake.read("samples", "job").filter(pc.field("source") == "x.json")
    assert mine["day"].to_pylist() == ["2023-11-16"]
    assert lake.read("samples", "job", columns=["source"])["source"].to_pylist().count("other.json") == kept
    other.write_bytes(first.read_bytes())
    report = ingest(spark, lake, [first, other], "job")
    assert report.to_observe == ("2023-11-16",)
    assert lake.jobs("workload_features") == [], "what was derived of a day goes with its last sample"
    ingest(spark, lake, [first, other], "job")
    other.write_bytes(query_range([around_midnight("b")]))
    ingest(spark, lake, [other], "job")
    first.write_bytes(b"<html>")
    report = ingest(spark, lake, [first], "job")
    assert report.totals["quarantined"] == 1
    assert lake.days("samples", "job") == ["2023-11-14", "2023-11-15"]


def test_slices_tell_the_same_truth(spark, tmp_path):
    series = [
        Written("requests_total", {"n": str(n)}, tuple((MIDNIGHT + 1000 * k, k) for k in range(50))) for n in range(30)
    ]
    path = tmp_path / "dump.txt"
    path.write_bytes(b"# TYPE requests counter\n" + openmetrics(series).replace(b"\n", b"\nbad\n", 5))
    whole, sliced = Lake(tmp_path / "whole"), Lake(tmp_path / "sliced")
    one = ingest(spark, whole, [path], "job")
    many = ingest(spark, sliced, [path], "job", slice_bytes=20_000)
    check_counts(sliced, many)
    assert one.totals == many.totals
    columns = ["series_id", "ts", "value"]
    assert sorted(map(str, whole.read("samples", columns=columns).to_pylist())) == sorted(
        map(str, sliced.read("samples", columns=columns).to_pylist())
    )
    assert len(sliced.files("samples")) > 1
    assert truth(sliced)["series"] == truth(whole)["series"]
    assert {row["kind"] for row in truth(whole)["series"]} == {"counter"}


def test_problems_are_reported_and_the_other_files_go_on(spark, lake, tmp_path):
    (tmp_path / "good.json").write_bytes(query_range([around_midnight("a")]))
    report = ingest(spark, lake, [tmp_path / "good.json", tmp_path / "absent.json"], "job")
    check_counts(lake, report)
    by_name = {file.file: file for file in report.files}
    assert by_name["good.json"].kept == 40
    assert by_name["absent.json"].reasons == {"no such file": 1}
    assert not by_name["absent.json"].stored
    before = truth(lake)
    (tmp_path / "good.json").unlink()
    ingest(spark, lake, [tmp_path / "good.json"], "job")
    assert truth(lake) == before


def test_a_file_that_kills_its_worker_costs_only_itself(spark, lake, tmp_path, monkeypatch):
    """Native code that fails takes the Python worker down; then the files are read one by one."""

    def killing(part, *how):
        if part.file == "killer.json":
            os._exit(7)
        return stage_part(part, *how)

    monkeypatch.setattr("perdix.telemetry.spark.source.stage_part", killing)
    for name in ("a.json", "killer.json", "z.json"):
        (tmp_path / name).write_bytes(query_range([around_midnight(name)]))
    report = ingest(spark, lake, [tmp_path / name for name in ("a.json", "killer.json", "z.json")], "job")
    check_counts(lake, report)
    assert [(file.file, file.kept, file.quarantined) for file in report.files] == [
        ("a.json", 40, 0),
        ("killer.json", 0, 1),
        ("z.json", 40, 0),
    ]
    assert "Spark could not read it: SparkException: Python worker exited unexpectedly" in next(
        iter(report.files[1].reasons)
    )
    assert report.files[1].failed
    assert not report.failed


def test_where_tasks_cannot_write_every_file_fails_and_its_reason_says_so(spark, tmp_path):
    """Executors on another host do not see a folder of this one."""

    class Elsewhere(Lake):
        @contextmanager
        def staging(self):
            yield tmp_path / "only" / "here"

    (tmp_path / "a.json").write_bytes(query_range([around_midnight("a")]))
    report = ingest(spark, Elsewhere(tmp_path / "lake"), [tmp_path / "a.json"], "job")
    [reason] = report.files[0].reasons
    assert re.search(r"Spark could not read it: FileNotFoundError: .*only/here", reason)
    assert report.failed


def test_hints_and_limits_reach_the_tasks(spark, lake, tmp_path):
    (tmp_path / "plane.csv").write_text("Time,a\n2023-02-22 11:10:00,0.5\n" + "x" * 3000 + "\n")
    report = ingest(
        spark,
        lake,
        [tmp_path / "plane.csv"],
        "job",
        hint=Hint("cpu_load", "Europe/Berlin"),
        limits=Limits(line_bytes=1000),
    )
    [row] = lake.read("samples", "job").to_pylist()
    assert (row["metric"], row["worker"], row["ts"].isoformat()) == ("cpu_load", "a", "2023-02-22T10:10:00+00:00")
    assert report.totals["quarantined"] == 1
    assert "over the bound" in next(iter(report.files[0].reasons))


def test_a_file_of_which_nothing_is_used_says_so(spark, lake, tmp_path):
    """It was 'unmapped' in a table, and nothing named the fix."""
    lag = [Written("kafka_consumergroup_lag", {"topic": t}, ((MIDNIGHT, 5.0),)) for t in "ab"]
    others = [Written(f"mine_{k}", {}, ((MIDNIGHT, 5.0),)) for k in range(4)]
    for name, series in {"lag": lag, "some": others, "known": [*others, around_midnight("w")]}.items():
        (tmp_path / f"{name}.json").write_bytes(query_range(series))
    report = ingest(spark, lake, sorted(tmp_path.glob("*.json")), "job", hint=Hint())
    none = "none of its series is one that perdix knows, so none is used"
    assert [(Path(file.file).stem, *file.remarks) for file in report.files] == [
        ("known",),
        ("lag", f"{none} (kafka_consumergroup_lag); say what it holds with --metric"),
        ("some", f"{none} (mine_0, mine_1, mine_2 and 1 more); say what it holds with --metric"),
    ]


def test_a_job_that_cannot_name_a_partition_is_refused(spark, lake):
    with pytest.raises(LakeError, match="cannot be a job"):
        ingest(spark, lake, [], "../job")


@pytest.mark.shared
def test_the_measured_runs(spark, lake, shared_data):
    report = ingest(spark, lake, [shared_data / "metrics"], "daedalus")
    check_counts(lake, report)
    assert (report.totals["files"], report.totals["quarantined"], report.totals["unmapped"]) == (20, 0, 0)
    files = {Path(file.file).name: file for file in report.files}
    assert {name: files[name].kept for name in ("cpu_1.csv", "throughput_1.csv", "data_skew_cpu_12.csv")} == {
        "cpu_1.csv": 84,
        "throughput_1.csv": 84,
        "data_skew_cpu_12.csv": 62 * 12,
    }
    skewed = lake.read("samples", "daedalus").filter(pc.field("source") == files["data_skew_cpu_12.csv"].source)
    assert len(set(skewed["worker"].to_pylist())) == 12
    assert set(skewed["metric"].to_pylist()) == {"cpu_load"}
    assert float(np.max(skewed["value"].to_numpy())) <= 1.0


def test_files_of_two_jobs_that_are_ingested_as_one_are_reported(spark, lake, tmp_path):
    for job in ("ads", "enrich"):
        samples = tuple((MIDNIGHT + 15_000 * k, 1.0) for k in range(4))
        series = Written("throughput_per_s", {"worker": "w", "job_name": job}, samples)
        (tmp_path / f"{job}.json").write_bytes(query_range([series]))
    (said,) = ingest(spark, lake, [tmp_path / "ads.json", tmp_path / "enrich.json"], "job").to_dict()["warnings"]
    assert said.startswith("series of 2 jobs were taken as one: job_name is 'ads' and 'enrich' in throughput_per_s;")
    assert ingest(spark, lake, [tmp_path / "ads.json"], "job").warnings == ()


def test_a_landed_file_that_a_later_run_takes_up_is_read_as_the_user_meant_it(spark, lake, tmp_path):
    home = Home(tmp_path / "home").make()
    (tmp_path / "m.json").write_bytes(query_range([Written("", {"worker": "w"}, ((MIDNIGHT, 0.5),))]))
    (tmp_path / "n.json").write_bytes(query_range([Written("", {"worker": "w"}, ((MIDNIGHT, 0.5),))]))
    land(home, [tmp_path / "m.json"], "job", Hint("cpu_load"))
    land(home, [tmp_path / "n.json"], "job")
    ingest(spark, lake, new_files(lake, "job", landed(home, "job")), "job")
    rows = lake.read("samples", "job").to_pylist()
    assert {row["source"]: row["metric"] for row in rows} == {"m.json": "cpu_load", "n.json": "unnamed"}

"""What one task does, without Spark around it."""

from __future__ import annotations

from itertools import pairwise

import pyarrow.parquet as pq
import pytest

from perdix.telemetry import staged_export
from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.ingest import _merged_series
from perdix.telemetry.staged_export import ExportPart, Receipt, stage_part
from perdix.telemetry.tables import SAMPLES
from tests.telemetry.export_writers import Written, openmetrics, query_range

DAY_MS = 86_400_000


@pytest.fixture
def stage(tmp_path, series_map):
    def staged(series):
        path = tmp_path / "export.json"
        path.write_bytes(query_range(series))
        return stage_part(ExportPart(str(path), "export.json", "export.json"), tmp_path, series_map, Hint(), Limits())

    return staged


def every_day(days, worker="a"):
    return Written("cpu_load", {"worker": worker}, tuple((day * DAY_MS + 5, float(day)) for day in range(days)))


def rows(receipt, day):
    return [row for path in receipt.samples[day] for row in pq.read_table(path).to_pylist()]


def test_samples_lie_under_their_days(stage):
    receipt = stage([every_day(3)])
    assert list(receipt.samples) == ["1970-01-01", "1970-01-02", "1970-01-03"]
    assert [rows(receipt, day)[0]["value"] for day in receipt.samples] == [0.0, 1.0, 2.0]
    assert (receipt.first_ms, receipt.last_ms) == (5, 2 * DAY_MS + 5)
    assert pq.read_schema(receipt.samples["1970-01-01"][0]) == SAMPLES.columns
    assert Receipt.from_json(receipt.to_json()) == receipt


def test_order_within_a_day_is_kept_where_days_alternate(stage):
    samples = ((DAY_MS, 1.0), (0, 2.0), (DAY_MS + 1, 3.0), (1, 4.0), (DAY_MS, 5.0))
    receipt = stage([Written("cpu_load", {"worker": "a"}, samples)])
    assert [row["value"] for row in rows(receipt, "1970-01-02")] == [1.0, 3.0, 5.0]
    assert [row["value"] for row in rows(receipt, "1970-01-01")] == [2.0, 4.0]


def test_much_data_is_written_in_several_files(stage, monkeypatch):
    monkeypatch.setattr(staged_export, "_HELD_ROWS", 100)
    series = [Written("m", {"n": str(n)}, tuple((k % 2 * DAY_MS + k, float(k)) for k in range(40))) for n in range(20)]
    receipt = stage(series)
    assert all(len(paths) > 1 for paths in receipt.samples.values())
    assert sum(len(rows(receipt, day)) for day in receipt.samples) == receipt.kept == 800


def test_times_on_absurdly_many_days_are_quarantined(stage, monkeypatch):
    monkeypatch.setattr(staged_export, "_MOST_DAYS", 10)
    receipt = stage([every_day(25), every_day(5, "b")])
    assert len(receipt.samples) == 10
    assert (receipt.kept, receipt.quarantined) == (15, 15)
    assert "times cannot be right" in pq.read_table(receipt.quarantine)["reason"][0].as_py()


def test_repeating_a_task_does_not_meet_its_leftovers(stage):
    first, second = stage([every_day(2)]), stage([every_day(2)])
    assert first.samples.keys() == second.samples.keys()
    assert not {path for paths in first.samples.values() for path in paths} & {
        path for paths in second.samples.values() for path in paths
    }
    assert first.digest == second.digest


def test_a_slice_that_does_not_meet_the_type_of_a_counter_has_it_from_the_others(tmp_path, series_map):
    path = tmp_path / "dump.txt"
    head = b"# TYPE mine counter\n"
    path.write_bytes(head + openmetrics([Written("mine_total", {"pod": pod}, ((DAY_MS, 1.0),)) for pod in "ab"]))
    cuts = [0, len(head) + 5, path.stat().st_size]
    parts = [ExportPart(str(path), "dump.txt", "dump.txt", *cut) for cut in pairwise(cuts)]
    receipts = [stage_part(part, tmp_path, series_map, Hint("throughput_per_s"), Limits()) for part in parts]
    assert [receipt.kept for receipt in receipts] == [1, 1]
    assert set(_merged_series(receipts)["kind"].to_pylist()) == {"counter"}

"""One byte that is not UTF-8 costs the line that it is in, and nothing else of the file."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.mutations import mutations
from perdix.settings.home import Home
from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.landing import land
from perdix.telemetry.queries import SeriesMap
from perdix.telemetry.staged_export import ExportPart, Receipt, stage_part
from tests.telemetry.export_writers import Written, openmetrics, tsdb_dump

START_MS = 1_700_000_000_000
SERIES = [Written("cpu_load", {"worker": "tm-0"}, tuple((START_MS + 1000 * k, k / 100) for k in range(40)))]


@pytest.fixture
def stage(tmp_path: Path, series_map: SeriesMap):
    def staged(content: bytes, name: str = "export.om") -> Receipt:
        path = tmp_path / "export"
        path.write_bytes(content)
        return stage_part(ExportPart(str(path), name, "export"), tmp_path, series_map, Hint(), Limits())

    return staged


def quarantined(receipt: Receipt) -> list[dict]:
    return pq.read_table(receipt.quarantine).to_pylist()


@pytest.mark.parametrize("write", [openmetrics, tsdb_dump])
@pytest.mark.parametrize("field", ["value", "time"])
def test_a_line_whose_number_holds_such_a_byte_goes_to_quarantine_with_its_place(stage, write, field: str) -> None:
    lines = write(SERIES).split(b"\n")
    head, value, at = lines[6].rsplit(b" ", 2)
    lines[6] = b" ".join(
        [head, value + b"\xff", at] if field == "value" else [head, value, at[:-2] + b"\xff" + at[-1:]]
    )
    receipt = stage(b"\n".join(lines))
    (row,) = quarantined(receipt)
    assert (receipt.kept, receipt.quarantined) == (39, 1)
    assert (row["file"], row["line"], row["samples"]) == ("export.om", 7, 1)
    assert row["reason"].startswith(field)
    assert r"\xff" in row["reason"]
    assert r"\xff" in row["excerpt"]


def test_a_file_whose_every_line_is_damaged_is_read_to_its_end(stage) -> None:
    receipt = stage(openmetrics(SERIES).replace(b" 17", b" \xc317"))
    assert (receipt.kept, receipt.quarantined) == (0, 40)


def test_a_label_with_such_a_byte_keeps_its_samples_and_shows_the_byte(stage) -> None:
    receipt = stage(openmetrics(SERIES).replace(b"tm-0", b"tm-\xff"))
    (series,) = pq.read_table(receipt.series).to_pylist()
    assert (receipt.kept, receipt.quarantined) == (40, 0)
    assert json.loads(series["labels"]) == {"worker": r"tm-\xff"}


def test_half_a_utf16_pair_in_a_label_of_parquet_is_shown(tmp_path: Path, stage) -> None:
    columns = {"ts": [START_MS], "metric": ["cpu_load"], "value": [0.5], "labels": [r'{"worker": "tm-\ud800"}']}
    pq.write_table(pa.table(columns), tmp_path / "written")
    receipt = stage((tmp_path / "written").read_bytes())
    (series,) = pq.read_table(receipt.series).to_pylist()
    assert receipt.kept == 1
    assert json.loads(series["labels"]) == {"worker": r"tm-\ud800"}


def test_a_file_whose_name_is_not_utf8_is_read_under_a_name_that_can_be_stored(tmp_path: Path, stage) -> None:
    given = tmp_path / os.fsdecode(b"cpu-\xff.om")
    given.write_bytes(b"cpu_load nonsense 1\n")
    (file,) = land(Home(tmp_path / "home"), [given], "orders")
    receipt = stage(b"cpu_load nonsense 1\n", os.fsdecode(b"cpu-\xff.om"))
    assert (file.name, file.problem) == (r"cpu-\xff.om", "")
    assert [row["file"] for row in quarantined(receipt)] == [file.name]


def test_damage_of_every_kind_to_every_format_gives_no_traceback_and_no_wrong_count(tmp_path: Path) -> None:
    result = mutations(300, 7, tmp_path)
    assert not result.failures
    assert set(result.formats) >= {"query_range", "victoriametrics", "openmetrics", "csv", "parquet", "unknown"}

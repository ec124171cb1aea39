"""Workloads from Prometheus' own JSON: the sum over its series."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from perdix.replay.workload import recorded
from perdix.settings.yaml_files import SettingsError

BEGIN_S, STEP_S = 1_700_000_000, 30


def exported(folder: Path, *series: tuple[dict[str, str], list[float | str | None]], name: str = "w.json") -> Path:
    """Write a query_range answer; ``None`` is a sample that is not there."""
    result = [
        {
            "metric": labels,
            "values": [[BEGIN_S + STEP_S * k, str(value)] for k, value in enumerate(values) if value is not None],
        }
        for labels, values in series
    ]
    path = folder / name
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return path


def test_an_answer_that_may_be_partial_is_noted(tmp_path: Path) -> None:
    """Its sum was taken for the whole load, without a word."""
    path = exported(tmp_path, ({}, [10, 20, 30, 40, 50]))
    path.write_text(json.dumps({**json.loads(path.read_text()), "warnings": ["no store matched"]}))
    remark = "the server warned that its answer may lack series or samples: no store matched; export it again"
    assert recorded(path).notes == ("read from an expression", remark)


def test_the_series_are_summed_and_it_is_said_which(tmp_path: Path) -> None:
    trace = recorded(exported(tmp_path, ({"topic": "a"}, [10, 20, 30]), ({"topic": "b"}, [1, 2, 3])))
    np.testing.assert_allclose(trace.rates, [11, 22, 33])
    np.testing.assert_allclose(trace.times_s, [0, 30, 60])
    assert trace.origin_s == BEGIN_S
    assert trace.notes[0] == "read from an expression, the sum over 2 series: {topic=a}; {topic=b}"


def test_a_series_counts_while_it_is_there_and_a_sample_that_it_misses_is_no_dip(tmp_path: Path) -> None:
    missing = ({"topic": "a"}, [10, None, 30, 40])
    late = ({"topic": "b"}, [None, None, 5, 5])
    trace = recorded(exported(tmp_path, missing, ({"topic": "c"}, [1, 1, 1, 1]), late))
    np.testing.assert_allclose(trace.rates, [11, 21, 36, 46])


def test_series_that_are_looked_at_at_moments_of_their_own_have_one_step(tmp_path: Path) -> None:
    """Three partitions, each exported as it was scraped, every five minutes; one of them ends early."""
    path = tmp_path / "raw.jsonl"
    lines = [
        {
            "metric": {"__name__": "rate", "partition": str(p)},
            "values": [100.0 + k for k in range(rows)],
            "timestamps": [1_000 * (BEGIN_S + 300 * k + 7 * p) for k in range(rows)],
        }
        for p, rows in enumerate((30, 30, 20))
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    trace = recorded(path)
    assert (trace.step_s, trace.length_s, trace.gaps, len(trace.notes)) == (300.0, 9_000.0, None, 1)
    count = np.where(np.arange(30) < 20, 3, 2)
    np.testing.assert_allclose(trace.rates, count * (100.0 + np.arange(30)), rtol=0.001)


def test_it_may_be_gzip_and_samples_without_a_value_are_gaps(tmp_path: Path) -> None:
    plain = exported(tmp_path, ({"__name__": "events:rate1m"}, [10, "NaN", 30, 40, 50]))
    packed = tmp_path / "w2.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    trace = recorded(packed)
    np.testing.assert_allclose(trace.rates, [10, 30, 40, 50])
    assert "1 single missing row: lines across" in trace.notes
    assert trace.notes[0] == "read from events:rate1m"


def test_what_a_series_of_several_lacks_is_noted(tmp_path: Path) -> None:
    """It was taken from a line over hours, and a series of NaN alone was not counted, without a word."""
    holes = ({"topic": "a"}, [10, *["NaN"] * 240, 10])
    trace = recorded(exported(tmp_path, holes, ({"topic": "b"}, [5] * 242), ({"topic": "c"}, ["NaN"] * 242)))
    assert trace.notes[1:] == (
        "482 samples without a number left out, and 1 series that had no other",
        "series that lack samples in between: 1, the longest {topic=a} for 2 h 30 s; they count as by a line",
    )


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ([({"__name__": "in_total"}, [1, 2, 3])], r"in_total is a counter; export its rate: sum\(rate\(in_total\[1m"),
        ([({"__name__": "a"}, [1, 2]), ({"__name__": "b"}, [1, 2])], r"holds 2 metrics \(a, b\); export one"),
        ([({"x": "y"}, [1, -2, 3])], "sample 2: -2 records/s; a rate is not negative"),
        ([({"x": "y"}, [9, 9, 9]), ({"x": "z"}, [1, -2, 3])], "sample 2 of {x=z}: -2 records/s; a rate is"),
        ([({"x": "y"}, [9, "+Inf", 9])], "sample 2: inf records/s; a rate is finite"),
        ([], "no series with a sample"),
    ],
)
def test_what_is_no_workload_is_refused_with_the_fix(
    series: list[tuple[dict[str, str], list[float | str | None]]], words: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        recorded(exported(tmp_path, *series))
    assert "w.json" in str(caught.value)


def test_damage_is_named_by_its_file(tmp_path: Path) -> None:
    path = exported(tmp_path, ({"topic": "a"}, [10, 20, 30]))
    path.write_text(path.read_text()[:-30])
    with pytest.raises(SettingsError, match=r"w\.json.*; export it again$") as caught:
        recorded(path)
    assert str(caught.value).count("export it again") == 1


def test_it_has_times_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="an export of Prometheus has times; leave --step out"):
        recorded(exported(tmp_path, ({"topic": "a"}, [10, 20, 30])), step_s=60.0)


def test_a_recording_rule_of_rates_may_keep_the_name_of_its_counter(tmp_path: Path) -> None:
    name = "code_resource:apiserver_request_total:rate5m"
    assert recorded(exported(tmp_path, ({"__name__": name}, [10, 20, 30, 20]))).peak == 30

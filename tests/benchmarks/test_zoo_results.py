"""The file of results: nothing is lost, nothing is played twice."""

import concurrent.futures
import multiprocessing
from dataclasses import replace
from pathlib import Path

from benchmarks.zoo.results import Key, Results, code_version

KEY = Key(11, 3, 24.0, "daedalus", "abc")


def many(path: Path, job: int) -> None:
    for seed in range(20):
        Results(path).append({**Key(seed, job, 1.0, "daedalus", "abc").row(), "about": "x" * 5_000})


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    results = Results(tmp_path / "deep" / "results.jsonl")
    assert results.read() == {}
    results.append({**KEY.row(), "held": True})
    assert results.read() == {KEY: {**KEY.row(), "held": True}}


def test_a_line_that_was_torn_costs_only_itself(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.append({**KEY.row(), "held": True})
    whole = results.path.read_bytes()
    results.path.write_bytes(whole + b'{"seed":11,"job":4,"hou')
    other = Key(11, 5, 24.0, "daedalus", "abc")
    results.append(other.row())
    assert set(results.read()) == {KEY, other}


def test_processes_may_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with concurrent.futures.ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(many, [path] * 3, range(3)))
    assert len(Results(path).read()) == 60


def test_another_version_of_the_code_is_another_result(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.append(KEY.row())
    assert Key(11, 3, 24.0, "daedalus", code_version()) not in results.read()
    assert len(code_version()) == 12


def test_a_regime_is_another_result_and_rows_from_before_there_were_regimes_count(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    before = {name: value for name, value in KEY.row().items() if name != "regime"}
    results.append(before)
    results.append(replace(KEY, regime="in-place").row())
    assert set(results.read()) == {KEY, replace(KEY, regime="in-place")}

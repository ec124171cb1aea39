"""The file of results: nothing is lost, nothing is played twice."""

import concurrent.futures
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.zoo import results as zoo_results
from benchmarks.zoo.results import Key, Results, code_version

KEY = Key(11, 3, 24.0, "daedalus", "abc", None)


def many(path: Path, job: int) -> None:
    for seed in range(20):
        Results(path).append({**Key(seed, job, 1.0, "daedalus", "abc", None).row(), "about": "x" * 5_000})


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
    other = Key(11, 5, 24.0, "daedalus", "abc", None)
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
    assert Key(11, 3, 24.0, "daedalus", code_version(), None) not in results.read()
    assert len(code_version()) == 12


def test_another_regime_file_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("perdix", "benchmarks"):
        (tmp_path / name).symlink_to(zoo_results.PROJECT / name)
    monkeypatch.setattr(zoo_results, "PROJECT", tmp_path)
    file = tmp_path / "conf/regimes/in-place.yaml"
    file.parent.mkdir(parents=True)
    versions = set()
    for text in ("out: {median_s: 1.0}", "out: {median_s: 2.0}"):
        file.write_text(text)
        versions.add(code_version.__wrapped__())
    assert len(versions) == 2


def test_another_regime_is_another_result(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    in_place = replace(KEY, regime="in-place")
    results.append(in_place.row())
    assert set(results.read()) == {in_place}
    results.append(KEY.row())
    assert set(results.read()) == {KEY, in_place}

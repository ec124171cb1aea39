"""The file of results: nothing is lost, nothing is played twice."""

import fcntl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from benchmarks.zoo import results as zoo_results
from benchmarks.zoo.campaign import Campaign
from benchmarks.zoo.jobs import TRACE, kind_of
from benchmarks.zoo.results import Key, Results, code_version

KEY = Key(11, 3, 24.0, "daedalus", "abc", None)


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


def test_who_appends_waits_until_another_has_ended_its_row(tmp_path: Path) -> None:
    """Threads exclude each other as processes do: each append opens the file, and a lock is of what was opened."""
    path = tmp_path / "results.jsonl"
    with ThreadPoolExecutor(1) as pool, path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        appended = pool.submit(Results(path).append, KEY.row())
        with pytest.raises(TimeoutError):
            appended.result(0.2)
        other.write(orjson.dumps(replace(KEY, job=KEY.job + 1).row()))
        other.flush()
        fcntl.flock(other, fcntl.LOCK_UN)
        appended.result(10)
    assert len(Results(path).read()) == 2


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


def test_all_code_that_a_result_comes_from_makes_its_version() -> None:
    each = "for name, module in sys.modules.items(): print(name, module.__dict__.get('__file__'))"
    program = f"import sys, benchmarks.zoo.playing\n{each}"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    known = {str(path.resolve()) for path in zoo_results._sources()}
    used = [line.split() for line in said.splitlines() if line.startswith(("perdix.", "benchmarks."))]
    unknown = {name for name, file in used if file != "None" and str(Path(file).resolve()) not in known}
    assert unknown == {"benchmarks.zoo", "benchmarks.zoo.results", "benchmarks.measured"}, "which say where things are"


def test_a_result_of_a_real_trace_is_one_of_the_traces_that_there_are(tmp_path: Path) -> None:
    wanted = {}
    for count in (1, 2):
        (tmp_path / "workloads").mkdir(exist_ok=True)
        (tmp_path / f"workloads/{count}.csv").write_text("second,rate\n0,1\n60,2\n")
        wanted[count] = Campaign(11, range(15), ["hpa-80"], 24.0, tmp_path, tmp_path).wanted()
    differ = {key.job for key, before in zip(wanted[2], wanted[1], strict=True) if key != before}
    assert differ == {number for number in range(15) if kind_of(11, number) == TRACE} != set()


def test_a_replay_that_failed_is_played_again_by_the_next_call(tmp_path: Path) -> None:
    """It lacked memory, maybe, beside others."""
    campaign = Campaign(11, [0], ["hpa-80"], 24.0, tmp_path)
    done, failed = campaign.wanted()
    campaign.results.append({**done.row(), "held": True})
    campaign.results.append({**failed.row(), "failed": "MemoryError: "})
    assert campaign.left() == 1
    campaign.results.append({**failed.row(), "held": True})
    assert campaign.left() == 0
    assert [row["held"] for row in campaign.run()] == [True, True]

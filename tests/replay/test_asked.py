"""From a word to a workload: a twin's name, a file, an ingested job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perdix.models.forecasting.contract import Workload
from perdix.replay.asked import Ingested, twin_and_trace
from perdix.settings.yaml_files import SettingsError

MEASURED = Workload(1_700_000_000.0, 60.0, np.array([10.0, 20.0, np.nan, 40.0, 30.0]))


def jobs(*names: str) -> Ingested:
    return Ingested(lambda: names, lambda job: {"ramp": MEASURED, "wordcount": MEASURED}[job])


def test_an_ingested_job_is_a_workload_and_what_was_not_measured_is_a_gap() -> None:
    parameters, trace = twin_and_trace("ramp", None, 3_600, jobs=jobs("ramp"))
    assert (parameters.name, trace.name) == ("wordcount", "ramp")
    np.testing.assert_allclose(trace.rates, [10, 20, 40, 30])
    np.testing.assert_allclose(trace.times_s, [0, 60, 180, 240])
    assert trace.origin_s == 1_700_000_060.0, "a step is known at its end"
    assert trace.notes == ("the workload of the ingested job 'ramp'", "1 single missing row: lines across")


def test_a_twins_name_wins_and_it_is_said_how_to_get_the_job() -> None:
    _, trace = twin_and_trace("wordcount", None, 3_600, jobs=jobs("wordcount"))
    assert trace.endless
    assert "the job's is job:wordcount" in trace.notes[-1]
    _, trace = twin_and_trace("job:wordcount", None, 3_600, jobs=jobs("wordcount"))
    assert trace.notes[0] == "the workload of the ingested job 'wordcount'"


def test_a_file_comes_before_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ramp").write_text("second,rate\n0,1\n60,2\n")
    monkeypatch.chdir(tmp_path)
    _, trace = twin_and_trace("ramp", None, 3_600, folder=None, jobs=jobs("ramp"))
    assert trace.notes == ("read from the column 'rate'",)


@pytest.mark.parametrize(
    ("workload", "step_s", "words"),
    [
        ("rmap", None, "no such file, and no twin of that name; did you mean 'ramp'?"),
        ("job:xyzzy", None, "no such job was ingested; twins: ads, .*; ingested jobs: ramp"),
        ("ramp", 60.0, "--step: the workload of job 'ramp' has times"),
        ("ads", 60.0, "--step: 'ads' is a twin"),
    ],
)
def test_what_is_not_known_or_contradicts_is_one_sentence(workload: str, step_s: float | None, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        twin_and_trace(workload, None, 3_600, jobs=jobs("ramp"), step_s=step_s)


def test_another_restart_regime_is_asked_for_by_name_and_told_in_a_note():
    parameters, trace = twin_and_trace("ads", None, 3_600, regime="in-place")
    assert parameters.restart.rescale_replay_s is not None
    assert parameters.restart.failure == twin_and_trace("ads", None, 3_600)[0].restart.failure
    assert trace.notes[-1] == "rescales cost what they do in the regime 'in-place'"

"""Phoebe's benchmark: recoveries without an end, and none that can be judged."""

from unittest.mock import Mock

import pytest

from benchmarks.phoebe import _recoveries, main, row_of
from perdix.replay.outcome import Latency, Outcome, Recovery
from perdix.replay.side_by_side import Failed


def outcome(*taken_s: float | None) -> Outcome:
    recoveries = tuple(Recovery(0.0, "failure", 4, 4, None, None, true_s) for true_s in taken_s)
    figures = {"average_workers": 4.0, "profiling_worker_s": None, "worker_s": 1.0, "rescales": 0, "unprocessed": 0.0}
    latency = Latency(1.0, 1.0, 1.0, 1.0)
    return Mock(spec=Outcome, recoveries=recoveries, share_above_objective=0.0, latency_ms=latency, **figures)


@pytest.mark.parametrize(
    ("taken_s", "said", "late"),
    [
        ((100.0, 140.0), "120 / 136 / 140", 0),
        ((None, None), "never / never / never", 2),
        ((100.0, None), "never / never / never", 1),
        ((*[100.0] * 19, None), "never / 100 / never", 1),
        ((), "-", 0),
    ],
)
def test_a_failure_that_is_never_recovered_from_takes_longer_than_any_other(taken_s, said: str, late: int):
    row = row_of("ysb", "static-4", [outcome(*taken_s)])
    assert (_recoveries(row), row["late"]) == (said, late)


def test_a_replay_that_failed_is_a_failure_of_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = Mock(played=(), failed=(Failed("static-4", 1, "ValueError: no"),))
    monkeypatch.setattr("benchmarks.phoebe.run_campaign", lambda _: campaign)
    assert main(["--only", "ysb", "--policies", "static-4", "--own-workload", "--json"]) == 1
    assert "FAILED static-4, seed 1: ValueError: no" in capsys.readouterr().err

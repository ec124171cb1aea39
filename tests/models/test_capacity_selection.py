"""Candidates on the same held-out minutes, and the gate."""

import itertools
import json
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from perdix.models.capacity.line import Line
from perdix.models.capacity.regressors import FAMILIES, GradientBoosting, Linear, RandomForest, Ratio, XGBoost
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.capacity.selection import (
    CapacityCandidate,
    Score,
    capacity_score,
    challenge,
    high_cpu_fold,
    left_out_folds,
    minutes_of,
    newest_fold,
    select_capacity,
)

IDLE = 0.09


def features(stays=(4,), per_worker=50_000.0, minutes=90, start="2026-01-01", seed=0, exponent=0.0, idle=IDLE, busy=1):
    """Rows of ``capacity_features`` of a linear job: one stay per entry, each ``minutes`` long."""
    rng = np.random.default_rng(seed)
    parts = []
    for index, n in enumerate(stays):
        begin = pd.Timestamp(start, tz="UTC") + pd.Timedelta(minutes=index * minutes)
        ts = begin + pd.to_timedelta(60 * np.arange(minutes), unit="s")
        used = busy * (0.55 - 0.4 * np.cos(np.arange(minutes) / 14) - IDLE) / (1 - IDLE)
        for worker, share in enumerate(np.linspace(1.0, 0.8, n)):
            cpu = idle + (1 - idle) * used * share + rng.normal(0, 0.004, minutes)
            throughput = per_worker * n**exponent * (cpu - idle) / (1 - idle) + rng.normal(0, 250, minutes)
            rows = {"ts": ts, "worker": f"s{index}w{worker}", "scale_out": n, "cpu_load": cpu}
            parts.append(pd.DataFrame(rows | {"throughput_per_s": np.maximum(throughput, 1.0)}))
    frame = pd.concat(parts, ignore_index=True)
    hottest = frame.groupby("ts")["cpu_load"].transform("max")
    total = frame.groupby("ts")["throughput_per_s"].transform("sum")
    return frame.assign(cpu_share=frame["cpu_load"] / hottest, throughput_share=frame["throughput_per_s"] / total)


@pytest.fixture(scope="module")
def trained():
    return select_capacity(features((2, 4, 8), minutes=60, exponent=-0.15), 12, seed=7)


def test_every_family_is_tried_and_the_extrapolating_one_wins(trained):
    assert {item.family for item in trained.candidates} == {family.family for family in FAMILIES}
    assert all(item.error == "" for item in trained.candidates)
    assert trained.winner == "linear"
    assert trained.best.score == min(item.score for item in trained.candidates)
    for name in ("mae_per_s", "rmse_per_s", "mape", "capacity_mape", "unseen_mape", "fit_s"):
        assert all(getattr(item, name) > 0 for item in trained.candidates), name
    assert all(item.rmse_per_s >= item.mae_per_s for item in trained.candidates)
    assert trained.best.capacity_mape < 0.05


def test_every_candidate_gives_capacities_as_numbers(trained):
    for candidate in trained.candidates:
        assert list(candidate.table) == list(range(1, 13))
        values = list(candidate.table.values())
        assert all(0 < a <= b * (1 + 1e-9) for a, b in itertools.pairwise(values)), candidate.family


@pytest.mark.parametrize("family", [RandomForest, GradientBoosting, XGBoost])
def test_trees_cannot_extrapolate_and_say_so(family):
    frame = features((3,))
    low = frame[frame["cpu_load"].groupby(frame["ts"]).transform("max") < 0.5]
    fitted = family.fit(low, 0)
    assert fitted.predict(frame).max() <= low["throughput_per_s"].max() * 1.05
    assert fitted.capacity(3) < 0.7 * 3 * 50_000
    assert "cannot extrapolate" in family.notes


def test_the_same_seed_gives_the_same_training(trained):
    again = select_capacity(features((2, 4, 8), minutes=60, exponent=-0.15), 12, seed=7)
    for candidate, two in zip(trained.candidates, again.candidates, strict=True):
        assert candidate.table == two.table
        assert candidate.score == two.score


def test_state_is_what_loop_and_registry_need(trained):
    state = json.loads(json.dumps(trained.to_state(), allow_nan=False))
    model = ScaleOuts.from_state(state)
    assert [entry["scale_out"] for entry in state["table"]] == list(range(1, 13))
    for entry in state["table"]:
        assert model.capacity(entry["scale_out"]).per_s == pytest.approx(entry["per_s"])
        assert entry["low_per_s"] <= entry["per_s"] <= entry["high_per_s"]
        assert isinstance(entry["basis"], str)
    assert len(json.dumps(state)) < 50_000


def test_a_tree_that_wins_speaks_only_where_nothing_was_observed():
    frame = features((2, 4, 8))
    trained = select_capacity(frame, 12, families=(RandomForest,))
    assert trained.winner == "random-forest"
    for n in (2, 4, 8):
        assert trained.model.capacity(n).seen
    unseen = trained.model.capacity(6)
    assert not unseen.seen
    assert "learnt by random-forest" in unseen.basis


def test_a_family_that_fails_does_not_stop_the_others():
    class Broken(Ratio):
        family = "broken"

        @classmethod
        def fit(cls, frame, seed):
            raise ValueError("no luck today")

    trained = select_capacity(features(), 6, families=(Broken, Linear))
    assert trained.winner == "linear"
    broken = trained.candidates[0]
    assert (broken.family, broken.error) == ("broken", "no luck today")
    assert math.isinf(broken.score)


def test_a_short_history_still_gets_the_linear_model():
    trained = select_capacity(features(minutes=4), 6)
    assert trained.winner == "linear"
    assert trained.held_out == {}
    estimate = trained.model.capacity(4)
    assert estimate.low_per_s < 4 * 50_000 * 0.9 < estimate.high_per_s


def test_a_job_of_one_worker_that_was_seen_in_one_minute_has_a_capacity():
    """Boosted trees draw none of so few rows, and fail by arithmetic: that stops no other family."""
    trained = select_capacity(features((1,), minutes=1), 4)
    assert trained.winner == "linear"
    assert {item.family: bool(item.error) for item in trained.candidates}["gradient-boosting"]


def test_bad_features_name_the_mend():
    with pytest.raises(ValueError, match="lack cpu_share; build them"):
        select_capacity(features().drop(columns="cpu_share"), 6)
    with pytest.raises(ValueError, match="1 or more"):
        select_capacity(features(), 0)
    with pytest.raises(ValueError, match="no minute has both"):
        select_capacity(features().assign(cpu_load=np.nan), 6)


def test_rows_without_shares_or_scale_out_are_used_all_the_same():
    frame = features().assign(cpu_share=np.nan, throughput_share=np.nan, scale_out=np.nan)
    trained = select_capacity(frame, 6, families=(Linear, GradientBoosting))
    assert trained.model.scale_out == 4
    assert all(item.error == "" for item in trained.candidates)


# -- folds -------------------------------------------------------------------------------------------------------------


def test_the_high_cpu_fold_learns_low_and_is_judged_high():
    frame = features((3, 5))
    fold = high_cpu_fold(frame)
    for n in (3, 5):
        train, test = (part[part["scale_out"] == n] for part in (fold.train, fold.test))
        assert train.groupby("ts")["cpu_load"].max().max() <= test.groupby("ts")["cpu_load"].max().min()
    assert not set(fold.train["ts"]) & set(fold.test["ts"])


def test_neighbours_of_held_out_minutes_are_not_learnt_from():
    frame = features(minutes=60)
    dense = frame.assign(ts=frame["ts"].min() + (frame["ts"] - frame["ts"].min()) / 4)
    fold = high_cpu_fold(dense)
    held = fold.test["ts"].unique()
    gaps = [abs((held - ts).total_seconds()).min() for ts in fold.train["ts"].unique()]
    assert min(gaps) >= 60


def test_left_out_scale_outs_are_never_learnt_from():
    folds = list(left_out_folds(features((2, 4, 6))))
    assert [set(fold.test["scale_out"]) for fold in folds] == [{2}, {4}, {6}]
    for fold in folds:
        assert set(fold.train["scale_out"]).isdisjoint(fold.test["scale_out"])
    assert list(left_out_folds(features((2,)))) == []


def test_the_newest_fold_lies_behind_the_champion():
    frame = features(minutes=100)
    middle = frame["ts"].min().timestamp() + 50 * 60
    fold = newest_fold(frame, middle)
    assert fold.test["ts"].min() > fold.train["ts"].max()
    assert fold.test["ts"].min().timestamp() > middle
    assert newest_fold(frame, frame["ts"].max().timestamp() - 60) is None


def test_the_yardstick_is_exact_for_the_truth():
    frame = features((4,), minutes=60)
    fold = high_cpu_fold(frame)
    truth = 50_000 * np.linspace(1.0, 0.8, 4).sum()
    assert capacity_score(lambda _: truth, fold.test, IDLE).mape < 0.02
    assert capacity_score(lambda _: truth * 1.2, fold.test, IDLE).mape == pytest.approx(0.2, abs=0.02)


def test_minutes_without_a_worker_are_no_truth():
    """One of four workers lacked in 30 % of the minutes, and the truth was called 9 % off."""
    frame = features((4,), minutes=240)
    gaps = (frame["worker"] == "s0w0") & (np.random.default_rng(1).random(len(frame)) < 0.3)
    minutes = minutes_of(frame[~gaps])
    assert len(minutes) == 240 - gaps.sum()
    assert select_capacity(frame[~gaps], 6, families=(Linear,)).best.capacity_mape < 0.02


def test_scores_by_hand():
    score = Score.of(np.array([110.0, 80.0, np.nan]), np.array([100.0, 100.0, 5.0]))
    assert (score.mae_per_s, score.mape) == (15.0, pytest.approx(0.15))
    assert score.rmse_per_s == pytest.approx(math.sqrt(250))
    assert math.isnan(Score.of(np.array([]), np.array([])).mape)


def test_a_training_holds_one_split_of_its_rows_at_a_time():
    """Of a job that ran at 20 scale-outs it held all 20 of them: 15 times the rows."""
    frame = features(tuple(range(1, 13)), minutes=20)
    tracemalloc.start()
    select_capacity(frame, 12, families=(Ratio,))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * frame.memory_usage(deep=True).sum()


# -- gate --------------------------------------------------------------------------------------------------------------


def test_without_a_champion_the_challenger_takes_over():
    frame = features()
    trained = select_capacity(frame, 6, families=(Linear,))
    first = challenge(None, trained, frame)
    assert first.promoted
    assert first.sentence == f"{trained.winner} is the first champion"
    assert challenge(ScaleOuts(), trained, frame).promoted


def test_a_job_that_changed_gets_the_challenger_on_minutes_neither_learnt_from():
    before = features(minutes=120)
    champion = select_capacity(before, 6, families=(Linear,)).model
    after = features(per_worker=35_000.0, minutes=240, start="2026-01-01 03:00")
    both = pd.concat([before, after], ignore_index=True)
    verdict = challenge(champion, select_capacity(both, 6, families=(Linear,)), both)
    assert verdict.promoted
    assert verdict.challenger_error < 0.1 < verdict.champion_error
    assert f"{100 * verdict.challenger_error:.1f} % off on" in verdict.sentence


@pytest.mark.parametrize(("idle", "times"), [(0.02, 1.3), (0.28, 0.7)])
def test_the_gate_goes_by_the_cpu_that_the_job_itself_uses_idle(idle, times):
    """As if it were 9 %, a champion that is 30 % off was kept, and the truth was called 15 to 40 % off."""
    champion = ScaleOuts.from_features(features((2, 4), times * 50_000.0, minutes=60, idle=idle, busy=0.4))
    after = features((2, 4), minutes=60, start="2026-01-03", idle=idle, busy=0.4)
    trained = select_capacity(after, 6, families=(Linear,))
    verdict = challenge(champion, trained, after)
    assert verdict.promoted
    assert verdict.challenger_error < 0.2
    assert verdict.champion_error == pytest.approx(0.3, abs=0.1)
    assert trained.best.score < 0.1


def test_a_worse_challenger_is_kept_out():
    frame = features(minutes=240)
    champion = select_capacity(frame.iloc[: len(frame) // 2], 6, families=(Linear,)).model
    verdict = challenge(champion, select_capacity(frame, 6, families=(Ratio,)), frame)
    assert not verdict.promoted
    assert verdict.challenger_error > verdict.champion_error


def test_without_new_minutes_the_doubt_favours_the_champion():
    frame = features()
    trained = select_capacity(frame, 6, families=(Linear,))
    assert not challenge(trained.model, trained, frame).promoted
    short = features(minutes=4)
    assert "too short" in challenge(trained.model, select_capacity(short, 6, families=(Linear,)), short).sentence


def test_the_gate_judges_scale_outs_beyond_the_bounds_too():
    """A job that no file names has bounds of up to 12: of one of 20 workers, both were "nan % off on 0 minutes"."""
    frame = features()
    trained = select_capacity(frame, 3, families=(Linear,))
    assert set(trained.held_out) == {4}
    verdict = challenge(
        ScaleOuts.from_features(frame.assign(throughput_per_s=2 * frame["throughput_per_s"])), trained, frame
    )
    assert verdict.promoted
    assert verdict.champion_error == pytest.approx(1.0, abs=0.1)


def test_a_training_says_why_a_family_won():
    """It named what the family is, and no error of any; then an error that is none of those beside it."""
    for scale_outs, where in (
        ((4, 6), "at the hottest minutes and at scale-outs left out"),
        ((4,), "at the hottest minutes"),
    ):
        trained = select_capacity(features(scale_outs), 6, families=(Linear, Ratio))
        linear, ratio = (f"{item.score:.1%}" for item in trained.candidates)
        assert trained.sentence == (
            f"linear has the lowest mean error of the capacity {where} (linear: {linear}; ratio: {ratio}): "
            f"{Linear.notes}"
        )
    short = select_capacity(features(minutes=4), 6, families=(Linear, Ratio))
    assert short.sentence.startswith("linear is used, as the history is too short to hold minutes out: one line")


def test_candidates_default_to_unusable():
    assert CapacityCandidate("x", "").score == math.inf


def test_trees_are_asked_for_few_of_thousands_of_workers():
    fitted, asked = XGBoost.fit(features((3, 6)), 0), []
    predict = fitted.estimator.predict
    fitted.estimator.predict = lambda rows: asked.append(len(rows)) or predict(rows)
    table = fitted.table(5_000)
    assert list(table) == list(range(1, 5_001))
    assert sum(asked) < 20_000
    assert max(asked) <= 100
    assert table[100] == pytest.approx(fitted.table(100)[100])
    assert table[4_321] == pytest.approx(fitted.capacity(4_321), rel=0.01)


def test_capacities_need_no_line_of_each_worker(monkeypatch):
    """Of thousands of workers, lines take longer than all else, and each family is fitted half a dozen times."""
    expected = Linear.fit(features((3, 6)), 0).table(8)
    monkeypatch.setattr(Line, "of", None)
    assert Linear.fit(features((3, 6)), 0).table(8) == expected


def test_a_job_of_which_four_of_thousands_of_workers_report_is_trained():
    """Nobody can say what one worker takes: an interval as wide as that is no number that a float holds."""
    found = select_capacity(features((4,)).assign(scale_out=10_000), 12, families=(Linear,)).model.table(12)
    assert all(estimate.usable and math.isfinite(estimate.at(3.0)) for estimate in found.values())

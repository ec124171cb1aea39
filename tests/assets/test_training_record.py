"""Answers of tasks become a publication: promoted rows beside the champion's others, failures in the tables."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from perdix.assets.kept_answers import Kept
from perdix.assets.training.record import Gate, Trained, data_of_table, iterate_trained, publication_of
from perdix.models.registry import FORECAST, Fleet, Publication
from perdix.models.registry.fleet_table import name_of
from perdix.telemetry.lake import Lake


def read_trained(folder: Path, jobs: list[str]) -> list[Trained]:
    return list(iterate_trained(folder, jobs))


def answer(promote: bool = True, state: str | None = '{"order":[1,0,1]}', **metrics: float) -> dict[str, Any]:
    figures = {"wape": 0.1, "beats_naive": True, **metrics}
    naive = {"wape": 0.2, "beats_naive": False}
    return {
        "result": {
            "candidates": [
                {"family": "last-value", "error": "", "metrics": naive},
                {"family": "auto-arima", "error": "", "metrics": figures},
                {"family": "theta", "error": "could not be fitted: too short", "metrics": {}},
            ],
            "winner": "auto-arima",
            "promote": promote,
            "verdict": "auto-arima is better",
            "state": state,
            "rows": 100,
            "data_digest": "ab" * 32,
        },
        "error": None,
        "seconds": 1.0,
        "cpu_s": 0.5,
    }


BROKEN = {"result": {}, "error": "ValueError: nothing to learn from", "trace": "...", "seconds": 0.1, "cpu_s": 0.1}


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "trainings", "run-1")


def published(trained: list[Trained], champion: Fleet | None = None, **more: Any) -> Publication:
    data = partial(data_of_table, lake=Lake("lake"), table="workload_features")
    return publication_of(Gate(FORECAST, "wape", data, **more), trained, champion, started_at_s=0.0, tags={})


def champions(**states: str) -> Fleet:
    return Fleet(pd.DataFrame({"job": list(states), "family": "linear", "state": list(states.values())}))


class TestReading:
    def test_a_kept_answer_is_a_training_and_a_missing_one_says_so(self, kept: Kept) -> None:
        kept.write("orders", answer())
        kept.write("broken", BROKEN)
        orders, broken, never = read_trained(kept.folder, ["orders", "broken", "never"])
        assert (orders.winner, orders.promoted, orders.score("wape"), orders.cpu_s) == (
            "auto-arima",
            True,
            0.1,
            0.5,
        )
        assert (broken.usable, broken.promoted, broken.why) == (False, False, "ValueError: nothing to learn from")
        assert never.error == "has not been trained yet"

    def test_figures_can_be_had_without_the_models(self, kept: Kept) -> None:
        kept.write("orders", answer(state='{"tail": "' + "x" * 10_000 + '"}'))
        (one,) = iterate_trained(kept.folder, ["orders"])
        light = one.without_model()
        assert len(json.dumps(light.result)) < 2_000
        assert light.score("wape") == 0.1


class TestPublication:
    def test_a_family_that_could_not_be_judged_carries_no_figure_of_the_job(self, kept: Kept) -> None:
        item = answer()
        for candidate in item["result"]["candidates"]:
            candidate["metrics"] = {"wape_naive": 0.2, "beats_naive": False, **candidate["metrics"]}
        kept.write("a", item)
        tables = {
            candidate.family: candidate.per_job for candidate in published(read_trained(kept.folder, ["a"])).candidates
        }
        assert tables["auto-arima"]["wape_naive"].tolist() == [0.2]
        assert tables["theta"]["wape_naive"].isna().all()
        assert tables["theta"]["beats_naive"].tolist() == [False]  # first of what all have, so it is plotted

    def test_promoted_jobs_take_their_rows_and_the_others_keep_their_champions(self, kept: Kept) -> None:
        for job, item in (("a", answer()), ("b", answer(promote=False)), ("c", BROKEN)):
            kept.write(job, item)
        made = published(read_trained(kept.folder, ["a", "b", "c"]), champions(a="1", b="2", c="3", d="4"))
        rows = made.fleet.jobs.set_index("job")
        assert list(rows["family"]) == ["auto-arima", "linear", "linear", "linear"]
        assert list(rows["state"]) == ['{"order":[1,0,1]}', "2", "3", "4"]
        assert made.data.rows == 200

    def test_what_challenger_and_champion_were_judged_by_stands_in_the_run_of_the_job(self, kept: Kept) -> None:
        item = answer()
        item["result"]["gate"] = {"gate_error": 0.4, "gate_champion_error": None}
        kept.write("a", item)
        (detail,) = published(read_trained(kept.folder, ["a"])).details
        assert detail.metrics == {"wape": 0.1, "beats_naive": 1.0, "gate_error": 0.4}

    def test_where_nobody_is_promoted_the_challengers_can_be_looked_at(self, kept: Kept) -> None:
        kept.write("a", answer(promote=False))
        made = published(read_trained(kept.folder, ["a"]), champions(a="1", b="2"))
        assert dict(zip(made.fleet.jobs["job"], made.fleet.jobs["family"], strict=True)) == {
            "a": "auto-arima",
            "b": "linear",
        }

    def test_every_family_is_a_candidate_with_the_same_metrics_and_the_score_first(self, kept: Kept) -> None:
        kept.write("a", answer(coverage_p90=0.9))
        kept.write("b", answer())
        kept.write("c", BROKEN)
        made = published(read_trained(kept.folder, ["a", "b", "c"]), parameters={"seed": 7})
        assert [item.family for item in made.candidates] == ["last-value", "auto-arima", "theta"]
        for item in made.candidates:
            assert list(item.per_job.columns)[:2] == ["job", "wape"]
            assert set(item.per_job.columns) == {"job", "wape", "beats_naive", "coverage_p90", "error"}
            assert item.parameters == {"jobs": 3, "seed": 7}
        theta = made.candidates[2].per_job
        assert list(theta["error"]) == ["could not be fitted: too short"] * 2 + ["ValueError: nothing to learn from"]

    def test_shared_models_go_with_the_rows_that_refer_to_them(self, kept: Kept) -> None:
        booster, unused = '{"trees":[1]}', '{"trees":[2]}'
        kept.write("a", answer(state=json.dumps({"shared": name_of(booster)})))
        shared = {name_of(text): text for text in (booster, unused)}
        made = published(read_trained(kept.folder, ["a"]), shared=shared)
        assert made.fleet.shared == {name_of(booster): booster}

    def test_nothing_usable_is_refused_with_the_reasons(self, kept: Kept) -> None:
        kept.write("a", BROKEN)
        with pytest.raises(ValueError, match="a: ValueError: nothing to learn from"):
            published(read_trained(kept.folder, ["a"]))

    def test_a_thousand_jobs_take_seconds(self, kept: Kept) -> None:
        many = answer(**{f"metric_{n}": float(n) for n in range(20)})
        trained = [Trained(f"job-{n}", many["result"], None, 1.0) for n in range(1000)]
        began_s = time.process_time()
        made = published(trained)
        assert time.process_time() - began_s < 10.0
        assert len(made.fleet) == 1000

"""A model that jobs share is fitted once, on a sample, and never to what lies after the origins it is judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import orjson
import pyarrow as pa
import pytest

from perdix.assets import shared_training
from perdix.assets.shared_training import (
    SharedModel,
    SharedStore,
    bound_families,
    fit_all_shared,
    fit_shared,
    known_families,
    sample_of,
    shared_families,
)
from perdix.assets.spark.tasks import Answer, attempt
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import FAMILIES, MEMBERS
from perdix.models.forecasting.member import Member
from perdix.models.forecasting.origins import stops_of
from perdix.models.forecasting.tail import Tail
from perdix.models.registry.fleet_table import name_of
from perdix.telemetry.lake import Lake
from perdix.telemetry.tables import TIMESTAMP
from perdix.telemetry.window import Values

SETTINGS = {"history_days": 14, "horizon_s": 900.0, "seed": 7}
DAY = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FleetMean(Member):
    """Forecasts the mean of all jobs: the simplest model that is shared. Its state tells to what it was fitted."""

    family: ClassVar[str] = "fleet-mean"
    models: ClassVar[Sequence[SharedModel]] = ()

    name: str = ""

    @classmethod
    def fit_shared(cls, histories: Sequence[Workload], *, horizon_s: float, seed: int) -> Mapping[str, Any]:
        if not histories:
            raise ValueError("no history")
        return {"mean": float(np.mean([np.nanmean(history.per_s) for history in histories]))}

    @classmethod
    def sharing(cls, models: Sequence[SharedModel]) -> type[Member]:
        return type("BoundFleetMean", (cls,), {"models": tuple(models)})

    @classmethod
    def fit(cls, history: Workload, *, horizon_s: float = 900.0, seed: int = 0) -> Self:
        known = [model for model in cls.models if model.until_s <= history.end_s]
        if not known:
            raise ValueError("no shared model was fitted to what lies before the end of the history alone")
        return cls(60.0, 60.0, max(known, key=lambda model: model.until_s).name)

    def project(self, tail: Tail, edges_s: Values) -> Values:
        return np.zeros(len(edges_s) - 1)

    def parameters(self) -> dict[str, Any]:
        return {"shared": self.name}

    @classmethod
    def with_parameters(cls, cell_s: float, keep_s: float, parameters: Mapping[str, Any]) -> Self:
        return cls(cell_s, keep_s, parameters["shared"])


@pytest.fixture(autouse=True)
def shared_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "fleet-mean", FleetMean)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three jobs of two days; one has a damaged file, one has no values at all."""
    made = Lake(tmp_path / "lake")
    rng = np.random.default_rng(1)
    for job, level in (("ads", 100.0), ("clicks", 200.0), ("damaged", 1.0), ("silent", np.nan)):
        for number in range(2):
            midnight_s = (DAY + timedelta(days=number)).timestamp()
            ends = ((midnight_s + 10.0 * np.arange(8640)) * 1e6).astype(np.int64)
            rates = level * rng.uniform(0.9, 1.1, 8640)
            rows = pa.table({"ts": pa.array(ends, TIMESTAMP), "workload_per_s": pa.array(rates, from_pandas=True)})
            made.replace("workload_features", job, (DAY + timedelta(days=number)).date(), rows)
    for file in made.files("workload_features", "damaged"):
        file.write_bytes(b"PAR1 and no more")
    return made


@pytest.fixture
def store(tmp_path: Path) -> SharedStore:
    return SharedStore(tmp_path / "shared")


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """Run tasks here instead of on Spark; returns the keys that were run."""
    ran: list[Mapping[str, Any]] = []

    def run(_: object, keys: Sequence[Mapping[str, Any]], task: Any) -> list[Answer]:
        ran.extend(keys)
        return [Answer(key=key, **attempt(key, task)) for key in keys]

    monkeypatch.setattr(shared_training, "run_tasks", run)
    return ran


def key(lake: Lake, *, early: bool, jobs: Sequence[str] = ("ads", "clicks", "damaged", "silent")) -> dict[str, Any]:
    return {"lake": str(lake.root), "family": "fleet-mean", "jobs": list(jobs), "early": early, **SETTINGS}


class TestSample:
    def test_it_does_not_depend_on_the_order_and_hardly_on_jobs_that_come(self) -> None:
        jobs = [f"job-{n}" for n in range(300)]
        drawn = sample_of(jobs, seed=7)
        assert drawn == sample_of(reversed(jobs), seed=7)
        assert len(drawn) == 64
        assert len(set(drawn) & set(sample_of([*jobs, "new"], seed=7))) >= 63
        assert drawn != sample_of(jobs, seed=8)

    def test_a_small_fleet_is_taken_whole(self) -> None:
        assert sample_of(["b", "a"], seed=7) == ["a", "b"]


class TestFitting:
    def test_only_families_that_share_are_fitted_so(self) -> None:
        assert shared_families(["last-value", "fleet-mean", "linear"]) == ["fleet-mean"]

    def test_an_ensemble_stands_for_its_members_and_a_wrong_name_is_told_with_the_nearest(self) -> None:
        assert list(known_families(["linear", "ensemble"])) == ["linear", *(member.family for member in MEMBERS)]
        with pytest.raises(ValueError, match="did you mean 'last-value'"):
            known_families(["lastvalue"])

    def test_a_broken_job_of_the_sample_is_left_out_and_told(self, lake: Lake) -> None:
        answer = fit_shared(key(lake, early=False))
        assert answer["jobs"] == ["ads", "clicks"]
        assert set(answer["skipped"]) == {"damaged", "silent"}
        assert orjson.loads(answer["state"])["mean"] == pytest.approx(150.0, rel=0.01)

    def test_the_one_for_backtests_ends_where_the_first_of_them_begins(self, lake: Lake) -> None:
        early, late = fit_shared(key(lake, early=True)), fit_shared(key(lake, early=False))
        end_s = (DAY + timedelta(days=2)).timestamp() - 10.0
        assert late["until_s"] == end_s
        half = Workload(DAY.timestamp() - 10.0, 10.0, np.ones(17_280))
        assert early["until_s"] == stops_of(half).origins_s[0]

    def test_the_one_for_champions_ends_where_the_first_of_what_is_current_ends(self, lake: Lake) -> None:
        """Live jobs end seconds apart, and none may take a model that knows more than it; a job of old is no reason."""
        day, whole = DAY + timedelta(days=1), lake.read("workload_features", "clicks")
        rows = whole.drop_columns(["job", "day"]).to_pandas()
        lake.replace("workload_features", "clicks", day.date(), rows[rows["ts"] >= day].iloc[:-30])
        lake.replace("workload_features", "gone", DAY.date(), rows[rows["ts"] < day].iloc[:-30])
        late = fit_shared(key(lake, early=False, jobs=["ads", "clicks", "gone"]))
        assert late["until_s"] == (DAY + timedelta(days=2)).timestamp() - 310.0

    def test_what_comes_after_that_changes_nothing(self, lake: Lake) -> None:
        before = fit_shared(key(lake, early=True))
        day = (DAY + timedelta(days=1)).date()
        for job in ("ads", "clicks"):
            rows = lake.read("workload_features", job, days=[day]).drop_columns(["job", "day"]).to_pandas()
            rows.loc[rows.index[len(rows) // 2 :], "workload_per_s"] *= 50.0
            lake.replace("workload_features", job, day, rows)
        after = fit_shared(key(lake, early=True))
        assert (after["state"], after["until_s"]) == (before["state"], before["until_s"])
        assert fit_shared(key(lake, early=False))["state"] != before["state"]

    def test_a_sample_without_a_usable_job_says_so(self, lake: Lake) -> None:
        with pytest.raises(ValueError, match="none of 1 sampled jobs has a history long enough"):
            fit_shared(key(lake, early=True, jobs=["silent"]))


class TestOncePerRun:
    def test_two_models_are_kept_under_the_names_of_their_content(self, lake, store, in_process) -> None:
        fitted = fit_all_shared(lambda: None, lake, ["fleet-mean"], store, SETTINGS)
        assert [row["early"] for row in in_process] == [True, False]
        assert fitted.problems == []
        assert fitted.notes[0].startswith("fleet-mean: one model for all jobs, fitted to 2 of them")
        texts = store.texts(["fleet-mean"])
        assert all(name == name_of(text) for name, text in texts.items())

    def test_they_are_not_fitted_again_for_the_same_days(self, lake, store, in_process) -> None:
        for _ in range(2):
            fit_all_shared(lambda: None, lake, ["fleet-mean"], store, SETTINGS)
        assert len(in_process) == 2
        lake.replace(
            "workload_features",
            "ads",
            (DAY + timedelta(days=2)).date(),
            lake.read("workload_features", "none").drop_columns(["job", "day"]),
        )
        fit_all_shared(lambda: None, lake, ["fleet-mean"], store, SETTINGS)
        assert len(in_process) == 2, "a day without rows is none"
        fit_all_shared(lambda: None, lake, ["fleet-mean"], store, {**SETTINGS, "seed": 8})
        assert len(in_process) == 4

    def test_one_that_cannot_be_fitted_is_told_and_leaves_the_last_in_use(self, lake, store, in_process) -> None:
        fit_all_shared(lambda: None, lake, ["fleet-mean"], store, SETTINGS)
        before = store.texts(["fleet-mean"])
        for job in ("ads", "clicks"):
            for file in lake.files("workload_features", job):
                file.write_bytes(b"PAR1 and no more")
        fitted = fit_all_shared(lambda: None, lake, ["fleet-mean"], store, {**SETTINGS, "seed": 8})
        assert "could not be fitted" in fitted.problems[0]
        assert store.texts(["fleet-mean"]) == before


class TestBinding:
    @pytest.fixture
    def bound(self, lake, store, in_process) -> type[Member]:
        fit_all_shared(lambda: None, lake, ["fleet-mean"], store, SETTINGS)
        families, missing = bound_families(["last-value", "fleet-mean"], str(store.folder))
        assert missing == {}
        assert families["last-value"] is FAMILIES["last-value"]
        return families["fleet-mean"]

    def test_a_history_gets_the_newest_model_that_does_not_know_its_future(self, bound, store) -> None:
        early, late = orjson.loads(store.path("fleet-mean").read_bytes())["models"]
        whole = Workload(DAY.timestamp(), 10.0, np.ones(17_280))
        assert bound.fit(whole).parameters() == {"shared": late["name"]}
        until_walk = whole.part(0, int((early["until_s"] - whole.start_s) / 10.0))
        assert bound.fit(until_walk).parameters() == {"shared": early["name"]}
        with pytest.raises(ValueError, match="no shared model"):
            bound.fit(whole.part(0, 100))

    def test_a_family_whose_model_is_missing_is_left_out_with_the_reason(self, store) -> None:
        families, missing = bound_families(["last-value", "fleet-mean"], str(store.folder))
        assert list(families) == ["last-value"]
        assert "could not be fitted in this run" in missing["fleet-mean"]
        assert bound_families(["fleet-mean"], None) == ({}, missing)

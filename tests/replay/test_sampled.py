"""Replays of policies that choose sizes: they are sampled before the first tick, and what workers cost is told."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import orjson
import pytest

from perdix.replay.case import Case
from perdix.replay.contenders import contender
from perdix.replay.document import result
from perdix.replay.outcome import Played
from perdix.replay.run import fresh_twin, job_of, play
from perdix.replay.training import sampled
from perdix.settings.home import conf_part
from perdix.settings.yaml_files import SettingsError
from perdix.twin.parameters import load_twin


def case(label: str, twin: str = "enrich", hours: float = 0.75) -> Case:
    return Case(contender(label), twin, load_twin(twin), 3, hours, forecaster="damped-trend")


@cache
def played(label: str) -> Played:
    return play(case(label))


def test_what_is_sampled_is_near_what_the_operators_twin_can_do() -> None:
    begun = sampled(case("qescalor"))
    assert begun is not None
    assert list(begun.champions.rows) == ["enrich"]
    assert begun.worker_s > 0
    report = next(
        report for report in played("qescalor").reports if report.decision is not None and report.decision.mix
    )
    assert set(report.running_mix) == {"medium"}, "the size that the twin's file names first"
    assert sampled(case("static-4")) is None, "who chooses no sizes needs no samples"


def test_a_mix_is_played_and_paid_by_its_sizes() -> None:
    ended = played("qescalor")
    sizes = load_twin("enrich").workers.sizes
    mixes = [dict(deployment.mix) for deployment in ended.deployments]
    assert len(mixes) > 1, "it chose other sizes than it began with"
    assert ended.outcome.unprocessed == 0
    end_s = ended.course.times_s[-1] + 1.0  # a last rescale may come after it, while what waits is worked off
    lasts = np.diff(np.minimum([*(deployment.since_s for deployment in ended.deployments), end_s], end_s))
    prices = [sum(count * sizes[size].price_per_h for size, count in mix.items()) for mix in mixes]
    assert ended.outcome.sizes_cost == pytest.approx(float(lasts @ prices) / 3_600.0)
    assert result(ended.outcome, 1.0)["cost"] == ended.outcome.sizes_cost
    assert ended.outcome.profiling_worker_s is not None


def test_one_size_stays_one_size() -> None:
    assert {size for deployment in played("cba:size=large").deployments[1:] for size in deployment.mix} <= {
        "large",
        "medium",
    }
    assert set(played("cba:size=large").deployments[-1].mix) == {"large"}


def test_policies_that_know_no_sizes_get_equal_workers_at_the_price_of_the_first_size() -> None:
    ended = play(case("static-6", hours=0.1))
    first = next(iter(load_twin("enrich").workers.sizes.values()))
    assert ended.outcome.sizes_cost == pytest.approx(6 * first.price_per_h * ended.outcome.hours)
    assert all(not deployment.mix for deployment in ended.deployments)
    assert load_twin("enrich").workers.capacity_per_s == pytest.approx(first.per_s, rel=0.01)


def test_a_twin_without_sizes_is_refused_with_the_mend() -> None:
    with pytest.raises(SettingsError, match=r"workers of twin 'wordcount' have none; give its file workers\.sizes"):
        play(case("qescalor", "wordcount"))


def test_a_size_that_the_twin_does_not_have_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(SettingsError, match="has no size 'smal'; it has medium, small, large, xlarge"):
        play(case("cba-smal"))


def test_every_contender_begins_with_what_carries_the_first_ten_minutes() -> None:
    for label in ("qescalor", "daedalus"):
        asked = case(label)
        twin = fresh_twin(asked, job_of(asked).bounds)
        assert twin.current_capacity() > twin.arrivals(twin.now_s, 600).max()


def test_the_operator_beside_the_twin_is_sampled(tmp_path: Path) -> None:
    for folder, name in (("twins", "enrich"), ("operators", "cmo2")):
        (tmp_path / folder).mkdir()
        text = (conf_part(folder) / f"{name}.yaml").read_text(encoding="utf-8")
        slower = text.replace("cost_us: 100\n", "cost_us: 1000\n")
        (tmp_path / folder / f"{name}.yaml").write_text(slower, encoding="utf-8")
    beside = load_twin("enrich", tmp_path / "twins")
    assert beside.workers.per_s("large") < 0.2 * load_twin("enrich").workers.per_s("large")
    begun = sampled(replace(case("qescalor"), parameters=beside))
    assert begun is not None
    assert "operator_twin" not in beside.workers.model_dump()
    samples = orjson.loads(begun.champions.rows["enrich"].state)["samples"]
    assert max(per_s for _, _, per_s, _ in samples) < 2 * beside.workers.per_s("xlarge")

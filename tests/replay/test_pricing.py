"""Priced replays: the same runs, with what their hosts would have cost, in every way that results are told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from perdix.models.billing.leases import Release
from perdix.models.billing.packing import Resources
from perdix.replay.campaign import Campaign, Setup, run_campaign
from perdix.replay.clairvoyant.bound import Clairvoyant
from perdix.replay.comparison_picture import comparison
from perdix.replay.contenders import contenders
from perdix.replay.document import document, folder_name, write_series
from perdix.replay.outcome import Played
from perdix.replay.pricing import Pricing, demand_of, priced, pricing_named, release_named
from perdix.replay.tracking import comparison_of
from perdix.replay.workload import own
from perdix.settings.prices import PriceList, load_prices
from perdix.settings.stream_job import Bounds, WorkerSize
from perdix.settings.yaml_files import SettingsError
from perdix.twin.job import Deployed
from perdix.twin.parameters import load_twin
from tests.replay.played import START_S, group, played

VISP = Pricing(load_prices("visp-60"))
SIZES = {
    "small": WorkerSize(cpu_cores=1, memory_mb=1024, price_per_h=1),
    "large": WorkerSize(cpu_cores=3, memory_mb=3072, price_per_h=3),
}


def setup(policies: str = "hpa-80,static-12", **changes: Any) -> Setup:
    parameters = load_twin("wordcount")
    made = Setup(contenders(policies), own(parameters, 360), parameters, Bounds(maximum=12), hours=0.1)
    return replace(made, **changes)


def least(seed: int = 1, workers: float = 3.0, seconds: int = 3_600) -> dict[int, Clairvoyant]:
    return {seed: Clairvoyant(workers * seconds, np.full(seconds, workers), ())}


def test_workers_are_packed_and_each_started_unit_is_paid() -> None:
    """Four workers of 2 GB are two of the paper's hosts, at 6 an hour; an hour and a second are two units of each."""
    found = priced([played(workers=4.0, seconds=3_600), played(seed=2, workers=4.0, seconds=3_601)], {}, VISP)
    assert [replay.outcome.bill.cost for replay in found.played if replay.outcome.bill] == [12.0, 24.0]
    assert found.played[0].hosts is not None
    np.testing.assert_allclose(found.played[0].hosts, 2.0)


def test_a_policy_has_one_instance_type_for_all_seeds_the_cheapest_in_sum() -> None:
    pricing = Pricing(load_prices("aws-ec2-us-east-1"))
    one, other = played("a", 1, 1.0), played("a", 2, 12.0)
    apart = [priced([single], {}, pricing).played[0].outcome.bill for single in (one, other)]
    together = [single.outcome.bill for single in priced([one, other], {}, pricing).played]
    assert all(apart)
    assert all(together)
    assert len({single.instance_type for single in together if single}) == 1
    assert sum(single.cost for single in together if single) >= sum(single.cost for single in apart if single)
    for name in pricing.prices.instance_types:
        fixed = priced([one, other], {}, replace(pricing, instance_type=name)).played
        cost = sum(single.outcome.bill.cost for single in fixed if single.outcome.bill)
        assert sum(single.cost for single in together if single) <= cost


def test_kept_to_the_end_of_its_unit_a_host_that_comes_again_is_paid_once() -> None:
    workers = np.repeat([6.0, 3.0, 6.0], 1_200)
    at_once, kept = (
        priced([played(workers=4.0, **{"seconds": 3_600}), _with_workers(workers)], {}, replace(VISP, release=release))
        for release in (Release("at-once"), Release("end-of-unit"))
    )
    assert [
        pricing_played.played[1].outcome.bill.leases
        for pricing_played in (at_once, kept)
        if pricing_played.played[1].outcome.bill
    ] == [3, 2]
    assert at_once.played[1].outcome.bill.cost > kept.played[1].outcome.bill.cost  # type: ignore[union-attr]


def _with_workers(workers: np.ndarray[Any, Any]) -> Played:
    made = played("b", seconds=len(workers))
    return replace(made, course=replace(made.course, workers=workers))


def test_mixes_are_packed_by_their_sizes() -> None:
    """One large and one small fill a host of 4 cores; two large do not share one; equal workers are as they were."""
    pricing = VISP.of_sizes(SIZES)
    deployments = (
        Deployed(int(START_S) - 60, 2, {"large": 1, "small": 1}),
        Deployed(int(START_S) + 1_800, 3, {"large": 2, "small": 1}),
        Deployed(int(START_S) + 2_700, 3, {}),
    )
    one = replace(played(), deployments=deployments)
    demand = demand_of(one, pricing)
    assert demand.starts_s.tolist() == [0, 1_800, 2_700]
    assert demand.hosts(Resources(4, 7168)).tolist() == [1, 2, 1]
    bill = priced([one], least(), pricing).played[0].outcome.bill
    assert bill is not None
    assert bill.host_h_used == pytest.approx(0.5 + 0.5 + 0.25)
    with pytest.raises(SettingsError, match="size 'large' was deployed, but has no cores and memory"):
        demand_of(one, VISP)


def test_what_the_bound_costs_is_told_where_workers_are_equal() -> None:
    found = priced([played()], least(), VISP)
    assert found.clairvoyants[1].cost == 6.0
    assert found.at_least == {1: pytest.approx(6.0)}  # three workers fill a host
    assert priced([played()], least(), VISP.of_sizes(SIZES)).at_least == {}
    half = priced([played()], least(workers=3.0, seconds=1_800), VISP)
    assert (half.clairvoyants[1].cost, half.at_least[1]) == (6.0, pytest.approx(3.0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"instance_type": "dockerhosts"},
            "prices 'visp-60': no instance type 'dockerhosts'; did you mean 'dockerhost'",
        ),
        ({"worker": Resources(8, 1024)}, "fits on no host that has 4 cores and 7,168 MB for workers (cores too small)"),
        ({"sizes": {"huge": Resources(1, 9000)}}, "(memory too small); give workers less, or name larger instances"),
    ],
)
def test_what_cannot_be_priced_is_refused_before_anything_runs(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        replace(VISP, **changes).check()
    assert words in str(caught.value)
    if "sizes" not in changes:
        with pytest.raises(SettingsError):
            setup(pricing=replace(VISP, **changes))


def test_names_of_users_become_a_pricing() -> None:
    found = pricing_named("visp-10", instance_type="cheapest", release="after-600")
    assert found.instance_type is None
    assert found.release == Release("at-once", 600.0)
    assert release_named("end-of-unit") == Release("end-of-unit")
    for text in ("later", "after-", "after--5", "after-x"):
        with pytest.raises(SettingsError, match="there is none; write at-once, end-of-unit, or after-600"):
            release_named(text)
    with pytest.raises(SettingsError, match="did you mean 'visp-"):
        pricing_named("visp-15")
    with pytest.raises(SettingsError, match="no instance type 'm5'"):
        pricing_named("visp-10", instance_type="m5").check()


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return run_campaign(setup(pricing=VISP, seeds=(1, 2)), processes=1)


def test_prices_change_nothing_of_a_run(campaign: Campaign) -> None:
    plain = run_campaign(setup(), processes=1)
    for replay, other in zip(plain.played, campaign.played, strict=False):
        assert replace(replay.outcome, wall_s=0, twin_s=0) == replace(other.outcome, bill=None, wall_s=0, twin_s=0)


def test_the_document_has_bills_and_spreads_them_over_seeds(campaign: Campaign) -> None:
    made = json.loads(json.dumps(document(campaign), allow_nan=False))
    static = [result for result in made["results"] if result["policy"] == "static-12"]
    assert [row["cost"] for row in static] == [24.0, 24.0]  # four hosts of three workers, for the hour that is begun
    assert static[0]["bill"]["utilisation"] == pytest.approx(12 * 360 / (4 * 4 * 3600))
    assert static[0]["bill"]["wasted_cost"] == pytest.approx(24.0 * (1 - 12 * 360 / (4 * 4 * 3600)))
    summary = next(row for row in made["summary"] if row["policy"] == "static-12")
    assert summary["bill"]["host_h_paid"]["mean"] == 4.0
    assert made["pricing"]["prices"] == "visp-60"
    assert made["pricing"]["worker"] == {"cores": 1.0, "memory_mb": 2048.0}
    for plan in made["clairvoyant"]:
        assert plan["cost"] == plan["bill"]["cost"] >= plan["cost_at_least"] > 0
    assert document(run_campaign(setup("static-12"), processes=1))["pricing"] is None


def test_a_job_of_several_sizes_is_priced_by_them() -> None:
    """The twin's workers of 1.2 cores: three fit on the paper's host, four need two."""
    parameters = load_twin("enrich")
    asked = replace(setup("static-4"), parameters=parameters, trace=own(parameters, 360), pricing=VISP)
    found = run_campaign(asked, processes=1)
    bill = found.played[0].outcome.bill
    assert bill is not None
    assert (bill.most_hosts, bill.cost) == (2, 12.0)
    assert bill.utilisation == pytest.approx(4 * 1.2 * 360 / (2 * 4 * 3600))
    pricing = document(found)["pricing"]
    assert pricing["worker"] is None
    assert pricing["sizes"]["small"] == {"cores": 0.6, "memory_mb": 128.0}


def test_another_price_list_is_another_question() -> None:
    visp_10: PriceList = load_prices("visp-10")
    names = {
        folder_name(setup(pricing=pricing))
        for pricing in (None, VISP, Pricing(visp_10), replace(VISP, worker=Resources(2, 2048)))
    }
    assert len(names) == 4


def test_hosts_are_a_column_of_the_series(campaign: Campaign, tmp_path: Path) -> None:
    write_series(campaign.played, tmp_path)
    rows = duckdb.sql(f"SELECT policy, max(hosts) FROM '{tmp_path}/*.parquet' GROUP BY ALL ORDER BY 1").fetchall()
    assert dict(rows)["static-12"] == 4.0


def test_mlflow_has_costs_and_which_hosts(campaign: Campaign) -> None:
    made = comparison_of(campaign, 0.0)
    static = next(item for item in made.compared if item.name == "static-12")
    assert static.metrics["cost"] == 24.0
    assert static.metrics["hosts_most"] == 4.0
    assert static.parameters["instance_type"] == "dockerhost"
    assert made.parameters["prices"] == "visp-60"
    assert "price_per_h" not in made.parameters
    assert "| cost |" in made.note


def test_the_picture_says_costs_beside_the_workers(campaign: Campaign) -> None:
    said = [text.get_text() for text in comparison(group(*campaign.played)).axes[3].texts]
    assert any("12.0 (100%), 24 unit" in line for line in said)

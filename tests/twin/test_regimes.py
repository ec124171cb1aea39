"""What a rescale costs in another restart regime than the twin's own."""

from pathlib import Path

import pytest

from perdix.settings.yaml_files import SettingsError
from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters, load_twin
from perdix.twin.regimes import under
from perdix.twin.workloads import arrivals_from
from tests.control.rig import constant


@pytest.fixture
def ads() -> TwinParameters:
    return load_twin("ads")


def twin_at_a_constant_load(parameters: TwinParameters) -> JobTwin:
    twin = JobTwin(parameters, 1, start_s=0, scale_out=6, arrivals=arrivals_from(constant(100_000.0), 0))
    twin.step(607)  # seven seconds after a checkpoint
    return twin


def test_a_rescale_in_place_stands_still_for_a_moment_and_does_little_again(ads: TwinParameters) -> None:
    papers, in_place = (twin_at_a_constant_load(parameters) for parameters in (ads, under(ads, "in-place")))
    for twin in (papers, in_place):
        twin.rescale(8, "a")
    (long,), (short,) = papers.outages, in_place.outages
    assert long.end_s - long.start_s > 15
    assert short.end_s - short.start_s <= 5
    assert long.replayed == pytest.approx(700_000, rel=0.05)
    assert short.replayed <= 200_000


def test_a_failure_costs_what_it_does_on_the_twins_own_cluster(ads: TwinParameters) -> None:
    papers, in_place = (twin_at_a_constant_load(parameters) for parameters in (ads, under(ads, "in-place")))
    for twin in (papers, in_place):
        twin.fail()
    assert papers.outages == in_place.outages


def test_a_failure_warms_up_as_on_the_twins_own_cluster(ads: TwinParameters) -> None:
    papers, in_place = (twin_at_a_constant_load(parameters) for parameters in (ads, under(ads, "in-place")))
    for twin in (papers, in_place):
        twin.fail()
        twin.step(300)
    for twin in (papers, in_place):
        (outage,) = twin.outages
        assert twin.recovery_time_s(outage) == papers.recovery_time_s(papers.outages[0])
        after = twin.history.column("capacity", outage.end_s)
        assert after[:40] == pytest.approx(papers.history.column("capacity", outage.end_s)[:40])


def test_a_rescale_in_place_has_no_warm_up_after_a_failure_either(ads: TwinParameters) -> None:
    calm = ads.model_copy(update={"workers": ads.workers.model_copy(update={"capacity_noise": 0.0})})
    twin = twin_at_a_constant_load(under(calm, "in-place"))
    twin.fail()
    twin.step(120)
    twin.rescale(8, "a")
    twin.step(60)
    after = twin.history.column("capacity", twin.outages[-1].end_s)
    assert after[0] == after[-1]


def test_a_regime_that_is_not_known_is_refused_with_the_nearest(ads: TwinParameters) -> None:
    with pytest.raises(SettingsError, match=r"there is no regime 'inplace' in .*; did you mean 'in-place'\?"):
        under(ads, "inplace")


def test_a_regime_that_cannot_be_is_told_with_its_place(ads: TwinParameters, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("out: {median_s: -1}\n")
    with pytest.raises(SettingsError, match=r"odd\.yaml"):
        under(ads, "odd", tmp_path)

"""A twin whose workers differ: what a mix can do, and how it is asked for."""

import numpy as np
import pytest

from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters, TwinSize, load_twin
from perdix.twin.workloads import arrivals_from

START_S = 1_700_000_000
SMALL = TwinSize(cpu_cores=0.6, memory_mb=512, price_per_h=0.03, per_s=6_000.0)
LARGE = TwinSize(cpu_cores=2.4, memory_mb=1024, price_per_h=0.11, per_s=18_000.0)


@pytest.fixture
def sized() -> TwinParameters:
    """No skew, no contention, no luck: what is left is what sizes do."""
    found = load_twin("wordcount")
    workers = found.workers.model_copy(
        update={"sizes": {"small": SMALL, "large": LARGE}, "speed_spread": 0.0, "contention": 0.0, "coherency": 0.0}
    )
    return found.model_copy(update={"workers": workers, "keys": found.keys.model_copy(update={"skew_spread": 0.0})})


def a_twin(parameters: TwinParameters, per_s: float = 20_000.0, mix: dict[str, int] | None = None) -> JobTwin:
    mix = {"small": 2, "large": 1} if mix is None else mix
    arrivals = arrivals_from(np.full(3_600, per_s), START_S)
    return JobTwin(parameters, 1, start_s=START_S, scale_out=sum(mix.values()), arrivals=arrivals, mix=mix)


def test_a_mix_can_do_what_its_workers_can_together(sized: TwinParameters) -> None:
    assert a_twin(sized).current_capacity() == pytest.approx(2 * 6_000 + 18_000)


def test_no_worker_of_a_mix_is_busier_than_another(sized: TwinParameters) -> None:
    twin = a_twin(sized)
    twin.step(600)
    cpu = np.nanmean(twin.history.column("worker_cpu")[300:, :3], axis=0)
    records = np.nanmean(twin.history.column("worker_processed")[300:, :3], axis=0)
    assert cpu.max() - cpu.min() < 0.02
    assert sorted(records / records.sum()) == pytest.approx([0.2, 0.2, 0.6], abs=0.01)


def test_other_sizes_of_as_many_workers_stop_the_job_like_any_rescale(sized: TwinParameters) -> None:
    twin = a_twin(sized)
    twin.step(60)
    assert twin.rescale(3, "a", {"small": 1, "large": 2})
    assert (twin.settled, dict(twin.mix), dict(twin.requested_mix)) == (
        False,
        {"small": 2, "large": 1},
        {"small": 1, "large": 2},
    )
    twin.step(120)
    assert (twin.settled, dict(twin.mix)) == (True, {"small": 1, "large": 2})
    assert [(deployment.scale_out, dict(deployment.mix)) for deployment in twin.deployments] == [
        (3, {"small": 2, "large": 1}),
        (3, {"small": 1, "large": 2}),
    ]
    assert [outage.cause for outage in twin.outages] == ["out"], "more can be done, so it is a scale-out"
    assert not twin.rescale(3, "b", {"large": 2, "small": 1, "medium": 0}), "that runs already"


def test_a_key_belongs_to_one_mix(sized: TwinParameters) -> None:
    twin = a_twin(sized)
    twin.rescale(3, "a", {"large": 3})
    assert not twin.rescale(3, "a", {"large": 3})
    with pytest.raises(
        ValueError, match=r"key 'a' was used for 3 workers \(3 large\); use another for 3 workers \(3 s"
    ):
        twin.rescale(3, "a", {"small": 3})


@pytest.mark.parametrize(
    ("mix", "says"),
    [
        ({"huge": 3}, "there is no size 'huge'; known: small, large"),
        ({"small": 2}, "does not sum to 3 workers"),
        ({"small": 4, "large": -1}, "does not sum to 3 workers"),
    ],
)
def test_a_mix_that_cannot_be_is_refused_and_changes_nothing(sized: TwinParameters, mix: dict, says: str) -> None:
    twin = a_twin(sized)
    with pytest.raises(ValueError, match=says):
        twin.rescale(3, "a", mix)
    assert twin.settled
    assert twin.rescale(3, "a", {"large": 3}), "the key was not used up"


def test_workers_without_a_size_are_equal_again(sized: TwinParameters) -> None:
    twin = a_twin(sized)
    twin.rescale(3, "a")
    twin.step(120)
    assert dict(twin.mix) == {}
    assert twin.current_capacity() == pytest.approx(3 * sized.workers.capacity_per_s)

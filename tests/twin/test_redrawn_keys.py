"""Which part of the skew a rescale deals anew, and which belongs to the scale-out and comes back with it."""

from collections.abc import Callable

import numpy as np
import pytest

from perdix.twin.job import JobTwin
from perdix.twin.parameters import TwinParameters

Build = Callable[..., TwinParameters]
SPREAD = 0.15
AT, ELSEWHERE = 5, 3  # scale-outs


def skewed(parameters: Build, redrawn: float, spread: float = SPREAD) -> TwinParameters:
    """Equally fast workers that restart at once: what differs between deployments is how the keys fell."""
    exact = {"median_s": 1.0, "spread": 0.0}
    return parameters(
        keys={"skew_spread": spread, "redrawn": redrawn}, restart={"warm_up_s": 0, "out": exact, "in": exact}
    )


def shares(twin: JobTwin) -> np.ndarray:
    """Each worker's share of what was processed in the last second."""
    processed = twin.history.column("worker_processed")[-1][: twin.scale_out]
    return processed / processed.sum()


def visit(twin: JobTwin, scale_out: int) -> np.ndarray:
    """Go to a scale-out, and see how the keys fell there."""
    twin.rescale(scale_out, f"visit-{twin.now_s}")
    twin.step(5)
    assert (twin.scale_out, twin.settled) == (scale_out, True)
    return shares(twin)


def capacities(twin: JobTwin, visits: int) -> np.ndarray:
    """The true capacity at ``AT`` after each of some visits elsewhere."""
    found = []
    for _ in range(visits):
        visit(twin, ELSEWHERE)
        visit(twin, AT)
        found.append(twin.current_capacity())
    return np.array(found)


def test_what_belongs_to_the_scale_out_comes_back_with_it(parameters: Build) -> None:
    """As Flink deals the same key groups whenever it runs at the same parallelism."""
    twin = JobTwin(skewed(parameters, 0.0), 3)
    here, there = visit(twin, AT), visit(twin, ELSEWHERE)
    np.testing.assert_allclose(visit(twin, AT), here, rtol=1e-12)  # read from what was processed, so rounded
    np.testing.assert_allclose(visit(twin, ELSEWHERE), there, rtol=1e-12)
    assert here.std() > 0.01, "uneven all the same"
    assert twin.true_capacity(ELSEWHERE) == pytest.approx(twin.current_capacity()), "there is nothing left to luck"


def test_what_is_redrawn_does_not(parameters: Build) -> None:
    twin = JobTwin(skewed(parameters, 1.0), 3)
    visits = []
    for _ in range(6):
        visits.append(visit(twin, AT))
        visit(twin, ELSEWHERE)
    assert len({tuple(loads.round(9)) for loads in visits}) == 6


def test_in_between_a_part_comes_back(parameters: Build) -> None:
    """The shares of two visits are alike, as far as the part that stays, and not the same."""
    alike = {}
    for redrawn in (0.0, 0.4, 1.0):
        pairs = []
        for seed in range(60):
            twin = JobTwin(skewed(parameters, redrawn), seed)
            first = np.log(visit(twin, AT))
            visit(twin, ELSEWHERE)
            pairs.append([first - first.mean(), (again := np.log(visit(twin, AT))) - again.mean()])
        first, again = np.array(pairs).transpose(1, 0, 2).reshape(2, -1)
        alike[redrawn] = np.corrcoef(first, again)[0, 1]
    assert alike == {0.0: pytest.approx(1.0), 0.4: pytest.approx(0.6, abs=0.1), 1.0: pytest.approx(0.0, abs=0.15)}


def test_capacity_varies_with_what_is_redrawn_around_what_is_to_be_expected(parameters: Build) -> None:
    scatter = []
    for redrawn in (0.0, 0.1, 0.4, 1.0):
        twin = JobTwin(skewed(parameters, redrawn), 3)
        found = capacities(twin, 120)
        assert found.mean() == pytest.approx(twin.true_capacity(AT), rel=0.02)
        scatter.append(float(np.log(found).std()))
    assert scatter[0] == pytest.approx(0.0, abs=1e-12)
    assert scatter == sorted(scatter)
    assert scatter[2] == pytest.approx(0.63 * scatter[3], rel=0.3), "as the root of the part"


def test_all_of_the_skew_is_as_wide_whatever_part_is_redrawn(parameters: Build) -> None:
    """The parts are parts of one variance: over many jobs the skew at a scale-out does not depend on them."""
    wide = []
    for redrawn in (0.0, 0.4, 1.0):
        logs = np.array([np.log(visit(JobTwin(skewed(parameters, redrawn), seed), AT)) for seed in range(200)])
        wide.append(float((logs - logs.mean(axis=1, keepdims=True)).std(ddof=1)))
    assert wide == pytest.approx([SPREAD * np.sqrt(1 - 1 / AT)] * 3, rel=0.08)


def test_another_job_and_another_scale_out_have_another_part_that_stays(parameters: Build) -> None:
    first, other = (JobTwin(skewed(parameters, 0.0), seed) for seed in (1, 2))
    assert not np.allclose(visit(first, AT), visit(other, AT))
    four, six = visit(first, 4), visit(first, 6)
    assert not np.allclose(four / four[0], six[:4] / six[0])


def test_more_workers_may_have_less_capacity_where_their_part_is_worse(parameters: Build) -> None:
    """True of single jobs, not of jobs on average: that a policy may meet it is why the twin has it."""
    jobs = [JobTwin(skewed(parameters, 0.0), seed) for seed in range(60)]
    known = np.array([[job.true_capacity(n) for n in range(1, 7)] for job in jobs])
    assert (np.diff(known, axis=1) < 0).any()
    assert (np.diff(known.mean(axis=0)) > 0).all()


@pytest.mark.parametrize("redrawn", [-0.1, 1.1, float("nan")])
def test_it_is_a_part(parameters: Build, redrawn: float) -> None:
    with pytest.raises(ValueError, match="redrawn"):
        skewed(parameters, redrawn)

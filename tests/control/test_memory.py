"""Memory vetoes a scale-in where it is measured: what must fit onto fewer workers is kept where it fits."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.control.decide import Avoided, Circumstances, decide
from perdix.control.explain import explain
from perdix.control.explain_text import render
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings
from perdix.targets.contract import Running
from perdix.telemetry.window import Window
from perdix.twin.parameters import Heap
from tests.control.rig import LOW, Rig, applied
from tests.control.test_decide import NOW_S, RUNS, Wanting, WantingSizes, of_sizes, situation


def wanting(wanted: int, used: float | None, current: int = 8, **changes: object):
    runs = Circumstances(Running(current, current, settled=True), memory_ratio=used)
    avoided = changes.pop("avoided", ())
    return decide(Wanting(wanted), situation(scale_out=current, **changes), replace(runs, avoided=avoided)).decision


def test_where_memory_is_not_measured_nothing_changes() -> None:
    assert (wanting(2, None).scale_out, wanting(2, None).reason) == (2, Reason.SCALE_IN)


@pytest.mark.parametrize(("used", "scale_out"), [(0.15, 2), (0.3, 2), (0.5, 4), (0.6, 5), (0.8, 7)])
def test_a_scale_in_stops_at_the_smallest_size_that_the_state_fits_onto(used: float, scale_out: int) -> None:
    """A tenth of a heap is every worker's own; the rest spreads over those that stay."""
    assert 0.1 + (used - 0.1) * 8 / scale_out <= 0.9
    assert scale_out == 2 or 0.1 + (used - 0.1) * 8 / (scale_out - 1) > 0.9
    decision = wanting(2, used)
    assert decision.scale_out == scale_out
    assert decision.reason is Reason.SCALE_IN
    if scale_out > 2:
        assert f"{scale_out} instead of 2 workers: the fullest worker uses {used:.0%} of its heap" in decision.sentence
        assert decision.recovery_s == 10.0 + scale_out


def test_where_it_fits_onto_no_fewer_workers_the_job_stays_as_it_is() -> None:
    decision = wanting(7, 0.85)
    assert (decision.scale_out, decision.reason) == (8, Reason.HOLD_MEMORY)
    assert decision.sentence.startswith(
        "The fullest worker uses 85% of its heap; with 7 workers it would be about 96%, above the limit of 90%."
    )
    assert "Without that, 7 workers" in decision.sentence


def test_a_scale_out_is_never_vetoed() -> None:
    assert wanting(10, 0.99).scale_out == 10


def test_the_limit_is_an_objective_and_may_be_switched_off() -> None:
    assert wanting(2, 0.6, objectives=Objectives(memory_ratio=0.7)).scale_out == 7
    assert wanting(2, 0.99, objectives=Objectives(memory_ratio=None)).scale_out == 2


def test_workers_beyond_the_bounds_are_given_back_all_the_same() -> None:
    assert wanting(4, 0.95, bounds=Bounds(maximum=5)).scale_out == 5


def test_right_after_a_rescale_it_is_not_known_yet_what_a_worker_uses() -> None:
    decision = wanting(7, 0.2, since_rescale_s=90.0)
    assert (decision.scale_out, decision.reason) == (8, Reason.HOLD_MEMORY)
    assert "90 s" in decision.sentence


def test_a_size_that_turned_out_badly_is_passed_over() -> None:
    assert wanting(2, 0.5, avoided=[Avoided(4, NOW_S + 1, "it did not recover")]).scale_out == 5


def test_of_workers_of_several_sizes_the_memory_of_all_counts() -> None:
    fits = Circumstances(Running(4, 4, settled=True, mix=RUNS), memory_ratio=0.2)
    fewer: Mapping[str, int] = {"small": 1}
    assert decide(WantingSizes(dict(fewer)), of_sizes(), fits).decision.scale_out == 1
    held = decide(WantingSizes(dict(fewer)), of_sizes(), replace(fits, memory_ratio=0.8)).decision
    assert (held.reason, held.mix) == (Reason.HOLD_MEMORY, RUNS)


@given(st.floats(0.0, 1.5), st.integers(1, 12), st.integers(1, 12), st.floats(0.05, 1.0))
def test_it_only_ever_keeps_more_of_what_runs(used: float, current: int, wanted: int, limit: float) -> None:
    decision = wanting(wanted, used, current, objectives=Objectives(memory_ratio=limit))
    if wanted >= current:
        assert decision.scale_out == wanted
    else:
        assert wanted <= decision.scale_out <= current


# ---- in the loop ---------------------------------------------------------------------------------


@pytest.fixture
def store() -> Iterator[StateStore]:
    opened = StateStore("sqlite://")
    yield opened
    opened.close()


def with_memory(ratio: float):
    def change(window: Window) -> Window:
        return replace(window, job_metrics={**window.job_metrics, "memory_ratio": np.full(len(window), ratio)})

    return change


@pytest.mark.parametrize("restarting", [False, True])
def test_a_job_that_is_nearly_idle_keeps_the_workers_that_its_state_needs(store: StateStore, restarting: bool) -> None:
    """State of 2.2 heaps: three workers hold it (0.83), two do not (1.2)."""
    rig = Rig.of(store, LOW, scale_out=6, heap=Heap(own=0.1, state=2.2), policy=PolicySettings(name="daedalus"))
    rig.restarting = restarting
    rig.minutes(30)
    assert rig.twin.scale_out == 3, applied(rig)
    assert rig.reports[-1].decision is not None
    assert rig.reports[-1].decision.reason is Reason.HOLD_MEMORY
    explained = render(explain(store, "orders"), verbose=True)
    assert "memory 83%" in explained
    assert "with 1 worker it would be about 230%, above the limit of 90%" in explained


def test_without_it_the_same_job_is_scaled_in_and_what_cannot_be_is_not_believed(store: StateStore) -> None:
    rig = Rig.of(store, LOW, scale_out=6, policy=PolicySettings(name="daedalus"))
    rig.source.change = with_memory(40.0)
    rig.minutes(30)
    assert rig.twin.scale_out < 3
    assert any(report.rejected.get("memory_ratio") for report in rig.reports)

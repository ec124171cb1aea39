"""TWRES: copes with the projected rate, and one more where the latency is too high."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perdix.policies.contract import Decision, Reason, Situation
from perdix.policies.twres import Twres, TwresOptions, highest_rates_per_s
from tests.policies.known_profile import profile_of

Situate = Callable[..., Situation]


def decide(situation: Situation, **options: Any) -> Decision:
    return Twres(TwresOptions(**options)).decide(situation)


def test_the_smallest_that_copes_is_taken_whatever_a_restart_would_need(situate: Situate) -> None:
    decision = decide(situate(load=3_990.0, scale_out=3, profiled=profile_of()))
    assert (decision.scale_out, decision.reason) == (4, Reason.SCALE_OUT)
    assert decision.sentence == "4 workers cope with the projected 3,990/s."
    assert [candidate.rejected_by for candidate in decision.candidates] == [
        "1,000/s do not cope",
        "2,000/s do not cope",
        "3,000/s do not cope",
        None,
    ]


def test_where_none_copes_the_most_is_taken(situate: Situate) -> None:
    decision = decide(situate(load=30_000.0, profiled=profile_of()))
    assert (decision.scale_out, decision.reason) == (12, Reason.SCALE_MAXIMUM)
    assert decision.sentence == "No scale-out copes with the projected 30,000/s; 12 workers are the most."
    slow = decide(situate(load=30_000.0, scale_out=12, latency_p95_ms=9_000.0, profiled=profile_of()))
    assert (slow.reason, slow.sentence) == (decision.reason, decision.sentence), "the most are said once"


def test_a_valid_scale_out_with_a_high_latency_gets_one_more(situate: Situate) -> None:
    decision = decide(situate(load=3_500.0, scale_out=5, latency_p95_ms=2_001.0, profiled=profile_of()))
    assert (decision.scale_out, decision.reason) == (6, Reason.SCALE_OUT)
    assert "the latency of 2,001 ms is above 2,000 ms: one more" in decision.sentence
    assert decide(situate(load=3_500.0, scale_out=5, latency_p95_ms=2_000.0, profiled=profile_of())).scale_out == 4
    most = situate(load=3_500.0, scale_out=12, latency_p95_ms=9_000.0, profiled=profile_of())
    assert (decide(most).scale_out, decide(most).reason) == (12, Reason.SCALE_MAXIMUM)
    assert "above 2,000 ms: one more, but 12 workers are the most." in decide(most).sentence
    above = decide(situate(load=3_500.0, scale_out=20, latency_p95_ms=9_000.0, profiled=profile_of()))
    assert (above.scale_out, above.reason) == (12, Reason.SCALE_MAXIMUM), "into the bounds, and no further while slow"
    alone = situate(load=500.0, scale_out=1, latency_p95_ms=500.0, profiled=profile_of())
    assert decide(alone).sentence == "1 worker copes with the projected 500/s."


@pytest.mark.parametrize("latency_ms", [None, math.nan])
def test_without_the_latency_there_is_no_scaling_in(situate: Situate, latency_ms: float | None) -> None:
    held = decide(situate(load=3_500.0, scale_out=9, latency_p95_ms=latency_ms, profiled=profile_of()))
    assert (held.scale_out, held.reason) == (9, Reason.HOLD_BLIND)
    assert "the latency is not measured" in held.sentence
    assert decide(situate(load=3_500.0, scale_out=3, latency_p95_ms=latency_ms, profiled=profile_of())).scale_out == 4


def test_it_waits_as_phoebe_does(situate: Situate) -> None:
    assert decide(situate(uptime_s=10.0, profiled=profile_of())).reason is Reason.HOLD_GRACE
    first = decide(situate(load=3_500.0, scale_out=4, latency_p95_ms=500.0, profiled=profile_of()))
    held = decide(situate(now_s=situate().now_s + 60.0, load=9_000.0, memory=first.memory, profiled=profile_of()))
    assert "Evaluated 60 s ago" in held.sentence
    assert "not profiled" in decide(situate()).sentence


def test_t_max_is_a_non_negative_regression_on_four_terms_as_its_program_has_it() -> None:
    sizes = np.arange(1, 25)
    truth = 500.0 + 900.0 * sizes + 300.0 / sizes
    found = highest_rates_per_s(profile_of({int(n): float(truth[n - 1]) for n in (2, 5, 8, 12, 20)}), sizes)
    assert found[1:] == pytest.approx(truth[1:], rel=1e-3)
    few = profile_of({2: 2_000.0, 8: 8_000.0})
    assert highest_rates_per_s(few, sizes) == pytest.approx(few.highest.per_s(sizes)), "two points: the profile's line"


def test_what_the_running_job_showed_is_no_point_of_its_profile() -> None:
    """Three minutes of backlog at eight workers let one worker take more than two."""
    profiled, sizes = profile_of({2: 37_048.0, 5: 83_000.0, 8: 129_000.0, 12: 190_000.0}), np.arange(1, 13)
    learned = replace(profiled, highest=profiled.highest.learned(8, 100_000.0).learned(8, 100_000.0))
    assert highest_rates_per_s(learned, sizes) == pytest.approx(highest_rates_per_s(profiled, sizes))

"""Which part of a trace is replayed: the one that is asked for, else the busiest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perdix.replay.part import part_of
from perdix.replay.workload import Trace, own
from perdix.settings.yaml_files import SettingsError
from perdix.twin.parameters import load_twin

DAY_S = 86_400.0


def trace_of_days(days: int = 10, busy_day: int = 6, origin_s: float | None = 1_404_172_800.0) -> Trace:
    """Return half hours with a daily wave, higher on one day; the first day is 2014-07-01."""
    times_s = np.arange(48 * days) * 1_800.0
    rates = 100.0 + 50.0 * np.sin(times_s / DAY_S * 2 * np.pi)
    rates[(times_s // DAY_S) == busy_day] *= 2.0
    return Trace("counts", times_s, rates, days * DAY_S, float(rates.max()), step_s=1_800.0, origin_s=origin_s)


def test_by_default_it_is_the_window_with_the_highest_mean_rate_and_that_is_said() -> None:
    trace, hours = part_of(trace_of_days())
    assert hours == 6.0
    assert trace.begin_s // DAY_S == 6
    assert 3.0 <= trace.begin_s % DAY_S / 3_600.0 <= 3.5, "six hours around the wave's crest at six"
    note = trace.about(6 * 3_600)[-1]
    assert "from 2014-07-07 03:" in note
    assert "of the trace's 10 d the 6 h with the highest mean rate" in note
    assert "--from and --to" in note


@pytest.mark.parametrize("unit", [1e-300, 1e303])
def test_the_busiest_window_is_the_same_in_any_unit(unit: float) -> None:
    trace = trace_of_days()
    same = replace(trace, rates=trace.rates * unit, peak=trace.peak * unit)
    assert part_of(same)[0].begin_s == part_of(trace)[0].begin_s


def test_no_window_of_that_length_is_busier() -> None:
    rng = np.random.default_rng(3)
    times_s = np.arange(500) * 60.0
    trace = Trace("any", times_s, rng.gamma(2.0, 50.0, 500), 500 * 60.0, 500.0)
    chosen, hours = part_of(trace, 1.5)
    span = int(3_600 * hours)
    whole = trace.relative(int(trace.length_s))
    means = [whole[k : k + span].mean() for k in range(0, len(whole) - span + 1, 60)]
    assert chosen.relative(span).mean() == pytest.approx(max(means), rel=1e-3)


def test_a_trace_that_is_no_longer_than_the_replay_is_played_from_its_beginning() -> None:
    short = trace_of_days(days=1)
    trace, hours = part_of(short, 24.0)
    assert trace is short
    assert hours == 24.0
    assert part_of(own(load_twin("ads"), 7_200), 48.0)[0].begin_s == 0.0


@pytest.mark.parametrize(
    ("options", "begin_s", "hours"),
    [
        ({"from_": "2d", "to": "36h"}, None, None),
        ({"from_": "2d", "to": "60h"}, 2 * DAY_S, 12.0),
        ({"from_": "2014-07-03", "to": "2014-07-03T12:00"}, 2 * DAY_S, 12.0),
        ({"from_": "2014-07-03T02:00+02:00", "hours": 3.0}, 2 * DAY_S, 3.0),
        ({"to": "2d", "hours": 6.0}, 2 * DAY_S - 6 * 3_600, 6.0),
        ({"from_": "9d"}, 9 * DAY_S, 24.0),
        ({"to": "1d"}, 0.0, 24.0),
        ({"from_": "0"}, 0.0, 240.0),
    ],
)
def test_from_and_to_are_times_or_offsets(
    options: dict[str, object], begin_s: float | None, hours: float | None
) -> None:
    if begin_s is None:
        with pytest.raises(SettingsError, match="is no part of counts, which goes from 2014-07-01"):
            part_of(trace_of_days(), **options)  # type: ignore[arg-type]
        return
    trace, found = part_of(trace_of_days(), **options)  # type: ignore[arg-type]
    assert (trace.begin_s, found) == (begin_s, hours)
    assert "as asked for" in trace.notes[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"from_": "1d", "to": "2d", "hours": 3.0}, "--hours, --from and --to contradict each other"),
        ({"from_": "soon"}, "--from soon: neither a time such as"),
        ({"to": "11d"}, "is no part of counts"),
        ({"from_": "2013-01-01"}, "is no part of counts"),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(options: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        part_of(trace_of_days(), **options)  # type: ignore[arg-type]


def test_a_trace_without_dates_takes_offsets_only() -> None:
    trace = trace_of_days(origin_s=None)
    with pytest.raises(SettingsError, match="counts has no dates; give an offset"):
        part_of(trace, from_="2014-07-03")
    assert "from 2 d to 2 d 6 h after the first row" in part_of(trace, 6.0, from_="2d")[0].notes[-1]


def test_a_twins_own_pattern_has_no_part() -> None:
    with pytest.raises(SettingsError, match="a pattern without beginning and end; give --hours"):
        part_of(own(load_twin("ads"), 7_200), from_="1h")


def test_another_part_is_another_trace_and_its_peak_is_that_of_the_whole() -> None:
    whole = trace_of_days()
    part, _ = part_of(whole, 6.0, from_="1d")
    assert part.digest != whole.digest
    assert part.peak == whole.peak
    np.testing.assert_allclose(part.relative(3_600), whole.relative(int(DAY_S) + 3_600)[int(DAY_S) :])
    assert replace(part, begin_s=0.0).digest == whole.digest

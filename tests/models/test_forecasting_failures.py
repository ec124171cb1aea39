"""Bad workloads and bad states: plain words, the right type, and a forecast wherever one is possible."""

from __future__ import annotations

import base64
import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdix.models.forecasting.contract import LARGEST_PER_S, Workload
from perdix.models.forecasting.failures import DamagedStateError, NotForecastableError, StateVersionError, checksum
from perdix.models.forecasting.families import ENSEMBLE, DampedTrend, LastValue, Linear
from perdix.models.forecasting.forecaster import STATE_FORMAT, Forecaster, fallback, forecaster_from_state
from perdix.models.forecasting.selection import train_forecasters
from tests.models.every_family import DAY, NAMES, START_S, STEP_S, behind, restored

pytestmark = pytest.mark.usefixtures("light_fits")
QUICK = {family.family: family for family in (LastValue, Linear, DampedTrend)}
HORIZON_S = 12 * STEP_S


def days(count: int = 16, seed: int = 0) -> np.ndarray:
    at = np.arange(count * DAY)
    rng = np.random.default_rng(seed)
    return 20_000 + 8_000 * np.sin(2 * np.pi * at / DAY) + rng.normal(0, 200, len(at))


def with_gaps(rates: np.ndarray, share: float, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(rates)) < share, np.nan, rates)


def replaced(rates: np.ndarray, share: float, value: float, seed: int = 2) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(rates)) < share, value, rates)


def missing_between(rates: np.ndarray, first: int, last: int) -> np.ndarray:
    rates = rates.copy()
    rates[first:last] = np.nan
    return rates


def impossible(rates: np.ndarray) -> np.ndarray:
    for seed, value in enumerate((np.inf, -np.inf, -5e6, 1e300)):
        rates = replaced(rates, 0.03, value, seed)
    return rates


BAD = {
    "zero": np.zeros(16 * DAY),
    "constant": np.full(16 * DAY, 31.0),
    "constant but for one step": np.where(np.arange(16 * DAY) < 14 * DAY, 31.0, 62.0),
    "seasonal with scattered gaps": with_gaps(days(), 0.3),
    "seasonal with a day missing": missing_between(days(), 8 * DAY, 9 * DAY),
    "seasonal with the newest hours missing": missing_between(days(), 16 * DAY - 8, 16 * DAY),
    "infinite, negative and impossible here and there": impossible(days()),
    "exploding": 10.0 * np.exp(np.arange(16 * DAY) / 60),
    "exploding beyond any rate at the end": np.exp(np.arange(16 * DAY) / 44.2),
    "imploding": 1e9 * np.exp(-np.arange(16 * DAY) / 20),
    "as small as a number can be": 5e-324 * np.arange(16 * DAY),
    "a spike at the end": np.where(np.arange(16 * DAY) == 16 * DAY - 1, 1e13, days()),
    "heavy tails": 1000.0 * np.abs(np.random.default_rng(3).standard_cauchy(16 * DAY)),
}
HOPELESS = {
    "empty": np.empty(0),
    "all missing": np.full(16 * DAY, np.nan),
    "all infinite": np.full(16 * DAY, np.inf),
    "all negative": -days(),
    "all beyond any rate": np.full(16 * DAY, 1e300),
}


AT_ONCE = {"auto-arima", "gaussian-process", "log-gaussian-process"}  # whose fits take long, and need no weeks


def at_quarters(rates: np.ndarray) -> Workload:
    return Workload(START_S, STEP_S, rates)


def of_kind(kind: str, name: str) -> np.ndarray:
    """Newer days alone where more teach a family nothing else."""
    return BAD[kind][-9 * DAY :] if name in AT_ONCE else BAD[kind]


def unproven(name: str, workload: Workload) -> Forecaster:
    return Forecaster.unproven(workload, behind(name, HORIZON_S), horizon_s=HORIZON_S)


@pytest.mark.parametrize("kind", list(BAD))
@pytest.mark.parametrize("name", NAMES)
def test_a_bad_workload_is_forecast_or_refused_in_words(name, kind):
    try:
        made = unproven(name, at_quarters(of_kind(kind, name)))
        made = made.update(Workload(made.end_s, STEP_S, BAD[kind][:6]))
        forecast = made.forecast(step_s=STEP_S)
    except NotForecastableError as error:
        assert name in str(error)  # noqa: PT017 -- either outcome is right, and both are checked
        assert name != ENSEMBLE, "somebody among all of them can always say something here"
        return
    for values in (forecast.mean, *forecast.quantiles.values(), *forecast.maxima.values()):
        assert np.isfinite(values).all()
        assert (values >= 0.0).all()
    text = json.dumps(made.to_state(), allow_nan=False)
    assert np.array_equal(restored(json.loads(text), HORIZON_S).forecast(step_s=STEP_S).mean, forecast.mean)


@pytest.mark.parametrize("kind", list(HOPELESS))
@pytest.mark.parametrize("name", NAMES)
def test_a_workload_without_any_rate_is_refused_by_everybody(name, kind):
    with pytest.raises(NotForecastableError, match=r"history|needs"):
        unproven(name, at_quarters(HOPELESS[kind]))


@pytest.mark.parametrize("kind", [*BAD, *HOPELESS])
def test_training_on_it_ends_with_a_winner_or_a_sentence(kind):
    trained = train_forecasters(at_quarters({**BAD, **HOPELESS}[kind]), QUICK, horizon_s=HORIZON_S)
    assert trained.sentence
    assert (trained.champion is None) == (trained.winner is None)
    if kind in HOPELESS:
        assert trained.winner is None
        assert all(candidate.reason for candidate in trained.candidates.values())


def test_what_cannot_be_a_rate_is_missing():
    rates = np.array([1.0, -1.0, np.inf, -np.inf, np.nan, 2 * LARGEST_PER_S, 0.0, -0.0, LARGEST_PER_S])
    plausible = Workload(0.0, 1.0, rates).plausible().per_s
    assert np.isnan(plausible).tolist() == [False, True, True, True, True, True, False, False, False]
    clean = Workload(0.0, 1.0, np.array([1.0, np.nan]))
    assert clean.plausible() is clean


@pytest.mark.parametrize(("start_s", "step_s"), [(0.0, 0.0), (0.0, -1.0), (0.0, np.nan), (np.nan, 1.0), (np.inf, 1.0)])
def test_steps_without_length_or_place_are_refused(start_s, step_s):
    broken = Workload(start_s, step_s, np.ones(600))
    with pytest.raises(NotForecastableError, match="by steps of"):
        train_forecasters(broken, QUICK)
    with pytest.raises(NotForecastableError, match="by steps of"):
        Forecaster.fit(broken, QUICK)
    with pytest.raises(NotForecastableError, match="by steps of"):
        fallback(Workload(0.0, 1.0, np.ones(60))).update(broken)


def test_duplicates_and_late_ones_change_nothing():
    whole = at_quarters(days())
    made = Forecaster.fit(whole, behind(ENSEMBLE, HORIZON_S), horizon_s=HORIZON_S)
    assert made.update(whole) is made
    assert made.update(whole.part(100, 900)) is made
    newer = Workload(whole.end_s, STEP_S, days(17)[16 * DAY :])
    once = made.update(newer)
    assert once.update(newer.part(20, 60)) is once


@pytest.mark.parametrize(("horizon_s", "step_s"), [(1e6, 1.0), (1e12, 10.0), (900.0, 1e-300), (float("inf"), 60.0)])
def test_steps_without_end_are_refused(horizon_s, step_s):
    with pytest.raises(ValueError, match=r"1,000,000 steps of .* ask for fewer"):
        fallback(Workload(0.0, 1.0, np.ones(60))).forecast(horizon_s, step_s)


def test_the_fallback_answers_whenever_something_was_measured():
    for steep in (np.linspace(1.0, 400.0, 60), np.geomspace(1.0, 1e14, 60), np.array([0.0, 1.0]), np.array([3.0])):
        forecast = fallback(Workload(0.0, 1.0, steep)).forecast(900)
        assert np.isfinite(forecast.mean).all()
        assert forecast.mean.max() <= 10 * max(steep.max(), 1.0)
    with pytest.raises(NotForecastableError, match="none with a value"):
        fallback(Workload(0.0, 1.0, np.full(60, np.nan)))


# ---------------------------------------------------------------- states


@pytest.fixture(scope="module")
def states() -> dict[str, dict]:
    whole = at_quarters(days())
    made = {name: unproven(name, whole.part(0, 15 * DAY)) for name in NAMES}
    for end in range(15 * DAY + 12, 16 * DAY, 12):
        made = {name: member.update(whole.part(end - 12, end)) for name, member in made.items()}
    return {name: member.to_state() for name, member in made.items()}


def sealed(state: dict) -> dict:
    """A state whose checksum agrees, so that what lies behind it is tested."""
    body = {name: value for name, value in state.items() if name != "checksum"}
    return {**body, "checksum": checksum(body)}


@pytest.mark.parametrize("name", NAMES)
def test_every_state_that_was_written_is_read(states, name):
    assert forecaster_from_state(json.loads(json.dumps(states[name]))).family == name


@pytest.mark.parametrize("known", [None, 1, STATE_FORMAT + 1, "2", [2]])
def test_another_format_is_told_from_damage(states, known):
    with pytest.raises(StateVersionError, match=f"format {STATE_FORMAT} was expected, not .*; train again"):
        forecaster_from_state({**states["linear"], "format": known})


@pytest.mark.parametrize("state", [None, [], "text", 3, float("nan")])
def test_what_is_no_state_at_all_is_refused(state):
    with pytest.raises(DamagedStateError, match="train again"):
        forecaster_from_state(state)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_missing_is_named(states, name):
    for key in states[name]:
        if key == "format":
            continue
        lacking = {part: value for part, value in states[name].items() if part != key}
        with pytest.raises(DamagedStateError, match="train again"):
            forecaster_from_state(lacking)
        if key not in {"checksum", "family"}:
            with pytest.raises(DamagedStateError, match=f"'{key}' is missing"):
                forecaster_from_state(sealed(lacking))


def changed(state: dict, path: tuple, value: object) -> dict:
    made = copy.deepcopy(state)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return sealed(made)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("members",), [], "do not agree"),
        (("members", 0, "family"), "oracle", "no family of forecasters is called 'oracle'"),
        (("members", 0), None, "train again"),
        (("members", 0, "cell_s"), 77.0, "a tail of 77 s cells is missing"),
        (("members", 0, "parameters"), None, "train again"),
        (("tails",), [], "is missing"),
        (("tails", 0, "per_s"), "abc", "train again"),
        (("tails", 0, "cell_s"), "long", "could not convert"),
        (("record", "leads"), 4, "differ in length|cannot reshape|do not agree"),
        (("record", "members"), 9, "train again"),
        (("record", "packed", "actual"), "!!!", "train again"),
        (("record", "origins_s"), "", "differ in length"),
        (("horizon_s",), None, "train again"),
        (("horizon_s",), float("inf"), "train again"),
        (("horizon_s",), -900.0, "horizon_s is -900.0, not above zero"),
        (("horizon_s",), 86_400.0, "horizon and track record do not agree"),
        (("record", "lead_s"), 0.0, "lead_s is 0.0, not above zero"),
        (("tails", 0, "end_s"), 1e12, "a tail of .* cells holds"),
    ],
)
def test_parts_that_do_not_fit_together_are_damage(states, path, value, why):
    with pytest.raises(DamagedStateError, match=why):
        forecaster_from_state(changed(states[ENSEMBLE], path, value))


def test_a_record_cut_short_is_damage_even_with_a_checksum_that_agrees(states):
    packed = states["linear"]["record"]["packed"]["forecasts"]
    shorter = base64.b64encode(base64.b64decode(packed)[:-6]).decode()
    with pytest.raises(DamagedStateError, match="train again"):
        forecaster_from_state(changed(states["linear"], ("record", "packed", "forecasts"), shorter))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_flipped_bit_goes_unnoticed(states, data):
    text = json.dumps(states[ENSEMBLE]).encode()
    at = data.draw(st.integers(0, len(text) - 1))
    flipped = bytearray(text)
    flipped[at] ^= 1 << data.draw(st.integers(0, 6))
    try:
        state = json.loads(bytes(flipped))
    except ValueError:
        return  # no JSON any more: whoever reads the text says so
    if state == states[ENSEMBLE]:
        return  # white space
    with pytest.raises(DamagedStateError, match="train again"):
        forecaster_from_state(state)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_change_of_a_state_raises_anything_else(states, data):
    """Whatever stands where, even under a checksum that agrees: it is read, or it is damage."""
    state = states[data.draw(st.sampled_from(NAMES))]
    path: list = []
    inner: object = state
    while isinstance(inner, dict | list) and inner and (not path or data.draw(st.booleans())):
        keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
        path.append(data.draw(st.sampled_from(keys)))
        inner = inner[path[-1]]
    value = data.draw(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.just([]), st.just({}))
    )
    made = changed(state, tuple(path), value)
    try:
        restored = forecaster_from_state(made)
    except DamagedStateError as error:
        assert "train again" in str(error)  # noqa: PT017 -- either outcome is right
    else:
        assert restored.members


def test_types_are_values_that_callers_already_catch():
    assert issubclass(StateVersionError, DamagedStateError)
    assert issubclass(DamagedStateError, ValueError)
    assert issubclass(NotForecastableError, ValueError)
    with pytest.raises(NotForecastableError, match="no family was given"):
        Forecaster.unproven(Workload(0.0, 1.0, np.ones(60)), {})

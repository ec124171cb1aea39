"""How often drift asks for a retrain: on loads that stay as they are, and after a change of regime.

A champion is fitted once and forecasts 15 minutes, every minute, for up to three days; nothing is ever retrained, so
what is counted is the worst case. Told are the requests of the first minute's rule (the paper's), those of the whole
horizon's, and how long after the change the first one came. Run ``python -m benchmarks.drift [--only NAME ...]``;
the measured traces take part when the data lies beside the project.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from benchmarks.harness import Row, markdown
from benchmarks.measured import DATA, published
from perdix.control.state.journal import Journal
from perdix.control.state.store import StateStore
from perdix.models.drift import DriftState
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.families import families_named
from perdix.models.forecasting.forecaster import Forecaster
from perdix.models.horizon_drift import usual_share
from perdix.models.realised import Missed
from perdix.telemetry.window import Values
from perdix.twin.workloads import read_trace

STEP_S, MINUTE, LEADS = 10.0, 6, 15
HOUR = 60 * MINUTE
DAY_MINUTES = 1_440
LEVEL_PER_S = 10_000.0
CHAMPIONS = ("ensemble", "auto-arima", "damped-trend")


@dataclass(frozen=True)
class Load:
    """A workload in steps of 10 s; ``changes`` is the step at which its regime does, ``None`` when it never does."""

    per_s: Values
    fitted: int
    changes: int | None = None


def loads() -> dict[str, Load]:
    rng = np.random.default_rng(5)
    half_day, day = 12 * HOUR, 24 * HOUR
    three_days = 3 * day

    def wander(steps: int, correlated_s: float) -> Values:
        """Autoregressive, mean 0 and deviation 1."""
        kept = np.exp(-STEP_S / correlated_s) if correlated_s else 0.0
        return np.asarray(lfilter([1.0], [1.0, -kept], rng.standard_normal(steps) * np.sqrt(1.0 - kept**2)))

    def noise(steps: int, correlated_s: float, deviation: float) -> Values:
        return np.asarray(np.maximum(1.0 + deviation * wander(steps, correlated_s), 0.0))

    def sine(steps: int, period_s: float) -> Values:
        wave = 1.0 + 0.6 * np.sin(2 * np.pi * STEP_S * np.arange(steps) / period_s)
        return np.asarray(LEVEL_PER_S * wave * noise(steps, 0.0, 0.03))

    def staying(relative: Values) -> Load:
        return Load(LEVEL_PER_S * relative, 4 * HOUR)

    def changing(before: Values, after: Values) -> Load:
        return Load(np.concatenate([before, after]), len(before) - HOUR, len(before))

    wild = np.where(np.arange(three_days) % day < half_day, 0.05, 0.35)
    found = {
        "white noise, 20 %": staying(noise(three_days, 0.0, 0.2)),
        "white noise, 60 %": staying(noise(three_days, 0.0, 0.6)),
        "noise of minutes, 20 %": staying(noise(three_days, 300.0, 0.2)),
        "noise of minutes, 40 %": staying(noise(three_days, 300.0, 0.4)),
        "noise of an hour, 30 %": staying(noise(three_days, 3_600.0, 0.3)),
        "random walk": staying(np.exp(0.01 * np.cumsum(rng.standard_normal(three_days)))),
        "days, with noise": Load(sine(three_days, 86_400.0) * noise(three_days, 300.0, 0.25), 4 * HOUR),
        "calm nights, wild days": staying(np.maximum(1.0 + wild * wander(three_days, 300.0), 0.0)),
        "bursts": staying(0.5 + 2.0 * (wander(three_days, 600.0) > 1.0) * noise(three_days, 0.0, 0.1)),
        "another period": changing(sine(half_day, 7_200.0), sine(day, 1_200.0)),
        "five times the level": changing(sine(half_day, 7_200.0), 5.0 * sine(day, 7_200.0)),
        "six times the noise": changing(
            LEVEL_PER_S * noise(half_day, 300.0, 0.05), LEVEL_PER_S * noise(day, 300.0, 0.3)
        ),
    }
    if DATA.exists():
        traffic, wave, adverts = (_in_steps(published(name)) for name in ("traffic", "sine", "advertising"))
        eighteen_h = _in_steps(read_trace(DATA / "workloads/demeter_ADS_3D_1S_4_sub_30K_max.csv"))
        found["traffic, repeated"] = Load(np.tile(traffic, 12) * noise(three_days, 30.0, 0.03), 4 * HOUR)
        found["advertising of 18 hours"] = Load(eighteen_h, 4 * HOUR)
        found["sine, then traffic"] = changing(np.tile(wave, 2), np.tile(traffic, 4))
        found["advertising, then traffic"] = changing(np.tile(adverts, 2) / 5.0, np.tile(traffic, 4))
    return found


def _in_steps(per_s: Values) -> Values:
    return np.asarray(per_s[: len(per_s) // 10 * 10].reshape(-1, 10).mean(axis=1))


def requests(champion: Forecaster, live: Values) -> tuple[list[tuple[int, bool]], float]:
    """Return at which minutes a retrain is asked for, and whether by the horizon's rule; and the share of fallback."""
    state = DriftState.untried().promoted(usual_share(champion.record))
    minutes = live[: len(live) // MINUTE * MINUTE].reshape(-1, MINUTE).mean(axis=1)
    journal = StateStore("sqlite://").journal
    said: list[Values] = []
    asked: list[tuple[int, bool]] = []
    fallbacks = 0
    for minute, arrived in enumerate(minutes):
        seen = Workload(champion.end_s, STEP_S, live[minute * MINUTE : (minute + 1) * MINUTE])
        champion = champion.update(seen)
        said.append(champion.record.combined[-1])
        error = abs(said[-2][0] - arrived) / max(arrived, 1e-9) if minute else None
        origin, horizon = minute - LEADS, []
        if origin >= 0:
            actual = minutes[origin + 1 : minute + 1]
            by_forecast, by_last = (np.abs(actual - guess).sum() for guess in (said[origin], minutes[origin]))
            horizon = [Missed(60.0 * (origin + 1), float(by_forecast), float(by_last), float(actual.sum()))]
        state = state.observe(error, horizon, origin_s=60.0 * minute)
        fallbacks += state.use_fallback
        if state.retrain_due and _allowed(journal, 60.0 * minute):
            asked.append((minute, "horizon" in state.sentence))
    return asked, fallbacks / len(minutes)


def _allowed(journal: Journal, now_s: float) -> bool:
    """Whether the loop's journal takes a request, which is answered at once."""
    key = journal.request_retrain("job", now_s, "drift")
    if key is not None:
        journal.close_retrain(key, now_s)
    return key is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+")
    only = parser.parse_args().only
    chosen = {name: load for name, load in loads().items() if not only or name in only}
    markdown(_row(name, load, champion) for name, load in chosen.items() for champion in CHAMPIONS)


def _row(name: str, load: Load, called: str) -> Row:
    champion = Forecaster.fit(Workload(0.0, STEP_S, load.per_s[: load.fitted]), families_named(called))
    live = load.per_s[load.fitted :]
    asked, fallback = requests(champion, live)
    days = len(live) / MINUTE / DAY_MINUTES
    changed = None if load.changes is None else (load.changes - load.fitted) // MINUTE
    after = [minute - changed for minute, _ in asked if minute >= changed] if changed is not None else []
    return {
        "load": name,
        "champion": called,
        "requests a day": f"{len(asked) / days:.1f}",
        "by the horizon": f"{sum(by_horizon for _, by_horizon in asked) / days:.1f}",
        "minutes from the change": None if changed is None else str(after[0]) if after else "never",
        "on the fallback": f"{fallback:.0%}",
    }


if __name__ == "__main__":
    main()

"""Replays on leased hosts: who takes part, one replay (look, decide, carry out, add up), and many side by side."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from pydantic import ValidationError

from perdix.models.forecasting.contract import Forecast, Workload
from perdix.models.forecasting.forecaster import Forecaster, fitted
from perdix.policies.asking import answer_of
from perdix.policies.hosts.build import HOSTS_POLICIES, build_hosts_policy
from perdix.policies.hosts.contract import HostsDecision, HostsPolicy, HostsSituation, Step
from perdix.replay.case import require_few_failures, require_known_family
from perdix.replay.contenders import TICK
from perdix.replay.hosts.outcome import (
    HostsOutcome,
    HostsPlayed,
    bill,
    counted,
    delayed_items,
    leases_of,
    time_to_adapt_s,
)
from perdix.replay.hosts.situation import Carried, carry_out, situation_of
from perdix.replay.labels import HOSTS_FORECASTER, split_label, split_labels, whole
from perdix.replay.side_by_side import Ended, OnProgress, Tell, play_all
from perdix.settings.prices import Billing
from perdix.settings.yaml_files import SettingsError
from perdix.telemetry.window import Values
from perdix.twin.hosts.parameters import Topology
from perdix.twin.hosts.system import HostsTwin, Measured

UNIT = "unit_min"
MOST_UNIT_MIN = 31 * 24 * 60  # as of a price list


@dataclass(frozen=True)
class HostsContender:
    """A policy as it takes part."""

    label: str  # as the user wrote it; unique within a campaign
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    # Billing time unit in minutes; ``None``: the longest of the topology's is what the policy knows, and what it did is
    # billed by each of them, as the paper does with its baseline
    unit_min: int | None = None
    interval_s: int | None = None  # seconds between its looks; ``None``: as the topology's file says

    def build(self) -> HostsPolicy:
        """Return the policy."""
        return build_hosts_policy(self.policy, dict(self.options))


@dataclass(frozen=True)
class HostsCase:
    """One policy on one topology, with one pattern and one seed. Picklable: it may be played in another process."""

    contender: HostsContender
    topology: Topology
    pattern: str
    seed: int
    seconds: int  # length
    failures: int = 0  # hosts that die on the way, at times that depend on the seed only
    forecaster: str | None = HOSTS_FORECASTER  # family of the forecast of arrivals, or ``None`` for none

    @property
    def interval_s(self) -> int:
        """Seconds between looks."""
        return self.contender.interval_s or self.topology.measuring.look_every_s

    @property
    def unit_s(self) -> int:
        """Billing time unit that the policy knows, seconds."""
        return 60 * (self.contender.unit_min or max(self.topology.costs.units_min))

    @property
    def billed_min(self) -> tuple[int, ...]:
        """Billing time units that it is billed by, minutes."""
        one = self.contender.unit_min
        return tuple(self.topology.costs.units_min) if one is None else (one,)


def hosts_contenders(text: str) -> tuple[HostsContender, ...]:
    """Return the contenders of a comma-separated list, for example ``btu:unit_min=10,threshold``.

    Options of a policy follow colons, ``unit_min`` and ``tick_s`` among them.

    Raises ``SettingsError``, naming the contender and the nearest that is known, or one that is there twice.
    """
    return tuple(_contender(label) for label in split_labels(text, HOSTS_POLICIES))


def _contender(label: str) -> HostsContender:
    name, options = split_label(label, HOSTS_POLICIES, "hosts")
    unit_min = whole(label, options, UNIT, "minutes", MOST_UNIT_MIN)
    interval_s = whole(label, options, TICK, "seconds")
    try:
        build_hosts_policy(name, dict(options), (UNIT, TICK))
    except (SettingsError, ValidationError) as error:
        raise SettingsError(f"policy '{label}': {error}") from None
    return HostsContender(label, name, options, unit_min, interval_s)


MOST_PROBLEMS = 20  # that are reported; a policy that fails fails often
_DEATHS = 41  # random stream


def play(case: HostsCase, tell: Tell | None = None, *, policy: HostsPolicy | None = None) -> HostsPlayed:
    """Play one policy on one topology.

    A policy that fails, or answers what is no decision, is held at what runs for that look. A step that cannot be
    carried out is reported with its reason, and the steps after it are carried out all the same.

    ``tell``: called after each look with the simulated seconds that have passed.
    ``policy``: by default the one that the case names.
    """
    began_s = time.perf_counter()
    policy = policy or case.contender.build()
    twin = HostsTwin(case.topology, case.pattern, case.seed, unit_s=case.unit_s)
    forecasts = ArrivalForecasts(case.forecaster, float(case.unit_s), case.seed)
    deaths = _deaths(case)
    steps: list[Carried] = []
    sentences: list[tuple[int, str]] = []
    problems: list[str] = []
    memory: Mapping[str, Any] = {}
    while twin.second < case.seconds:
        _pass(twin, min(case.interval_s, case.seconds - twin.second), deaths)
        if tell is not None:
            tell(float(twin.second))
        if twin.second >= case.seconds:
            break
        expected = forecasts.of(twin.measured, case.topology.measuring.every_s)
        situation = situation_of(twin, float(case.interval_s), memory, expected)
        decision = _decided(policy, situation, problems)
        memory = decision.memory
        carried = carry_out(twin, decision)
        steps += carried
        problems += [f"at {step.at_s} s: {step.action}: {step.refused}" for step in carried if step.refused is not None]
        sentences.append((twin.second, decision.sentence))
    problems += forecasts.notes
    outcome = _outcome(
        case,
        twin,
        steps=tuple(steps),
        sentences=tuple(sentences),
        problems=problems,
        wall_s=time.perf_counter() - began_s,
    )
    return HostsPlayed(outcome, twin.course, twin.operators)


def _outcome(
    case: HostsCase,
    twin: HostsTwin,
    *,
    steps: tuple[Carried, ...],
    sentences: tuple[tuple[int, str], ...],
    problems: list[str],
    wall_s: float,
) -> HostsOutcome:
    topology, course = case.topology, twin.course
    items = float(course.processed.sum())
    delayed = delayed_items(topology, course)
    penalties = {level: late * topology.costs.penalty for level, late in delayed.items()}
    leases = leases_of(twin.fleet.leases, twin.second)
    price, look_s = topology.hosts.price_per_h, float(case.interval_s)
    return HostsOutcome(
        policy=case.contender.label,
        topology=topology.name,
        pattern=case.pattern,
        seed=case.seed,
        seconds=case.seconds,
        looks=len(sentences),
        items=items,
        unprocessed=float(course.queue[-1].sum()),
        compliance={level: 1.0 - late / items if items > 0 else 1.0 for level, late in delayed.items()},
        delayed=delayed,
        penalties=penalties,
        time_to_adapt_s=time_to_adapt_s(topology, course),
        hosts_leased=len(leases),
        hosts_mean=float(course.hosts.mean()),
        most_hosts=int(course.hosts.max()),
        instances_mean=float(course.instances.sum(axis=1).mean()),
        refused=sum(step.refused is not None for step in steps),
        bills=tuple(bill(leases, Billing(unit_s=60 * unit), price, penalties, look_s) for unit in case.billed_min),
        leases=leases,
        steps=steps,
        sentences=sentences,
        problems=tuple(problems[:MOST_PROBLEMS]),
        wall_s=wall_s,
        **counted(twin.fleet.events),
    )


def _deaths(case: HostsCase) -> list[tuple[int, float]]:
    """Return when hosts die, latest first, and which: as a share of those that are there then."""
    rng = np.random.default_rng([case.seed, _DEATHS])
    drawn = [(int(rng.integers(1, max(case.seconds, 2))), float(rng.random())) for _ in range(case.failures)]
    return sorted(drawn, reverse=True)


def _pass(twin: HostsTwin, seconds: int, deaths: list[tuple[int, float]]) -> None:
    """Let time pass, and hosts die on the way."""
    until = twin.second + seconds
    while deaths and deaths[-1][0] <= until:
        at, which = deaths.pop()
        twin.step(at - twin.second)
        there = list(twin.fleet.hosts)
        if there:
            twin.fleet.die(there[int(which * len(there))], twin.second)
    twin.step(until - twin.second)


def _decided(policy: HostsPolicy, situation: HostsSituation, problems: list[str]) -> HostsDecision:
    """Return the policy's decision, or that all stays because there is none that can be carried out."""
    answer = answer_of(policy.decide, situation, _nonsense)
    if not isinstance(answer, str):
        return answer
    problems.append(f"at {situation.now_s:g} s: {answer}")
    return HostsDecision(policy.name, (), f"Held: {answer}.", situation.memory)


def _nonsense(decision: object, _: HostsSituation) -> str | None:
    """Return why an answer is no decision, or ``None``."""
    if not isinstance(decision, HostsDecision):
        return f"it answers {decision!r:.80}, which is no decision"
    strange = [step for step in decision.steps if not isinstance(step, Step)]
    return f"it asks for {strange[0]!r:.80}, which is no step" if strange else None


FIRST_S = 120.0  # of measurements before a forecast is made
SHARES_S = 600.0  # shares of the types are taken over as long
STEP_S = 60.0


class ArrivalForecasts:
    """One forecaster of all that arrives at all types together, split by the types' recent shares.

    What reaches a type is in a fixed proportion to what the sensors emit, so one forecast serves all of them, at a
    ninth of the time.

    ``notes``: why there was no forecast, once per reason.
    """

    def __init__(self, family: str | None, horizon_s: float, seed: int = 0) -> None:
        self.notes: list[str] = []
        self._family = family
        self._horizon_s = horizon_s
        self._seed = seed
        self._forecaster: Forecaster | None = None
        self._rates = np.empty((0, 0))  # arrivals/s at each type in each measurement

    def of(self, measured: Sequence[Mapping[str, Measured]], every_s: int) -> Mapping[str, Forecast]:
        """Return operator -> forecast from the end of what was measured; empty where there is none yet."""
        if self._family is None or len(measured) * every_s < FIRST_S:
            return {}
        new = [[rates.arrived_per_s for rates in row.values()] for row in measured[len(self._rates) :]]
        if new:
            self._rates = np.concatenate((self._rates.reshape(-1, len(new[0])), new))
        rates = self._rates
        seen = Workload(0.0, float(every_s), rates.sum(axis=1))
        try:
            if self._forecaster is None:
                self._forecaster = fitted(self._family, seen, horizon_s=self._horizon_s, seed=self._seed)
            else:
                self._forecaster = self._forecaster.update(seen)
            total = self._forecaster.forecast(step_s=STEP_S)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            if str(error) not in self.notes:
                self.notes.append(str(error))
            return {}
        total = _capped(total, float(seen.per_s.max()))
        late = rates[-max(1, round(SHARES_S / every_s)) :].sum(axis=0)
        shares = late / max(float(late.sum()), 1e-12)
        return {
            name: _changed(total, partial(np.multiply, share)) for name, share in zip(measured[-1], shares, strict=True)
        }


def _capped(total: Forecast, highest_per_s: float) -> Forecast:
    """Return the forecast with nothing above the highest rate that was ever measured.

    Its quantiles come from errors that are alike at all rates, so at the highest level they expect further steps up
    that never came. No room is kept for what was never seen; whoever is surprised by it scales out then.
    """
    return _changed(total, partial(np.minimum, highest_per_s))


def _changed(total: Forecast, by: Callable[[Values], Values]) -> Forecast:
    """Return the forecast with its mean, its quantiles and its maxima changed alike."""
    return replace(
        total,
        mean=by(total.mean),
        quantiles={level: by(values) for level, values in total.quantiles.items()},
        maxima={level: by(values) for level, values in total.maxima.items()},
    )


@dataclass(frozen=True)
class HostsSetup:
    """What is to be replayed."""

    contenders: tuple[HostsContender, ...]
    topology: Topology
    patterns: tuple[str, ...]  # names of the topology's arrival patterns
    seeds: tuple[int, ...] = (1,)
    seconds: int | None = None  # length of each replay; ``None``: that of the topology's file
    failures: int = 0  # hosts that die in each replay
    forecaster: str | None = HOSTS_FORECASTER  # family of the forecast of arrivals, or ``None`` for none

    def __post_init__(self) -> None:
        if not self.patterns:
            raise SettingsError(f"no pattern is named; known: {', '.join(self.topology.patterns)}")
        for name in self.patterns:
            self.topology.pattern(name)
        twice = [name for name in self.patterns if self.patterns.count(name) > 1]
        if twice:
            raise SettingsError(f"pattern {twice[0]}: given twice")
        if self.length_s <= max((case.interval_s for case in self.cases()), default=0):  # none is made at the end
            raise SettingsError(f"{self.length_s} s do not cover one look of a policy; give more hours")
        require_few_failures(self.failures, self.length_s)
        require_known_family(self.forecaster)

    @property
    def length_s(self) -> int:
        """Length of each replay."""
        return self.topology.duration_s if self.seconds is None else self.seconds

    @property
    def simulated_s(self) -> float:
        """Sum of all seconds that are replayed."""
        return float(len(self.cases()) * self.length_s)

    def cases(self) -> tuple[HostsCase, ...]:
        """Return a case per pattern, seed and contender; for one seed all meet the same luck."""
        return tuple(
            HostsCase(contender, self.topology, pattern, seed, self.length_s, self.failures, self.forecaster)
            for pattern in self.patterns
            for seed in self.seeds
            for contender in self.contenders
        )


HostsCampaign = Ended[HostsSetup, HostsPlayed]


def run_hosts_campaign(
    setup: HostsSetup, *, processes: int | None = None, on_progress: OnProgress | None = None
) -> HostsCampaign:
    """Play every contender with every pattern and seed; as :func:`~perdix.replay.side_by_side.play_all`."""
    return play_all(setup, play, _name_of, processes=processes, on_progress=on_progress)


def _name_of(case: HostsCase) -> str:
    return f"{case.contender.label} ({case.pattern})"

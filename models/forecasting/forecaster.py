"""A job's forecaster: one or more members, what they need to remember, and how they have done recently."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from perdix.models.forecasting.calibration import Calibration
from perdix.models.forecasting.contract import HORIZON_S, Forecast, Workload
from perdix.models.forecasting.failures import (
    DamagedStateError,
    NotForecastableError,
    StateVersionError,
    checksum,
    positive,
    whole_state,
)
from perdix.models.forecasting.families import ENSEMBLE, STAND_INS, families_named, member_from_state
from perdix.models.forecasting.member import LEADS, Member, lead_s, stretched
from perdix.models.forecasting.tail import Tail
from perdix.models.forecasting.track_record import TrackRecord
from perdix.models.forecasting.weighting import combine
from perdix.settings.replacing import replace
from perdix.telemetry.window import Values

STATE_FORMAT = 2
WALK_ORIGINS = 48
WALK_PER_HORIZON = 3
WALKED_SHARE = 0.5  # of the history, at most
FINEST_S = 1.0  # cells of the truth, where steps are not longer
SCATTER_S = 600.0  # of these, from which it is known how single steps scatter
MOST_STEPS = 1_000_000  # of a forecast: a week by the second is fewer
WILDEST = 10.0  # times the highest rate that a member has before it: above, it has run away


Timer = Callable[[], float]


@dataclass(frozen=True)
class Fits:
    """Families fitted to one history: their members and the seconds that each took, or why it failed."""

    members: dict[str, Member]
    took_s: dict[str, float]
    failures: dict[str, str]

    def usable(self) -> list[Member]:
        """Return the members. Raises ``ValueError`` when no family could be fitted, with the reason of each."""
        if not self.members:
            failed = "; ".join(f"{name}: {why}" for name, why in self.failures.items())
            raise NotForecastableError(failed or "no family was given")
        return list(self.members.values())


def fit_members(
    families: Mapping[str, type[Member]],
    history: Workload,
    *,
    horizon_s: float = HORIZON_S,
    seed: int = 0,
    timer: Timer = time.perf_counter,
) -> Fits:
    """Fit each family on its own to a plausible history, and say what became of it."""
    made = Fits({}, {}, {})
    for name, family in families.items():
        began = timer()
        try:
            made.members[name] = family.fit(history, horizon_s=horizon_s, seed=seed)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            made.failures[name] = str(error).removeprefix(f"{name}: ")
        else:
            made.took_s[name] = timer() - began
    return made


@dataclass(frozen=True)
class Forecaster:
    """Members weighted by their recent errors, with quantiles calibrated on the errors of what was said.

    Immutable: :meth:`update` returns another one. Deterministic for a given history and seed. States hold numbers and
    strings only, so that nothing is unpickled.
    """

    members: tuple[Member, ...]  # fitted families, in a fixed order
    # Length of a cell in seconds -> the newest part of the workload in such cells; shared by the members
    tails: Mapping[float, Tail]
    record: TrackRecord  # what the members said lately, and what came of it
    horizon_s: float = HORIZON_S
    # Family -> why it could not be fitted; those take no part
    failures: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        history: Workload,
        families: Mapping[str, type[Member]] | None = None,
        *,
        horizon_s: float = HORIZON_S,
        seed: int = 0,
    ) -> Self:
        """Fit members, and fill their record with forecasts of the past from what was known then.

        The members that forecast the newest stretch for the record were fitted to what came before it; those that go
        on are fitted to all of it. A family that cannot be fitted is left out (:attr:`failures`).

        Raises ``ValueError`` when no family can be fitted, with the reason of each.
        """
        families = families_named(ENSEMBLE) if families is None else families
        made = cls.unproven(history, families, horizon_s=horizon_s, seed=seed)
        walk_s = min(WALK_ORIGINS * horizon_s / WALK_PER_HORIZON, WALKED_SHARE * history.step_s * len(history))
        begin = len(history) - max(1, round(walk_s / history.step_s))
        try:
            walker = cls.unproven(history.part(0, begin), families, horizon_s=horizon_s, seed=seed)
        except ValueError:
            return made
        ends = np.unique(np.linspace(begin, len(history), WALK_ORIGINS + 1).astype(int))
        for first, last in pairwise(ends):
            walker = walker.update(history.part(int(first), int(last)))
        return made.taking(walker.record, walker.names)

    @classmethod
    def unproven(
        cls, history: Workload, families: Mapping[str, type[Member]], *, horizon_s: float = HORIZON_S, seed: int = 0
    ) -> Self:
        """Fit members with an empty record. Raises ``ValueError`` when no family can be fitted."""
        history = history.plausible()
        fits = fit_members(families, history, horizon_s=horizon_s, seed=seed)
        return cls.of(fits.usable(), history, horizon_s=horizon_s, failures=fits.failures)

    @classmethod
    def of(
        cls,
        members: Sequence[Member],
        history: Workload,
        *,
        horizon_s: float = HORIZON_S,
        failures: Mapping[str, str] | None = None,
    ) -> Self:
        """Put fitted members at the end of a history, with an empty record."""
        step_s = lead_s(history.step_s, horizon_s)
        record = TrackRecord.empty(len(members), max(1, round(horizon_s / step_s)), step_s)
        return cls(tuple(members), _tails(members, history, horizon_s), record, horizon_s, failures or {})

    @property
    def names(self) -> tuple[str, ...]:
        """Families of the members."""
        return tuple(member.family for member in self.members)

    @property
    def family(self) -> str:
        """The one family, or ``ensemble``."""
        return self.members[0].family if len(self.members) == 1 else ENSEMBLE

    @property
    def finest(self) -> Tail:
        """The tail with the shortest cells: the truth, in steps of the workload even where no member asks for it."""
        return self.tails[min(self.tails)]

    @property
    def end_s(self) -> float:
        """Epoch seconds up to which the workload was seen."""
        return self.finest.end_s

    def keep_s(self, cell_s: float) -> float:
        """Return how much of the tail in cells of ``cell_s`` is kept, seconds."""
        return _keep_s(self.members, cell_s, self.horizon_s)

    @property
    def weights(self) -> Values:
        """How much each member counts now, shape ``(members, leads)``."""
        return self.record.weights

    def given(self, shared: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the forecaster with the models that its members share with other jobs (name -> state)."""
        members = tuple(member.given(shared) for member in self.members) if shared else self.members
        same = all(member is other for member, other in zip(members, self.members, strict=True))
        return self if same else replace(self, members=members)

    def only(self, family: str) -> Self:
        """Return one member alone, with its own record."""
        index = self.names.index(family)
        member = self.members[index]
        tails = {cell_s: self.tails[cell_s] for cell_s in sorted({min(self.tails), member.cell_s})}
        return replace(self, members=(member,), tails=tails, record=self.record.only(index), failures={})

    def taking(self, record: TrackRecord, names: tuple[str, ...]) -> Self:
        """Return the forecaster with a record made by members of the same names; one that is not in it has none."""
        missing = np.full((len(record), record.leads), np.nan, dtype=np.float32)
        columns = [record.forecasts[:, names.index(name)] if name in names else missing for name in self.names]
        return replace(self, record=replace(record, forecasts=np.stack(columns, axis=1)))

    def refitted(self, history: Workload, families: Mapping[str, type[Member]], *, seed: int = 0) -> Self:
        """Return members fitted anew, with the record so far."""
        fresh = type(self).unproven(history, families, horizon_s=self.horizon_s, seed=seed)
        return fresh.taking(self.record, self.names)

    def update(self, observed: Workload) -> Self:
        """Return the forecaster after new observations, without refitting; what it has already seen is ignored.

        What has come true is settled, and a forecast from the new end enters the record.
        """
        observed = observed.plausible()
        since_s, span_s = self.end_s, observed.step_s * len(observed)
        keep_s = {cell_s: self.keep_s(cell_s) for cell_s in self.tails}
        longer = {cell_s: tail.append(observed, keep_s[cell_s] + span_s) for cell_s, tail in self.tails.items()}
        if all(longer[cell_s] is tail for cell_s, tail in self.tails.items()):
            return self
        record = self.record.settled(longer[min(longer)], since_s)
        tails = {cell_s: tail.cut(keep_s[cell_s]) for cell_s, tail in longer.items()}
        moved = replace(self, tails=tails, record=record)
        return replace(moved, record=moved._recorded())

    def _recorded(self) -> TrackRecord:
        record = self.record
        newest_s = record.origins_s[-1] if len(record) else -np.inf
        if self.end_s < newest_s + record.lead_s - 1e-6:
            return record
        projections = self.projections(record.edges_s)
        if not np.isfinite(projections).any(axis=0).all():
            return record
        return record.issued(self.end_s, projections)

    def on(self, history: Workload) -> Self:
        """Return the same members on another stretch of the workload, forgetting tails and record."""
        empty = TrackRecord.empty(len(self.members), self.record.leads, self.record.lead_s)
        return replace(self, tails=_tails(self.members, history, self.horizon_s), record=empty)

    def until(self, end_s: float) -> Self:
        """Return the same members at ``end_s``, with what they remember up to then."""
        tails = {cell_s: tail.until(end_s) for cell_s, tail in self.tails.items()}
        return replace(self, tails=tails, record=self.record.until(end_s))

    def projections(self, edges_s: Values) -> Values:
        """Return what each member says of the time between ``edges_s``, seconds after the end of what was seen.

        Records/s, never negative, shape ``(members, len(edges_s) - 1)``; NaN where a member cannot say, or ran away.
        """
        return self.tamed(self.said(edges_s))

    def said(self, edges_s: Values) -> Values:
        """Return what each member says, however wild; otherwise as :meth:`projections`."""
        rows = np.full((len(self.members), len(edges_s) - 1), np.nan)
        with np.errstate(all="ignore"):  # whoever runs away is tamed
            for row, member in zip(rows, self.members, strict=True):
                tail = self.tails[member.cell_s]
                if not tail.known:
                    continue
                try:
                    row[:] = member.project(tail, edges_s + (tail.end_s - tail.measured_end_s))
                except (ValueError, ArithmeticError, np.linalg.LinAlgError):
                    row[:] = np.nan
        return np.asarray(np.where(np.isfinite(rows).all(axis=1, keepdims=True), np.maximum(rows, 0.0), np.nan))

    def tamed(self, rows: Values) -> Values:
        """Leave out the members that ran away; where nobody else is left, hold them at the highest plausible rate."""
        highest = [self.tails[member.cell_s].highest_per_s for member in self.members]
        ceilings = np.maximum(WILDEST * np.array(highest), 1.0)[:, None]
        wild = (rows > ceilings).any(axis=1, keepdims=True)
        if not wild.any():
            return rows
        sane = np.isfinite(rows).all(axis=1, keepdims=True) & ~wild
        return np.asarray(np.where(wild, np.nan if sane.any() else np.minimum(rows, ceilings), rows))

    def forecast(self, horizon_s: float | None = None, step_s: float = 1.0) -> Forecast:
        """Forecast from the end of what was seen, ``ceil(horizon_s / step_s)`` steps (the whole horizon by default).

        Where the newest observations are missing, the forecast is made from the newest measurement across the gap.
        Raises ``ValueError`` when no member can forecast, when horizon or step are not positive, or for a million steps
        or more.
        """
        horizon_s = self.horizon_s if horizon_s is None else horizon_s
        if not (horizon_s > 0.0 and step_s > 0.0):
            raise ValueError(f"horizon {horizon_s} s and step {step_s} s must be above zero")
        if not horizon_s < MOST_STEPS * step_s:  # a served model is asked by anybody
            raise ValueError(f"horizon {horizon_s:g} s has {MOST_STEPS:,} steps of {step_s:g} s or more; ask for fewer")
        edges_s = step_s * np.arange(int(np.ceil(horizon_s / step_s - 1e-9)) + 1, dtype=np.float64)
        return self.combined(self.projections(edges_s), edges_s)

    def combined(self, projections: Values, edges_s: Values) -> Forecast:
        """Return the forecast that members' projections make together."""
        middles_s = (edges_s[:-1] + edges_s[1:]) / 2
        centres_s = self.record.lead_s * (np.arange(self.record.leads) + 0.5)
        weights = np.array([np.interp(middles_s, centres_s, row) for row in self.weights])
        try:
            mean = combine(projections, weights)
        except ValueError:
            raise NotForecastableError(
                f"{self.family}: no workload measured lately to forecast from; update() with newer observations"
            ) from None
        return Forecast(
            origin_s=self.end_s,
            step_s=float(edges_s[1] - edges_s[0]),
            mean=mean,
            quantiles=self._calibration.quantiles(mean, middles_s, projections),
            maxima=self._calibration.maxima(mean, middles_s, projections),
            family=self.family,
        )

    @cached_property
    def _calibration(self) -> Calibration:
        return Calibration(self.record, next(tail for _, tail in sorted(self.tails.items()) if tail.known))

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state with a checksum: of eight days by 10 s, half a MB."""
        state = {
            "format": STATE_FORMAT,
            "family": self.family,
            "horizon_s": self.horizon_s,
            "members": [member.to_state() for member in self.members],
            "tails": [tail.to_state() for tail in self.tails.values()],
            "record": self.record.to_state(),
        }
        return {**state, "checksum": checksum(state)}


def forecaster_from_state(state: Mapping[str, Any]) -> Forecaster:
    """Rebuild a forecaster from its state.

    Raises ``DamagedStateError``, naming what is wrong with it;
    :class:`~perdix.models.forecasting.failures.StateVersionError` for another format.
    """
    if not isinstance(state, Mapping):
        raise DamagedStateError(f"the state of a forecaster is damaged (it is {state!r:.40}, not a table); train again")
    if state.get("format") != STATE_FORMAT:
        raise StateVersionError(
            f"a forecaster's state of format {STATE_FORMAT} was expected, not {state.get('format')!r:.40}; train again"
        )
    with whole_state("a forecaster"):
        if state["checksum"] != checksum({name: value for name, value in state.items() if name != "checksum"}):
            raise DamagedStateError("its checksum does not agree")
        members = tuple(member_from_state(item) for item in state["members"])
        tails = {tail.cell_s: tail for tail in map(Tail.from_state, state["tails"])}
        record = TrackRecord.from_state(state["record"])
        made = Forecaster(members, tails, record, positive("horizon_s", state["horizon_s"]))
        if not members or record.forecasts.shape[1] != len(members):
            raise DamagedStateError("members and track record do not agree")
        if record.leads != max(1, round(made.horizon_s / record.lead_s)):
            raise DamagedStateError("horizon and track record do not agree")
        missing = [member.cell_s for member in members if member.cell_s not in tails]
        if missing:
            raise DamagedStateError(f"a tail of {missing[0]:g} s cells is missing")
    return made


def fitted(name: str, history: Workload, *, horizon_s: float = HORIZON_S, seed: int = 0) -> Forecaster:
    """Fit what ``name`` stands for: one family, or ``ensemble``. Raises ``ValueError`` as the families do."""
    return Forecaster.fit(history, families_named(name), horizon_s=horizon_s, seed=seed)


def fallback(history: Workload) -> Forecaster:
    """Return the forecaster for when no model is good enough: lines that fade, and the newest rate.

    The line through the last minute (Daedalus 3.2), extended over 15 minutes, errs two to three times as much
    as the newest rate does. Raises ``ValueError`` when the history has no finite rate.
    """
    return Forecaster.fit(history, {family.family: family for family in STAND_INS})


def _tails(members: Sequence[Member], history: Workload, horizon_s: float) -> dict[float, Tail]:
    history = history.plausible()
    finest_s = max(history.step_s, stretched(FINEST_S, horizon_s))
    cells = {member.cell_s for member in members}
    cells |= {finest_s} if finest_s < min(cells) else set()
    return {cell_s: Tail.cut_up(history, cell_s, _keep_s(members, cell_s, horizon_s)) for cell_s in sorted(cells)}


def _keep_s(members: Sequence[Member], cell_s: float, horizon_s: float) -> float:
    """Return how much of a tail is kept: what its members want, and one part of the horizon to settle from."""
    wanted = [member.keep_s for member in members if member.cell_s == cell_s] or [stretched(SCATTER_S, horizon_s)]
    return max(*wanted, horizon_s / LEADS + 2.0 * cell_s)

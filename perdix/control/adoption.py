"""Adopt: a champion takes over where the one before it stood. Pure, but for what the champions' source holds."""

from collections.abc import Mapping
from typing import Any

import orjson

from perdix.control.champions import ChampionRow, ChampionSource
from perdix.control.job_memory import Adopted, JobMemory, Taken, history_of, walked
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.drift import DriftState
from perdix.models.forecasting.forecaster import Forecaster, forecaster_from_state
from perdix.models.forecasting.tail import Tail
from perdix.models.horizon_drift import usual_share
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.profiling.profiled import Profiled
from perdix.models.registry import CAPACITY, FORECAST, LATENCY, PERFORMANCE
from perdix.settings.replacing import replace

CAUGHT_UP_PARTS = 8  # origins that a new champion's record gets for what was seen since its training

Shared = Mapping[str, Mapping[str, Any]]  # name of a model that jobs share -> its state


def adopt(memory: JobMemory, champions: ChampionSource, job: str) -> tuple[JobMemory, tuple[str, ...]]:
    """Take in the champions of this job, if they are others than those in use; return what went wrong, in words.

    A row that cannot be used leaves what is in use: the last good version.
    """
    notes: list[str] = []
    for name, take in _TAKEN_IN.items():
        fleet = champions.fleet(name)
        row = fleet.rows.get(job)
        if row is None:
            if name == FORECAST and fleet.known:
                memory = replace(memory, champion=None, drift=DriftState.untried(), wape=None, horizon_wape=None)
            continue
        try:
            memory = take(memory, row, fleet.shared)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            notes.append(f"{name} version {row.version} cannot be used for this job: {error}; what was in use stays")
    return memory, tuple(notes)


def is_another(before: Adopted | None, now: Adopted | None) -> bool:
    """Return whether a champion forecaster was taken in between two looks at a memory."""
    return now is not None and (before is None or not before.is_of(now))


def _adopt_forecaster(memory: JobMemory, row: ChampionRow, shared: Shared) -> JobMemory:
    former = memory.champion
    if former is not None and former.is_of(row):
        known = former.forecaster.given(shared)  # after a restart they are still to be given
        if known is former.forecaster and former.digest:
            return memory
        return replace(memory, champion=Adopted(row.version, row.digest, forecaster=known))
    trained = forecaster_from_state(orjson.loads(row.state)).given(shared)
    share = usual_share(trained.record)
    forecaster = caught_up(trained, None if former is None else former.forecaster, memory.workload)
    drift = (DriftState.untried() if former is None else memory.drift).promoted(share)
    if former is not None and former.version == row.version:  # what that one forecast is not its own
        memory = replace(memory, scored_until_s=max(memory.scored_until_s, former.forecaster.end_s))
    champion = Adopted(row.version, row.digest, forecaster=forecaster)
    return replace(memory, champion=champion, drift=drift, wape=None, horizon_wape=None)


def caught_up(trained: Forecaster, former: Forecaster | None, workload: Tail | None) -> Forecaster:
    """Return a trained forecaster after what was seen since its training.

    The former champion remembers more than the workload that is kept: days, in cells of a minute. What lies before that
    is taken from its tail of the same cells, or of the finest ones.
    """
    if former is not None:
        until_s = former.end_s if workload is None else workload.start_s
        tails = {}
        for cell_s, tail in trained.tails.items():
            known = history_of(former.tails.get(cell_s, former.finest).until(until_s))
            tails[cell_s] = tail.append(known, trained.keep_s(cell_s)) if len(known) else tail
        trained = replace(trained, tails=tails)
    return trained if workload is None else walked(trained, history_of(workload), CAUGHT_UP_PARTS)


def _adopt_capacity(memory: JobMemory, row: ChampionRow, _: Shared) -> JobMemory:
    taken = Taken(row.version, row.digest)
    if memory.capacity_from.is_of(row):
        return memory if memory.capacity_from == taken else replace(memory, capacity_from=taken)
    trained = ScaleOuts.from_state(orjson.loads(row.state))
    # What this loop has seen itself is newer than any training set. The last stay of that is over, unless it is the one
    # that goes on here, which would count twice.
    goes_on = trained.scale_out == memory.capacity.scale_out
    over, idle = (trained.memory, trained.idle) if goes_on else (trained.typical, trained.idle_share)
    model = memory.capacity.believing(over.values(), idle) if memory.capacity.known else trained
    return replace(memory, capacity=model, capacity_from=taken)


def _adopt_profile(memory: JobMemory, row: ChampionRow, _: Shared) -> JobMemory:
    """Take in what a profile taught; its failures count as those of the job itself do, which are not forgotten.

    Those of a model of the same profile as an earlier one, as after a rollback, were counted with that.
    """
    taken = Taken(row.version, row.digest)
    if memory.profile_from.is_of(row):
        return memory if memory.profile_from == taken else replace(memory, profile_from=taken)
    profiled = Profiled.from_state(orjson.loads(row.state))
    if memory.profiled is not None:
        profiled = profiled.succeeding(memory.profiled)
    downtimes, seen = memory.downtimes, (profiled.downtime_s, profiled.failures)
    if profiled.downtime_s is not None and seen not in profiled.counted:
        downtimes = downtimes.after_failures(profiled.downtime_s, profiled.failures)
    return replace(memory, profiled=profiled, downtimes=downtimes, profile_from=taken)


def _adopt_performance(memory: JobMemory, row: ChampionRow, _: Shared) -> JobMemory:
    """Take in what sampling taught of the sizes of a worker; trees are grown when the loop first asks."""
    taken = Taken(row.version, row.digest)
    if memory.performance_from.is_of(row):
        return memory if memory.performance_from == taken else replace(memory, performance_from=taken)
    model = FittedPerformance.from_state(orjson.loads(row.state))
    return replace(memory, performance=model, performance_from=taken)


_TAKEN_IN = {
    FORECAST: _adopt_forecaster,
    CAPACITY: _adopt_capacity,
    LATENCY: _adopt_profile,
    PERFORMANCE: _adopt_performance,
}

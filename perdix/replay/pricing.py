"""What replays would have cost: their workers packed onto hosts of a price list, and the leases of those hosts paid.

Reckoned afterwards from what was deployed second by second: no policy knows prices, and the run is the same with and
without them. Each policy gets one instance type for all of its seeds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from perdix.models.billing.bill import Bill, Billed, Demand, bill, bills, host_of, least_cost
from perdix.models.billing.leases import Release, Rule
from perdix.models.billing.packing import DoesNotFitError, Resources, per_host
from perdix.replay.clairvoyant.bound import Clairvoyant
from perdix.replay.outcome import Played
from perdix.settings.prices import PriceList, load_prices
from perdix.settings.stream_job import WorkerSize
from perdix.settings.yaml_files import SettingsError

CHEAPEST = "cheapest"
WORKER = Resources(cores=1.0, memory_mb=2048.0)
AT_ONCE = Release()
EQUAL = ""  # how a worker is called whose size nobody names


@dataclass(frozen=True)
class Pricing:
    """How replays are priced."""

    prices: PriceList
    worker: Resources = WORKER  # what a worker is given whose size nobody names
    # ``None``: for each policy the one on which all of its seeds together cost least. That is found afterwards, so it
    # is what a good guess could come to
    instance_type: str | None = None
    release: Release = AT_ONCE
    # Size -> what its workers are given, of a job whose workers may differ
    sizes: Mapping[str, Resources] | None = None

    def of_sizes(self, sizes: Mapping[str, WorkerSize]) -> Pricing:
        """Return the same for a job whose workers may have these sizes."""
        given = {name: Resources(size.cpu_cores, size.memory_mb) for name, size in sizes.items()}
        return replace(self, sizes=given or None)

    def check(self) -> None:
        """Raise ``SettingsError`` where the instance type is not known, or no host takes one of the workers."""
        if self.instance_type is not None:
            self.prices.check_type(self.instance_type)
        names = list(self.prices.instance_types) if self.instance_type is None else [self.instance_type]
        why = {name: self._too_small(name) for name in names}
        if all(why.values()):
            largest = max(names, key=self.prices.usable)
            raise SettingsError(
                f"prices '{self.prices.name}': {why[largest]}; give workers less, or name larger instances"
            )

    def _too_small(self, instance_type: str) -> str:
        host = host_of(self.prices, instance_type)
        for size in (self.sizes or {EQUAL: self.worker}).values():
            try:
                per_host(size, host)
            except DoesNotFitError as error:
                return f"{instance_type}: {error}"
        return ""

    def asked(self) -> dict[str, Any]:
        """Return what was asked for, JSON-serialisable: the same question, the same bill."""
        return {
            "prices": self.prices.name,
            "currency": self.prices.currency,
            "as_of": self.prices.as_of.isoformat(),
            "list": self.prices.model_dump(mode="json", include={"billing", "reserved", "instance_types"}),
            "instance_type": self.instance_type or CHEAPEST,
            "release": self.release.rule,
            "release_delay_s": self.release.delay_s,
            "worker": None if self.sizes else asdict(self.worker),
            "sizes": {name: asdict(size) for name, size in (self.sizes or {}).items()},
        }


def pricing_named(
    prices: str,
    *,
    instance_type: str | None = None,
    worker: Resources = WORKER,
    release: str = "at-once",
    folder: Path | None = None,
) -> Pricing:
    """Return how replays are priced, from the names that a user gives; not yet checked (:meth:`Pricing.check`).

    Raises ``SettingsError``, naming what is not known and the nearest that is.

    ``prices``: name of a list in ``folder`` (by default ``conf/prices``), or a YAML file.
    ``instance_type``: a name of the list; ``cheapest``, or ``None``, for what comes out so.
    ``release``: ``at-once``, ``after-SECONDS`` or ``end-of-unit``.
    """
    chosen = None if instance_type in (None, CHEAPEST) else instance_type
    return Pricing(load_prices(prices, folder), worker, chosen, release_named(release))


def release_named(text: str) -> Release:
    """Return the rule that a user writes; raises ``SettingsError`` for one that there is not."""
    if text in get_args(Rule):
        return Release(text)  # type: ignore[arg-type]
    waits = re.fullmatch(r"after-(\d+(?:\.\d+)?)(?:s)?", text)
    if waits is None:
        raise SettingsError(f"release '{text}': there is none; write at-once, end-of-unit, or after-600 (seconds idle)")
    return Release("at-once", float(waits[1]))


@dataclass(frozen=True)
class Priced:
    """Replays with their bills, and what the clairvoyant plans would cost."""

    played: tuple[Played, ...]
    # Seed -> bill of the plan with the fewest worker-seconds. Not the least cost there could be where units are long
    clairvoyants: Mapping[int, Bill]
    # Seed -> what no plan that holds the objectives gets below, however it is billed: the clairvoyant's worker-seconds
    # on full hosts that are paid for no second more. Empty where workers differ in size, because the bound knows but
    # one
    at_least: Mapping[int, float]


def priced(played: Sequence[Played], clairvoyants: Mapping[int, Clairvoyant], pricing: Pricing) -> Priced:
    """Return the replays with what they would have cost. Raises ``SettingsError`` as :meth:`Pricing.check`."""
    pricing.check()
    found: dict[tuple[str, int], Billed] = {}
    for policy in dict.fromkeys(replay.outcome.policy for replay in played):
        mine = [replay for replay in played if replay.outcome.policy == policy]
        for replay, billed in zip(mine, _billed([demand_of(replay, pricing) for replay in mine], pricing), strict=True):
            found[policy, replay.outcome.seed] = billed
    with_bills = tuple(_with(replay, found[replay.outcome.policy, replay.outcome.seed]) for replay in played)
    seeds = sorted(clairvoyants)
    plans = [Demand.of_workers(clairvoyants[seed].scale_outs, pricing.worker) for seed in seeds]
    least = dict(zip(seeds, (replay.bill for replay in _billed(plans, pricing)), strict=True)) if plans else {}
    return Priced(with_bills, least, {} if pricing.sizes else _at_least(clairvoyants, pricing))


def demand_of(played: Played, pricing: Pricing) -> Demand:
    """Return what a replay deployed, second by second: workers by size where it had mixes, else equal ones.

    Workers without a size count as the first one, where the job has sizes.

    Raises ``SettingsError`` when a size was deployed that has no cores and memory.
    """
    usual = next(iter((pricing.sizes or {}).values()), pricing.worker)
    if not any(deployment.mix for deployment in played.deployments):
        return Demand.of_workers(played.course.workers, usual)
    sizes = {EQUAL: usual, **(pricing.sizes or {})}
    times_s = played.course.times_s
    counts = np.zeros((len(times_s), len(sizes)))
    for deployment in played.deployments:
        unknown = [size for size in deployment.mix if size not in sizes]
        if unknown:
            raise SettingsError(
                f"size '{unknown[0]}' was deployed, but has no cores and memory; name it in the twin's file"
            )
        mix = deployment.mix or {EQUAL: deployment.scale_out}
        counts[times_s >= deployment.since_s] = [mix.get(size, 0) for size in sizes]
    return Demand.of_mixes(counts, tuple(sizes.values()))


def _billed(demands: Sequence[Demand], pricing: Pricing) -> list[Billed]:
    """Return a bill per demand, all on one instance type."""
    if pricing.instance_type is not None:
        return [bill(demand, pricing.prices, pricing.instance_type, pricing.release) for demand in demands]
    cheapest, _ = bills(demands, pricing.prices, pricing.release)
    return cheapest[0]


def _at_least(clairvoyants: Mapping[int, Clairvoyant], pricing: Pricing) -> dict[int, float]:
    prices = pricing.prices
    if pricing.instance_type is not None:
        only = {pricing.instance_type: prices.instance_types[pricing.instance_type]}
        prices = prices.model_copy(update={"instance_types": only})
    found = {seed: least_cost(plan.worker_s, pricing.worker, prices) for seed, plan in clairvoyants.items()}
    return {seed: cost for seed, cost in found.items() if cost is not None}


def _with(played: Played, billed: Billed) -> Played:
    return replace(played, outcome=replace(played.outcome, bill=billed.bill), hosts=billed.hosts)

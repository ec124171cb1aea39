"""What can go wrong, when and where: a list of faults is all that an episode is drawn from, and what is shrunk."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.storm.answers import BAD_ANSWERS
from perdix.telemetry import metrics

ODD_ANSWERS = ("huge", "vector", "nothing", "no labels", "no value", "words", "late", "never")  # of a Prometheus
UNREACHABLE = "unreachable"  # of a Prometheus, as ``what`` of a fault
REPLICA = "other replica"  # a pair of Prometheus, of which each question reaches either
ODD_AND_WELL = ("page of JSON", "twice", "warned", "other order", REPLICA)
STATES = {"nothing": "{}", "null": "null", "number": "1e999", "surrogate": '"\\ud800"'}  # of champions of no use
Draw = Callable[[np.random.Generator], tuple[float, str]]


ASLEEP_S = 190.0  # longer than a lease lasts


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong."""

    kind: str
    where: str  # the job, the controller, or ``all`` controllers that it happens to
    # from_min, minutes: minutes since the episode began, and for how many
    from_min: int
    minutes: int
    # amount, what: how much, and of what: the kind says in which sense
    amount: float = 0.0
    what: str = ""

    def during(self, minute: float) -> bool:
        return self.from_min <= minute < self.from_min + self.minutes

    def between(self, from_minute: float, to_minute: float) -> bool:
        """Whether it went on at any time between two minutes."""
        return self.from_min <= to_minute and from_minute < self.end_min

    @property
    def end_min(self) -> int:
        return self.from_min + self.minutes

    @property
    def gone_min(self) -> float:
        """When nothing of it is left: who stands still at its end, and a write that waits then, take their time."""
        stands_min = {"pause": self.minutes, "late write": self.amount, **dict.fromkeys(ASLEEP, ASLEEP_S / 60.0)}
        return self.end_min + stands_min.get(self.kind, 0.0)


@dataclass(frozen=True)
class Kind:
    """How faults of a kind are drawn."""

    scope: str  # ``target``, ``metrics``, ``controller``, ``store`` or ``registry``: whom it happens to
    longest_min: int  # it lasts up to this many minutes
    draw: Draw
    takes_time: bool = False  # whether it moves the clock, so that other jobs are served later than they would be
    harmless: bool = False  # whether the job must be served all the same


def _none(_: np.random.Generator) -> tuple[float, str]:
    return 0.0, ""


def _amount(*amounts: float) -> Draw:
    return lambda rng: (float(rng.choice(amounts)), "")


def _what(*texts: str) -> Draw:
    return lambda rng: (0.0, str(rng.choice(texts)))


def _amount_of(amounts: Sequence[float], *names: str) -> Draw:
    return lambda rng: (float(rng.choice(amounts)), str(rng.choice(names)))


_WORKLOAD, _THROUGHPUT, _CPU = metrics.WORKLOAD.name, metrics.THROUGHPUT.name, metrics.CPU.name
_LAG, _SCALE_OUT, _UPTIME = metrics.LAG.name, metrics.SCALE_OUT.name, metrics.UPTIME.name
_LATENCY, _BUSY = metrics.LATENCY.name, metrics.BUSY.name
_ABSURD = (-5.0, 1e6, 1e9, 1e15, 1e300, float("inf"), float("-inf"), float("nan"))

KINDS: Mapping[str, Kind] = {
    # the target's server
    "refused": Kind("target", 12, _none),
    "status": Kind("target", 12, _amount(401, 403, 404, 409, 422, 429, 500, 503)),
    "garbage": Kind("target", 8, _what(*BAD_ANSWERS)),
    "lost request": Kind("target", 5, _none, takes_time=True),
    "lost answer": Kind("target", 5, _none, takes_time=True),
    "slow": Kind("target", 8, _amount(1.0, 3.0, 4.5), takes_time=True),
    "stale read": Kind("target", 8, _amount(1, 2, 5)),
    "forgotten write": Kind("target", 10, _none),
    "late write": Kind("target", 20, _amount(1, 3, 6)),
    "absurd read": Kind("target", 6, _amount(0, -1, 2, 1_000_000, 10.0**30)),
    "bad checkpoint": Kind("target", 15, _what("fails", "forgotten", "refused", "hidden", *BAD_ANSWERS), harmless=True),
    "slow checkpoint": Kind("target", 15, _none, takes_time=True, harmless=True),
    # what it looks after
    "forgets": Kind("target", 1, _amount(3, 10)),
    "by hand": Kind("target", 1, _amount(1, 2, 4, 7)),
    "short of slots": Kind("target", 15, _amount(1, 2, 4)),
    "never settles": Kind("target", 20, _none),
    "down after a rescale": Kind("target", 20, _none),
    "worker lost": Kind("target", 1, _none),
    "pods unready": Kind("target", 20, _amount_of([1.0, 3.0, 8.0], "late", "crash", "never")),
    # what its owner changes in the job's file, and takes back
    "job file": Kind(
        "target", 15, _what("gone", "at most 3", "at least 6", "advises", "paused", "ds2-global", "daedalus")
    ),
    # metrics
    "no metrics": Kind("metrics", 12, _what(UNREACHABLE, "empty")),
    "stale metrics": Kind("metrics", 12, _none),
    "late metrics": Kind("metrics", 12, _amount(30, 90, 200)),
    "partial metrics": Kind("metrics", 10, _amount(0.1, 0.4, 0.8)),
    "workers missing": Kind("metrics", 12, _amount(0.3, 0.5, 0.9)),
    "duplicated metrics": Kind("metrics", 12, _amount_of([1.0], _WORKLOAD, _THROUGHPUT, _LAG)),
    "repeated metrics": Kind("metrics", 20, _none, harmless=True),
    "slow metrics": Kind("metrics", 8, _amount(2.0, 6.0), takes_time=True),
    "absurd metric": Kind(
        "metrics",
        10,
        _amount_of(_ABSURD, _WORKLOAD, _THROUGHPUT, _CPU, _LAG, _SCALE_OUT, _UPTIME, _LATENCY, _BUSY),
    ),
    "false metric": Kind("metrics", 12, _amount_of([0.0, 0.1, 0.5, 2.0], _WORKLOAD, _THROUGHPUT)),
    "metrics ahead": Kind("metrics", 8, _amount(60, 300)),
    # and the server that has them, of jobs whose metrics come over HTTP
    "prometheus status": Kind("metrics", 12, _amount(302, 400, 401, 403, 404, 422, 429, 500, 502, 503)),
    "prometheus garbage": Kind("metrics", 12, _what(*BAD_ANSWERS, *ODD_ANSWERS)),
    "prometheus oddity": Kind("metrics", 20, _what(*ODD_AND_WELL), harmless=True),
    "query refused": Kind("metrics", 12, _what(_WORKLOAD, _THROUGHPUT, _CPU, _LAG, _UPTIME, _LATENCY)),
    # controllers
    "crash": Kind("controller", 1, lambda rng: (float(rng.integers(1, 120)), "")),
    "pause": Kind("controller", 4, lambda rng: (float(rng.integers(1, 80)), ""), takes_time=True),
    "asleep before asking": Kind("controller", 25, _none, takes_time=True),
    "asleep while sending": Kind("controller", 25, _none, takes_time=True),
    "down": Kind("controller", 10, _none),
    "restart": Kind("controller", 1, _none),
    "reboot": Kind("controller", 1, _none),
    "clock step": Kind("controller", 20, _amount(-86_400, -3_600, -120, -30, 30, 120, 3_600, 86_400)),
    # what they write to
    "store locked": Kind("store", 6, _none),
    "store full": Kind("store", 10, _none),
    "store read-only": Kind("store", 10, _none),
    "store gone": Kind("store", 10, _none),
    "store frozen": Kind("store", 4, _none, takes_time=True),
    "statement fails": Kind("store", 1, lambda rng: (float(rng.integers(1, 60)), "")),
    "heartbeat unwritable": Kind("store", 10, _none),
    # MLflow, and the folder in which a controller keeps what it read there
    "registry gone": Kind("registry", 30, _none, harmless=True),
    "registry hangs": Kind("registry", 20, _none, takes_time=True, harmless=True),
    "registry slow": Kind("registry", 20, _amount(1.0, 3.0, 7.0), takes_time=True, harmless=True),
    "registry lies": Kind(
        "registry", 20, _what("no alias", "first again", "table gone", "damaged", *STATES), harmless=True
    ),
    "champions unwritable": Kind("registry", 20, _none, harmless=True),
}

# what may show another load than there is: contradictory data, and too few of it
DOUBTFUL = frozenset({"duplicated metrics", "absurd metric", "false metric", "workers missing", "partial metrics"})
OF_PROMETHEUS = frozenset({"prometheus status", "prometheus garbage", "prometheus oddity", "query refused"})
NOT_OVER_HTTP = frozenset({"metrics ahead", "repeated metrics"})  # a Prometheus that is asked up to now shows neither
ASLEEP = {"asleep before asking": 0.9, "asleep while sending": 0.4}  # how many controllers are, where there are several
ALL = "all"


def drawn(
    rng: np.random.Generator, minutes: int, jobs: Sequence[str], controllers: Sequence[str], kinds: Collection[str]
) -> tuple[Fault, ...]:
    """Draw the faults of an episode whose first ``minutes`` are stormy; all of them end within those."""
    theme = rng.random()
    scopes = {KINDS[kind].scope for kind in kinds}
    if theme < 0.35:  # of one job only: whatever happens to it is none of the others' business
        scopes &= {"target", "metrics"}
        jobs = jobs[:1]
    elif theme < 0.6:
        scopes &= {"controller", "target"}
    elif theme < 0.7:
        scopes &= {"store", "controller"}
    elif theme < 0.8:
        scopes &= {"registry", "controller"}
    chosen = sorted(kind for kind in kinds if KINDS[kind].scope in scopes)
    if not chosen:
        return ()
    count = int(rng.integers(2, 13))
    faults = []
    for _ in range(count):
        name = str(rng.choice(chosen))
        kind = KINDS[name]
        of = {"target": jobs, "metrics": jobs, "controller": controllers, "registry": [ALL]}
        where = str(rng.choice(of.get(kind.scope, [*controllers, ALL])))
        lasts = int(rng.integers(1, kind.longest_min + 1))
        begins = int(rng.integers(1, max(minutes - lasts, 2)))
        amount, what = kind.draw(rng)
        faults.append(Fault(name, where, begins, lasts, amount, what))
    several = controllers if len(controllers) > 1 else ()  # what a lease is there for
    for fault, asleep in itertools.product(several, sorted(ASLEEP.keys() & kinds)):
        if rng.random() < ASLEEP[asleep]:
            faults.append(Fault(asleep, fault, int(rng.integers(1, minutes // 4)), 3 * minutes // 4))
    return tuple(sorted(faults, key=lambda fault: (fault.from_min, fault.kind, fault.where)))

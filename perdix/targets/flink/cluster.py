"""How a Flink cluster rescales, as its configuration says, and what of it makes a rescale dearer than it need be."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from perdix.targets.contract import TargetError
from perdix.targets.flink.answers import CheckpointConfig, Configuration, Version
from perdix.targets.http import HttpTarget

SCHEDULER, MODE = "jobmanager.scheduler", "scheduler-mode"
COOLDOWN = "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"
COOLDOWN_BEFORE_2 = "jobmanager.adaptive-scheduler.scaling-interval.min"
MAX_DELAY = "jobmanager.adaptive-scheduler.rescale-trigger.max-delay"
STABILIZATION = "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout"
USUAL_COOLDOWN_S, USUAL_STABILIZATION_S = 30.0, 60.0  # Flink's own defaults
AT_ONCE_S = 1.0  # a longer delay is one in which a checkpoint of ours can complete
LONG_INTERVAL_S = 60.0
WAITS_SINCE = (2, 0)  # the version from which on a rescale waits for a checkpoint
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


@dataclass(frozen=True)
class Rescaling:
    """When a cluster rescales a job."""

    at_once: bool = False  # as soon as the slots are there; else when a checkpoint completes after that
    cooldown_s: float = USUAL_COOLDOWN_S  # for so long after a deployment it does not


@dataclass(frozen=True)
class Advice:
    """What to set otherwise, and why; ``needed``: without it nothing can be rescaled."""

    sentence: str
    needed: bool = False


def read_rescaling(flink: HttpTarget) -> Rescaling:
    """Return when the cluster rescales; Flink's defaults where it does not show its configuration."""
    with suppress(TargetError):
        values = flink.asked("GET", "/jobmanager/config", Configuration).values()
        return rescaling(values, flink.asked("GET", "/config", Version).numbers)
    return Rescaling()


def rescaling(values: Mapping[str, str], version: tuple[int, int]) -> Rescaling:
    """Return when a cluster of that version rescales that has set these keys."""
    if (0, 0) < version < WAITS_SINCE:
        return Rescaling(at_once=True, cooldown_s=_seconds(values, COOLDOWN_BEFORE_2, USUAL_COOLDOWN_S))
    delay_s = _seconds(values, MAX_DELAY, float("inf"))
    return Rescaling(delay_s <= AT_ONCE_S, _cooldown(values)[1])


def advice(values: Mapping[str, str], checkpoints: CheckpointConfig | None, grace_s: float) -> Iterator[Advice]:
    """Yield what to set otherwise, so that a rescale costs little.

    ``checkpoints``: of the job; ``None``: it makes none.
    ``grace_s``: seconds after a rescale in which perdix asks for no other.
    """
    if values.get(SCHEDULER, "default").lower() != "adaptive" and values.get(MODE, "").lower() != "reactive":
        yield Advice(f"set '{SCHEDULER}: adaptive': only that scheduler rescales a running job", needed=True)
    if values.get(MODE, "").lower() == "reactive":
        yield Advice(f"take out '{MODE}: reactive': such a job follows its TaskManagers", needed=True)
    interval_s = 0.0 if checkpoints is None else checkpoints.interval / 1_000.0
    if not 0.0 < interval_s < float(1 << 40):
        yield Advice(
            "set 'execution.checkpointing.interval': without checkpoints a rescale loses the job's state", needed=True
        )
    elif interval_s > LONG_INTERVAL_S:
        yield Advice(
            f"lower 'execution.checkpointing.interval' from {interval_s:.0f} s to at most {LONG_INTERVAL_S:.0f} s: what"
            " came since the last checkpoint is read again after a failure, and after a rescale that got none"
        )
    key, cooldown_s = _cooldown(values)
    if cooldown_s > max(grace_s, USUAL_COOLDOWN_S):
        yield Advice(
            f"lower '{key}' from {cooldown_s:.0f} s to at most {max(grace_s, USUAL_COOLDOWN_S):.0f} s: what is "
            "asked for earlier waits, and its checkpoint is ignored"
        )
    delay_s = _seconds(values, MAX_DELAY, float("inf"))
    if AT_ONCE_S < delay_s < interval_s:
        yield Advice(
            f"leave out '{MAX_DELAY}' ({delay_s:.0f} s), or set it to 0: Flink rescales after it without a checkpoint, "
            "and reads more again"
        )
    stable_s = _seconds(values, STABILIZATION, USUAL_STABILIZATION_S)
    if stable_s < USUAL_STABILIZATION_S:
        yield Advice(
            f"where TaskManagers are started on demand, raise '{STABILIZATION}' from {stable_s:.0f} s to at least the "
            "time that one takes: else Flink stops the job once for the slots that are there, and again for the rest"
        )


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration as Flink writes it: ``30 s``, ``1min``, ``500``, which are ms, or ``PT30S``."""
    text = text.strip().lower()
    if text.startswith("pt"):
        text = text.removeprefix("pt")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|milli\w*|s|secs?|seconds?|min|m|minutes?|h|hours?|d|days?)?", text)
    if found is None:
        return None
    unit = found[2] or "ms"
    known = unit if unit in _UNITS else {"m": "ms" if unit.startswith("milli") else "min"}.get(unit[0], unit[0])
    return float(found[1]) * _UNITS[known]


def _cooldown(values: Mapping[str, str]) -> tuple[str, float]:
    """Return the key that counts, and its seconds: Flink 2 still takes the one of before, where the new one is not."""
    key = COOLDOWN if COOLDOWN in values else COOLDOWN_BEFORE_2
    return key, _seconds(values, key, USUAL_COOLDOWN_S)


def _seconds(values: Mapping[str, str], key: str, otherwise: float) -> float:
    found_s = seconds_of(values.get(key, ""))
    return otherwise if found_s is None else found_s

"""Which policies take part in the zoo, and how they are called there."""

from __future__ import annotations

from dataclasses import replace

from perdix.replay.case import Contender
from perdix.replay.contenders import TICK, contender
from perdix.replay.frontier import FRONTIER
from perdix.settings.stream_job import PolicySettings

TICK_S = 60
STATIC_MAX, BEST_STATIC = "static-max", "best-static"


def default_policy() -> str:
    """Return the policy of a stream job that names none."""
    return PolicySettings().name


def usual_policies() -> tuple[str, ...]:
    """Return those that take part when nobody says which, the default one first."""
    return (default_policy(), "hpa-80", "flink-autoscaler-tuned", "ds2-global", STATIC_MAX)


def contender_of(label: str, maximum: int) -> Contender:
    """Return a contender that looks every ``TICK_S`` seconds unless its label says otherwise (``hpa-80:tick_s=15``).

    ``static-max`` keeps the most workers all the time. The best fixed size is found by search and the frontier worked
    out: their contender does not matter. Raises ``SettingsError``, naming the label and the nearest that is known.
    """
    if label in (STATIC_MAX, BEST_STATIC, FRONTIER):
        return replace(contender(f"static-{maximum}"), label=label)
    found = contender(label)
    return found if f":{TICK}=" in label else replace(found, tick_interval_s=TICK_S)

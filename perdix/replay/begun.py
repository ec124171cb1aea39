"""What a replay's loop knows before its first tick: trained models, and what it cost to measure what they learned."""

from __future__ import annotations

from dataclasses import dataclass

from perdix.control.champions import FleetChampions


@dataclass(frozen=True)
class Begun:
    """Champions of one model."""

    champions: FleetChampions
    worker_s: float  # worker-seconds that profiling or sampling took
    notes: tuple[str, ...] = ()  # what could not be measured, and why

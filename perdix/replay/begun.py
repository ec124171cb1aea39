"""What a replay's loop knows before its first tick: trained models, and what it cost to measure what they learned."""

from __future__ import annotations

from dataclasses import dataclass

from perdix.control.champions import FleetChampions


@dataclass(frozen=True)
class Begun:
    """Champions of one model.

    Attributes
    ----------
    worker_s
        Worker-seconds that profiling or sampling took.
    notes
        What could not be measured, and why.
    """

    champions: FleetChampions
    worker_s: float
    notes: tuple[str, ...] = ()

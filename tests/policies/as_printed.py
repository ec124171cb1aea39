"""Daedalus as the paper prints it, and what a test asks of its decisions."""

from __future__ import annotations

from typing import Any

from perdix.policies.contract import Decision, Situation
from perdix.policies.daedalus import Daedalus
from perdix.policies.daedalus_options import AS_PRINTED, DaedalusOptions


def decide(situation: Situation, **options: Any) -> Decision:
    """Decide as the paper prints it, but for the options that are given."""
    return Daedalus(DaedalusOptions(**{**AS_PRINTED, **options})).decide(situation)


def rejections(decision: Decision) -> dict[int, str | None]:
    return {candidate.scale_out: candidate.rejected_by for candidate in decision.candidates}

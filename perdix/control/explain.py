"""Explain: why perdix did what it did, what it believed, and how that turned out, from the ledger alone (X2).

Belongs here: the answer as data. Does not belong here: its text (:mod:`perdix.control.explain_text`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from perdix.control.clock import CLOCK_BACK_S
from perdix.control.pausing import later_pause
from perdix.control.state.journal import JobStatus, Pause
from perdix.control.state.learned import Score
from perdix.control.state.ledger import Entry, State
from perdix.control.state.store import StateStore

LAST_SCORES = 15
RESCALES = (State.INTENT, State.APPLIED, State.CONFIRMED, State.FAILED, State.SUPERSEDED)
SCHEMA = 1


@dataclass(frozen=True)
class Explanation:
    """The decision that held at a moment, and all that the ledger knows about it."""

    job: str
    at_s: float | None
    entry: Entry | None  # the last decision made up to the moment; ``None`` when there was none
    status: JobStatus | None = None
    pause: Pause | None = None
    score: Score | None = None  # the forecast made in the same tick, once its truth was known
    recent: Sequence[Score] = field(default=())  # the latest scores of the champion's forecasts, newest first
    last_rescale: Entry | None = None  # the decision that last changed the scale-out before the moment

    @property
    def of_last_rescale(self) -> Explanation:
        """The same of the decision that last changed the scale-out; itself where there was none."""
        last = self.last_rescale
        return self if last is None else replace(self, at_s=last.intent.made_s, entry=last)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON-serialisable values; stable names under ``schema``."""
        return {
            "schema": SCHEMA,
            "job": self.job,
            "at_s": self.at_s,
            "status": None if self.status is None else {"status": self.status.status, "sentence": self.status.sentence},
            "paused_until_s": None if self.pause is None else self.pause.until_s,
            "decision": None if self.entry is None else decision_of(self.entry),
            "forecast_wape": None if self.score is None else self.score.wape,
            "recent_wape": [{"origin_s": forecast.origin_s, "wape": forecast.wape} for forecast in self.recent],
            "last_rescale": None if self.last_rescale is None else decision_of(self.last_rescale),
        }


def explain(
    store: StateStore,
    job: str,
    at_s: float | None = None,
    *,
    job_file_until: datetime | None = None,
    now_s: float | None = None,
) -> Explanation:
    """Return why a job runs as it does, now or at ``at_s`` (epoch seconds): the last decision made until then.

    ``job_file_until``: ``paused_until`` of the job's file, where that is known.
    ``now_s``: epoch seconds: what was decided by a clock that has been set back since is left out; ``None``: it is not.
    """
    until_s = now_s + CLOCK_BACK_S if at_s is None and now_s is not None else at_s
    entry = next(iter(store.ledger.decisions(job, until_s=until_s, limit=1)), None)
    status = store.journal.statuses().get(job) if at_s is None else None
    pause = None
    if entry is not None and at_s is None:
        made_s = entry.intent.made_s
        pause = later_pause(store.journal.pauses(made_s).get(job), job_file_until, made_s)
    return Explanation(
        job=job,
        at_s=at_s,
        entry=entry,
        status=status,
        pause=pause,
        score=_score_of(store, job, entry),
        recent=tuple(store.learned.scores(job, until_s=until_s, limit=LAST_SCORES)),
        last_rescale=next(iter(store.ledger.decisions(job, until_s=until_s, states=RESCALES, limit=1)), None),
    )


def _score_of(store: StateStore, job: str, entry: Entry | None) -> Score | None:
    """Return the score of the forecast that a decision was made by; ``None`` without one, or before it is settled."""
    if entry is None:
        return None
    origin_s = entry.intent.explanation.get("believed", {}).get("forecast", {}).get("origin_s")
    if origin_s is None:
        return None
    return next(iter(store.learned.scores(job, since_s=origin_s, until_s=origin_s, limit=1)), None)


def decision_of(entry: Entry, *, account: bool = True) -> dict[str, Any]:
    """Return a decision and what came of it as JSON-serialisable values; ``account``: with all that it rests on."""
    intent = entry.intent
    return {
        "decision_id": entry.decision_id,
        "made_s": intent.made_s,
        "last_s": entry.seen_s,
        "ticks": entry.ticks,
        "window_end_s": intent.window_end_s,
        "valid_until_s": intent.valid_until_s,
        "from_scale_out": intent.from_scale_out,
        "scale_out": intent.scale_out,
        "from_mix": dict(intent.from_mix),
        "mix": dict(intent.mix),
        "policy": intent.policy,
        "reason": intent.reason,
        "sentence": intent.sentence,
        "act": intent.act,
        "versions": dict(intent.versions),
        **(intent.explanation if account else {}),
        "state": entry.state.value,
        "attempts": entry.attempts,
        "applied_s": entry.applied_s,
        "closed_s": entry.closed_s,
        "error": entry.error,
        "predicted_recovery_s": intent.predicted_recovery_s,
        "observed_recovery_s": entry.observed_recovery_s,
        "outcome": None if entry.outcome is None else dict(entry.outcome),
    }

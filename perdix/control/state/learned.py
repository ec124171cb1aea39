"""What the loop has learned of each job: its documents, and the forecasts that still await their truth."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from perdix.control.state.packing import packed, unpacked
from perdix.control.state.quick import quick
from perdix.control.state.schema import Transactions, forecasts, from_text, keep_first, keep_last, learned, to_text
from perdix.models.forecasting.contract import Forecast

WORTH_PACKING = 400  # characters
# Statements are made once: to build one costs more than to run it, and a tick runs a dozen.
_JOB = learned.c.job == sa.bindparam("of_job")
_OF_JOB = sa.select(learned).where(_JOB)
_STAMPS = quick(sa.select(learned.c.kind, learned.c.learned_s).where(_JOB))
_LEARN = quick(keep_last(learned, learned.c.keys()))
_THIS = (forecasts.c.job == sa.bindparam("of_job"), forecasts.c.origin_s == sa.bindparam("of_origin_s"))
_MADE = ("job", "origin_s", "step_s", "family", "version", "probabilities", "rates")
_KEEP = quick(keep_first(forecasts, _MADE))
_SETTLE = quick(
    forecasts.update()
    .where(*_THIS, forecasts.c.settled_s.is_(None))
    .values(settled_s=sa.bindparam("now_s"), wape=sa.bindparam("score"))
    .values(rates=sa.null(), probabilities=sa.literal_column("''"))
)


@dataclass(frozen=True)
class Kind:
    """A kind of document, and the number of its present schema (raise it when the document's meaning changes)."""

    name: str
    schema: int = 1


@dataclass(frozen=True)
class Learned:
    """What was learned of one kind.

    ``document`` is ``None`` when there is nothing to build on: start afresh. ``note`` then says why, if something was
    stored that cannot be used.
    """

    document: Mapping[str, Any] | None = None
    learned_s: float | None = None
    note: str | None = None


@dataclass(frozen=True)
class Score:
    """The WAPE (1.0 = 100 %) of a forecast whose truth has come; ``None`` where that was never measured."""

    origin_s: float
    wape: float | None


@dataclass(frozen=True)
class LearnedState:
    """Reads and writes what was learned. Each method is one transaction."""

    transactions: Transactions

    def recall(self, job: str, *kinds: Kind) -> dict[str, Learned]:
        """Return what is known of each kind, by the kind's name; every kind asked for is in the answer."""
        with self.transactions.reading() as connection:
            rows = {row.kind: row for row in connection.execute(_OF_JOB, {"of_job": job})}
        return {kind.name: _understood(rows.get(kind.name), kind) for kind in kinds}

    def stamps(self, job: str, *kinds: Kind) -> dict[str, float]:
        """Return when each kind was learned last, epoch seconds: whether somebody else has written since."""
        names = {kind.name for kind in kinds}
        with self.transactions.reading() as connection:
            found = connection.execute(_STAMPS, {"of_job": job}).all()
        return {name: learned_s for name, learned_s in found if name in names}

    def learn(self, job: str, now_s: float, documents: Mapping[Kind, Mapping[str, Any]]) -> None:
        """Keep documents, all or none, in place of those of the same kinds.

        Raises ``ValueError``, naming the key of a number that is not finite: it would poison every later tick.
        """
        rows = [
            {**_stored(text), "job": job, "kind": kind.name, "schema_number": kind.schema, "learned_s": now_s}
            for kind, text in ((kind, _checked(kind, document)) for kind, document in documents.items())
        ]
        with self.transactions.writing() as connection:
            if rows:
                connection.execute(_LEARN, rows)

    def save_forecast(self, job: str, forecast: Forecast) -> bool:
        """Keep a forecast until its truth is known; ``False`` when the job's forecast of that origin is already kept.

        Its numbers are kept with 32 bits.
        """
        probabilities = sorted(forecast.quantiles)
        rates = np.vstack([forecast.mean, *(forecast.quantiles[p] for p in probabilities)])
        row = {"job": job, "origin_s": forecast.origin_s, "step_s": forecast.step_s}
        row |= {"family": forecast.family, "version": forecast.version, "probabilities": to_text(probabilities)}
        with self.transactions.writing_once() as connection:
            kept = connection.execute(_KEEP, {**row, "rates": rates.astype("<f4").tobytes()})
            return kept.rowcount == 1

    def pending_forecasts(self, job: str) -> list[Forecast]:
        """Return the job's forecasts that were not settled, oldest first."""
        query = sa.select(forecasts).where(forecasts.c.job == job, forecasts.c.settled_s.is_(None))
        with self.transactions.reading() as connection:
            return [_to_forecast(row) for row in connection.execute(query.order_by(forecasts.c.origin_s))]

    def settle(self, job: str, origin_s: float, now_s: float, wape: float | None) -> bool:
        """Keep a forecast's score and drop its values; ``wape`` is ``None`` when its truth was never measured.

        Returns ``False`` when no such forecast was pending.
        """
        score = None if wape is None or not math.isfinite(wape) else wape
        values = {"of_job": job, "of_origin_s": origin_s, "now_s": now_s, "score": score}
        with self.transactions.writing_once() as connection:
            return connection.execute(_SETTLE, values).rowcount == 1

    def scores(self, job: str, *, since_s: float = 0.0, until_s: float | None = None, limit: int = 100) -> list[Score]:
        """Return settled forecasts with origins from ``since_s`` up to and with ``until_s``, newest first.

        ``since_s``, ``until_s``: epoch seconds; ``until_s`` is ``None``: up to the newest.
        ``limit``: how many at most.
        """
        query = sa.select(forecasts.c.origin_s, forecasts.c.wape).where(forecasts.c.job == job)
        query = query.where(forecasts.c.settled_s.is_not(None), forecasts.c.origin_s >= since_s)
        if until_s is not None:
            query = query.where(forecasts.c.origin_s <= until_s)
        query = query.order_by(forecasts.c.origin_s.desc()).limit(limit)
        with self.transactions.reading() as connection:
            return [Score(*row) for row in connection.execute(query)]

    def prune(self, before_s: float) -> int:
        """Forget forecasts, settled or not, whose origin lies before ``before_s``; returns how many went."""
        with self.transactions.writing() as connection:
            return connection.execute(forecasts.delete().where(forecasts.c.origin_s < before_s)).rowcount


def _understood(row: Any, kind: Kind) -> Learned:
    if row is None:
        return Learned()
    if row.schema_number != kind.schema:
        known = f"schema {row.schema_number}, this perdix knows {kind.schema}"
        return Learned(note=f"'{kind.name}' was stored with {known}; starting afresh")
    try:
        document = from_text(row.document if row.packed is None else unpacked(bytes(row.packed)))
    except ValueError as error:
        return Learned(note=f"'{kind.name}' is stored but is not JSON ({error}); starting afresh")
    return Learned(document, row.learned_s)


def _stored(text: str) -> dict[str, Any]:
    if len(text) < WORTH_PACKING:
        return {"document": text, "packed": None}
    return {"document": "", "packed": packed(text)}


def _checked(kind: Kind, document: Mapping[str, Any]) -> str:
    text = to_text(dict(document))
    place = _not_finite(document) if "null" in text else None  # as which it is written
    if place is not None:
        raise ValueError(f"{kind.name}{place} is not a finite number; what is learned must be finite")
    return text


def _not_finite(value: Any) -> str | None:
    """Return where in a document there is a number that is not finite, as ``.key[index]``; ``None`` where none is."""
    kind = type(value)  # asked first, in the order of how many there are: a document has hundreds, at every tick
    if kind is float or kind is str or kind is int or value is None:
        return "" if kind is float and not math.isfinite(value) else None
    if kind is dict or isinstance(value, Mapping):
        for key, item in value.items():
            if (found := _not_finite(item)) is not None:
                return f".{key}{found}"
    elif kind is list or isinstance(value, list | tuple):
        if set(map(type, value)) == {float}:  # the tail of a workload, the lines of workers
            return None if math.isfinite(sum(value)) or np.isfinite(value).all() else ""  # too large a sum is no fault
        for index, item in enumerate(value):
            if (found := _not_finite(item)) is not None:
                return f"[{index}]{found}"
    elif isinstance(value, float | np.floating | np.ndarray):
        return None if np.isfinite(value).all() else ""
    return None


def _to_forecast(row: Any) -> Forecast:
    probabilities = from_text(row.probabilities)
    rates = np.frombuffer(row.rates, dtype="<f4").astype(np.float64).reshape(1 + len(probabilities), -1)
    quantiles = dict(zip(probabilities, rates[1:], strict=True))
    return Forecast(row.origin_s, row.step_s, rates[0], quantiles, row.family, row.version)

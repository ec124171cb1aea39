"""Evaluating PromQL over scraped series, at many steps at once, by Prometheus' rules."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdix.telemetry.series import Series
from perdix.telemetry.window import Values
from perdix.twin.promql import (
    COMPARISONS,
    NAME,
    SET_OPERATORS,
    Aggregate,
    Binary,
    Call,
    Expression,
    Matcher,
    Number,
    PromQLError,
    Selector,
)

Fetch = Callable[[tuple[Matcher, ...], float, float], list[Series]]
Key = tuple[tuple[str, str], ...]  # labels
LOOKBACK_S = 300.0
SAME_LABELS = "vector cannot contain metrics with the same labelset"
MANY_ON_THE_RIGHT = "found duplicate series for the match group on the right hand-side of the operation"
MANY_ON_THE_LEFT = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"


@dataclass(frozen=True)
class Result:
    """One series of a result: its labels, and a value per step (NaN where there is none)."""

    labels: Mapping[str, str]
    values: Values


def evaluate(expression: Expression, steps_s: Values, fetch: Fetch, lookback_s: float = LOOKBACK_S) -> list[Result]:
    """Return the series of ``expression`` at ``steps_s``; a scalar becomes one series without labels.

    ``fetch(matchers, from_s, to_s)`` gives the raw series; NaN in them is a staleness marker. A sample counts for
    ``lookback_s`` seconds.

    Raises ``PromQLError`` when the expression asks for what Prometheus would refuse, or for what the twin does not
    know.
    """
    try:
        found = _Evaluation(steps_s, fetch, lookback_s).of(expression)
    except RecursionError:
        raise PromQLError("nested too deeply") from None
    results = [Result({}, found)] if isinstance(found, np.ndarray) else found
    return [result for result in results if not np.isnan(result.values).all()]


class _Evaluation:
    def __init__(self, steps_s: Values, fetch: Fetch, lookback_s: float) -> None:
        self._steps_s = steps_s
        self._fetch = fetch
        self._lookback_s = lookback_s

    def of(self, expression: Expression) -> list[Result] | Values:
        """Return a vector, or an array for a scalar."""
        match expression:
            case Number(value):
                return np.full(len(self._steps_s), value)
            case Selector(_, None):
                return [
                    Result(_named(series), self._instant(series)) for series in self._read(expression, self._lookback_s)
                ]
            case Selector():
                raise PromQLError("a range vector is only understood inside a function such as rate()")
            case Call():
                return self._call(expression)
            case Aggregate():
                return _aggregate(expression, self._vector(expression.argument))
            case Binary():
                return _binary(expression, self.of(expression.left), self.of(expression.right))

    def _vector(self, expression: Expression) -> list[Result]:
        found = self.of(expression)
        if isinstance(found, np.ndarray):
            raise PromQLError("expected an instant vector, found a scalar")
        return found

    def _read(self, selector: Selector, back_s: float) -> list[Series]:
        return self._fetch(selector.matchers, float(self._steps_s[0]) - back_s, float(self._steps_s[-1]) + 1e-3)

    def _instant(self, series: Series) -> Values:
        times_s = series.times_ms / 1000.0
        newest = np.searchsorted(times_s, self._steps_s, side="right") - 1
        fresh = (newest >= 0) & (self._steps_s - times_s[np.maximum(newest, 0)] < self._lookback_s)
        return np.where(fresh, series.values[np.maximum(newest, 0)], np.nan)

    def _call(self, call: Call) -> list[Result] | Values:
        if call.name == "time":
            return self._steps_s.copy()
        match call.arguments:
            case (Selector(_, float() as range_s) as selector,):
                results = []
                for series in self._read(selector, range_s):
                    labels = dict(series.labels) if call.name != "last_over_time" else _named(series)
                    results.append(Result(labels, _over(call.name, series, self._steps_s, range_s)))
                return _merged(results)
        raise PromQLError(f"{call.name}() expects one range vector, such as metric[5m]")


def _merged(results: Iterable[Result]) -> list[Result]:
    """Return one result for each set of labels. Raises ``PromQLError`` where two have a value at the same step."""
    found = _one_each(((tuple(sorted(r.labels.items())), r.values) for r in results), SAME_LABELS)
    return [Result(dict(labels), values) for labels, values in found.items()]


def _one_each(found: Iterable[tuple[Key, Values]], otherwise: str) -> dict[Key, Values]:
    """Return the values of each key, of however many series that follow each other.

    Raises ``PromQLError(otherwise)`` where two have a value at the same step.
    """
    each: dict[Key, Values] = {}
    for key, values in found:
        before = each.setdefault(key, values)
        if before is not values:
            if (~np.isnan(before) & ~np.isnan(values)).any():
                raise PromQLError(otherwise)
            each[key] = np.where(np.isnan(before), values, before)
    return each


def _named(series: Series) -> dict[str, str]:
    return {NAME: series.metric, **series.labels}


def _over(name: str, series: Series, steps_s: Values, range_s: float) -> Values:
    """Apply a function to the samples in ``(step - range, step]`` of every step."""
    real = ~np.isnan(series.values)
    times_s, values = series.times_ms[real] / 1000.0, series.values[real]
    first = np.searchsorted(times_s, steps_s - range_s, side="right")
    end = np.searchsorted(times_s, steps_s, side="right")
    result = np.full(len(steps_s), np.nan)
    there = np.flatnonzero(end - first > (1 if name in {"rate", "increase"} else 0))
    if not len(there):
        return result
    first, end = first[there], end[there]
    if name in {"rate", "increase"}:
        grown = _increase(times_s, values, (first, end - 1), steps_s[there], range_s)
        result[there] = grown / range_s if name == "rate" else grown
    elif name == "last_over_time":
        result[there] = values[end - 1]
    elif name in {"min_over_time", "max_over_time"}:
        reduce = np.minimum if name == "min_over_time" else np.maximum
        result[there] = [reduce.reduce(values[a:b]) for a, b in zip(first, end, strict=True)]
    else:
        sums = np.concatenate(([0.0], np.cumsum(values)))
        total, count = sums[end] - sums[first], end - first
        result[there] = {"sum_over_time": total, "count_over_time": count, "avg_over_time": total / count}[name]
    return result


def _increase(
    times_s: Values, values: Values, span: tuple[NDArray[np.intp], NDArray[np.intp]], steps_s: Values, range_s: float
) -> Values:
    """Return by how much a counter grew, with its resets undone and the ends of the range extrapolated (Prometheus).

    ``span`` holds the first and the last sample within the range of each step.
    """
    first, last = span
    dropped = np.where(np.diff(values) < 0, values[:-1], 0.0)
    continued = values + np.concatenate(([0.0], np.cumsum(dropped)))
    grown, sampled_s = continued[last] - continued[first], times_s[last] - times_s[first]
    between_s = sampled_s / (last - first)
    to_start_s = times_s[first] - (steps_s - range_s)
    to_end_s = steps_s - times_s[last]
    to_start_s = np.where(to_start_s >= 1.1 * between_s, between_s / 2, to_start_s)
    to_end_s = np.where(to_end_s >= 1.1 * between_s, between_s / 2, to_end_s)
    to_zero_s = sampled_s * values[first] / np.where(grown > 0, grown, 1.0)  # a counter did not begin below zero
    to_start_s = np.where((grown > 0) & (values[first] >= 0), np.minimum(to_start_s, to_zero_s), to_start_s)
    return np.asarray(grown * (sampled_s + to_start_s + to_end_s) / sampled_s)


def _aggregate(aggregate: Aggregate, vector: list[Result]) -> list[Result]:
    groups: dict[Key, list[Values]] = {}
    for result in vector:
        dropped = {*aggregate.labels, NAME}
        kept = {
            label: value
            for label, value in result.labels.items()
            if (label not in dropped if aggregate.without else label in aggregate.labels)
        }
        groups.setdefault(tuple(sorted(kept.items())), []).append(result.values)
    return [Result(dict(key), _reduced(aggregate.name, np.array(members))) for key, members in groups.items()]


def _reduced(name: str, members: Values) -> Values:
    """Reduce the rows; NaN is absent, and a step at which all are absent stays absent."""
    there = ~np.isnan(members)
    count = there.sum(axis=0)
    if name == "count":
        result = count.astype(np.float64)
    elif name == "group":
        result = np.ones(len(count))
    elif name in {"min", "max"}:
        filler = np.inf if name == "min" else -np.inf
        filled = np.where(there, members, filler)
        result = filled.min(axis=0) if name == "min" else filled.max(axis=0)
    else:
        result = np.where(there, members, 0.0).sum(axis=0)
        if name == "avg":
            result = result / np.maximum(count, 1)
    return np.where(count > 0, result, np.nan)


def _binary(binary: Binary, left: list[Result] | Values, right: list[Result] | Values) -> list[Result] | Values:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if binary.op in COMPARISONS:
            raise PromQLError("comparisons between scalars must use BOOL modifier")
        return _operated(binary.op, left, right)
    if isinstance(right, np.ndarray) and isinstance(left, list):
        return _merged(Result(_kept(binary.op, r.labels), _operated(binary.op, r.values, right)) for r in left)
    if isinstance(left, np.ndarray) and isinstance(right, list):
        return _merged(
            Result(_kept(binary.op, r.labels), _operated(binary.op, left, r.values, right_is_vector=True))
            for r in right
        )
    assert isinstance(left, list)
    assert isinstance(right, list)
    return _set(binary, left, right) if binary.op in SET_OPERATORS else _matched(binary, left, right)


def _matched(binary: Binary, left: list[Result], right: list[Result]) -> list[Result]:
    partners = _one_each(((_key(result, binary.on), result.values) for result in right), MANY_ON_THE_RIGHT)
    keyed = [(key, result) for result in left if (key := _key(result, binary.on)) in partners]
    found = [_operated(binary.op, result.values, partners[key]) for key, result in keyed]
    if binary.many or binary.on is None:
        labels = [_kept(binary.op, result.labels) for _, result in keyed]
    else:
        labels = [{label: value for label, value in key if value} for key, _ in keyed]
    if not binary.many:
        _one_each(((key, values) for (key, _), values in zip(keyed, found, strict=True)), MANY_ON_THE_LEFT)
    return _merged(map(Result, labels, found))


def _set(binary: Binary, left: list[Result], right: list[Result]) -> list[Result]:
    def there(side: list[Result], result: Result) -> NDArray[np.bool_]:
        key = _key(result, binary.on)
        rows = [~np.isnan(other.values) for other in side if _key(other, binary.on) == key]
        return np.any(rows, axis=0) if rows else np.zeros(len(result.values), dtype=np.bool_)

    if binary.op == "or":
        extra = [Result(r.labels, np.where(there(left, r), np.nan, r.values)) for r in right]
        return _merged([*left, *extra])
    wanted = binary.op == "and"
    return [Result(r.labels, np.where(there(right, r) == wanted, r.values, np.nan)) for r in left]


def _key(result: Result, on: tuple[str, ...] | None) -> Key:
    if on is None:
        return tuple(sorted((k, v) for k, v in result.labels.items() if k != NAME))
    return tuple((label, result.labels.get(label, "")) for label in on)


def _kept(op: str, labels: Mapping[str, str]) -> dict[str, str]:
    """A comparison filters and keeps the metric's name; arithmetic drops it."""
    return {k: v for k, v in labels.items() if k != NAME or op in COMPARISONS}


def _operated(op: str, left: Values, right: Values, *, right_is_vector: bool = False) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        arithmetic: Mapping[str, Callable[[Values, Values], Values]] = {
            "+": np.add,
            "-": np.subtract,
            "*": np.multiply,
            "/": np.divide,
        }
        if op in arithmetic:
            return np.asarray(arithmetic[op](left, right))
        compare: Mapping[str, Callable[[Values, Values], NDArray[np.bool_]]] = {
            "==": np.equal,
            "!=": np.not_equal,
            "<": np.less,
            ">": np.greater,
            "<=": np.less_equal,
            ">=": np.greater_equal,
        }
        if op not in compare:
            raise PromQLError(f"set operator {op!r} not allowed in binary scalar expression")
        kept = compare[op](left, right) & ~np.isnan(left) & ~np.isnan(right)
        return np.where(kept, right if right_is_vector else left, np.nan)

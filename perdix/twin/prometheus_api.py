"""Answers in the form of Prometheus' HTTP API, as plain functions of parameters; no sockets here."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from perdix.twin.exports import prometheus_text
from perdix.twin.living import LivingTwin
from perdix.twin.promql import PromQLError, parse, seconds_of
from perdix.twin.promql_evaluation import LOOKBACK_S, evaluate

MAXIMUM_POINTS: Final = 11_000
Answer = tuple[int, dict[str, Any]]
# Of /api/v1/status/buildinfo: a Prometheus of version 0, for that is what the twin is
BUILD: Final[dict[str, Any]] = {"status": "success", "data": {"version": "0.0.0-perdix-twin", "goVersion": "none"}}
_TOO_MANY: Final = (
    "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"
)


class BadParameterError(ValueError):
    """A parameter that Prometheus refuses."""


def query_range(living: LivingTwin, parameters: Mapping[str, str]) -> Answer:
    """Answer ``/api/v1/query_range``."""
    try:
        start_s, end_s = _time(parameters, "start"), _time(parameters, "end")
        step_s = _duration(parameters, "step")
        if end_s < start_s:
            raise BadParameterError('invalid parameter "end": end timestamp must not be before start time')
        if (end_s - start_s) / step_s > MAXIMUM_POINTS:
            raise BadParameterError(_TOO_MANY)
        steps_s = start_s + step_s * np.arange(math.floor((end_s - start_s) / step_s + 1e-9) + 1, dtype=np.float64)
        results = _evaluated(living, parameters, steps_s)
    except (PromQLError, BadParameterError) as error:
        return _bad(str(error))
    times_s = _shown(steps_s)
    matrix = [{"metric": labels, "values": _points(times_s, values)} for labels, values in results]
    return _success("matrix", matrix)


def query(living: LivingTwin, parameters: Mapping[str, str]) -> Answer:
    """Answer ``/api/v1/query`` with an instant vector, at ``time`` or now."""
    try:
        time_s = _time(parameters, "time") if "time" in parameters else living.now_s()
        results = _evaluated(living, parameters, np.array([time_s]))
    except (PromQLError, BadParameterError) as error:
        return _bad(str(error))
    times_s = _shown(np.array([time_s]))
    vector = [{"metric": labels, "value": _points(times_s, values)[0]} for labels, values in results]
    return _success("vector", vector)


def _evaluated(
    living: LivingTwin, parameters: Mapping[str, str], steps_s: NDArray[np.float64]
) -> list[tuple[dict[str, str], NDArray[np.float64]]]:
    text = parameters.get("query", "")
    if not text.strip():
        raise BadParameterError(
            'invalid parameter "query": unknown position: parse error: no expression found in input'
        )
    expression = parse(text)
    lookback_s = _duration(parameters, "lookback_delta") if parameters.get("lookback_delta") else LOOKBACK_S
    found = evaluate(expression, steps_s, living.series, lookback_s)
    return [(dict(result.labels), result.values) for result in found]


def _shown(steps_s: NDArray[np.float64]) -> list[float]:
    return [round(time_s, 3) for time_s in steps_s.tolist()]


def _points(times_s: list[float], values: NDArray[np.float64]) -> list[list[Any]]:
    pairs = zip(times_s, values.tolist(), strict=True)
    return [[time_s, prometheus_text(value)] for time_s, value in pairs if not math.isnan(value)]


def _time(parameters: Mapping[str, str], name: str) -> float:
    text = parameters.get(name, "")
    try:
        time_s = float(text)
    except ValueError:
        time_s = _rfc3339_s(text)
    if not math.isfinite(time_s):
        raise BadParameterError(f'invalid parameter "{name}": cannot parse "{text}" to a valid timestamp')
    return time_s


def _rfc3339_s(text: str) -> float:
    """Return the epoch seconds of a date with its zone; NaN for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return moment.timestamp() if moment.tzinfo else math.nan


def _duration(parameters: Mapping[str, str], name: str) -> float:
    try:
        seconds = seconds_of(parameters.get(name, ""))
    except PromQLError as error:
        raise BadParameterError(f'invalid parameter "{name}": {error}') from None
    if not (seconds > 0 and math.isfinite(seconds)):
        raise BadParameterError(
            f'invalid parameter "{name}": zero or negative query resolution step widths are not accepted. '
            "Try a positive integer"
        )
    return seconds


def _success(kind: str, result: list[dict[str, Any]]) -> Answer:
    return 200, {"status": "success", "data": {"resultType": kind, "result": result}}


def _bad(message: str) -> Answer:
    return 400, {"status": "error", "errorType": "bad_data", "error": message}

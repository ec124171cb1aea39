"""What a Prometheus server can answer with, and what each answer means.

Belongs here: status codes and JSON, without any network. Does not belong here: asking
(``perdix.telemetry.prometheus``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import orjson

from perdix.settings.plain_error import PlainError
from perdix.settings.secrets import masked
from perdix.telemetry.http_client import Answer
from perdix.telemetry.series import Series

LATEST_S = 9e15  # epoch seconds whose milliseconds are a whole number of 64 bits
ErrorKind = Literal["unreachable", "timeout", "overloaded", "unauthorised", "rejected", "malformed"]


class PrometheusError(PlainError):
    """A question that got no usable answer. ``kind`` is for programs, the message for people; no secret is in either.

    ``unreachable``, ``timeout`` and ``overloaded`` (429, 5xx) pass with time and were retried; ``unauthorised``,
    ``rejected`` (the query or its range) and ``malformed`` (not Prometheus' JSON) have to be fixed.
    """

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind

    @property
    def of_the_server(self) -> bool:
        """Whether the server failed, so that whatever else it is asked fails, too; else it refused one question."""
        return self.kind not in ("rejected", "malformed")


def document_of(answer: Answer, name: str) -> dict[str, Any]:
    """Return the JSON of a success; raises anything else as the ``PrometheusError`` that it is."""
    status = answer.status
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        document = None
    error = document.get("error") if isinstance(document, dict) else None
    said = answer.without_secrets(str(error)) if error else ""
    if status in {401, 403, 407}:
        raise PrometheusError("unauthorised", f"{name} refuses access (HTTP {status}); check prometheus.token_file")
    if status == 429 or status >= 500:
        raise PrometheusError("overloaded", f"{name} answers HTTP {status}: {said or 'overloaded or broken'}")
    if 300 <= status < 400:
        raise PrometheusError("rejected", f"{name} redirects (HTTP {status}); set prometheus.url to where it leads")
    if status >= 400:
        raise PrometheusError("rejected", f"{name} refuses the query (HTTP {status}): {said or 'is the URL right?'}")
    if not isinstance(document, dict):
        page = "html" in answer.content_type or answer.body[:1] == b"<"
        what = "a web page (a login or a proxy?)" if page else "broken JSON"
        raise PrometheusError("malformed", f"{name} answers with {what} instead of Prometheus' JSON")
    if document.get("status") != "success":
        raise PrometheusError("rejected", f"{name} refuses the query: {said or 'no reason given'}")
    return document


def warnings_of(document: Mapping[str, Any], secrets: Sequence[str], name: str) -> list[str]:
    """Return what a success warns of: an answer with warnings may be partial.

    ``secrets``: what the request carried; it is masked in the warnings.

    ``infos``, such as that a metric might not be a counter, are about the query, and no sign of that.
    """
    warned = document.get("warnings")
    found = [masked(str(text), secrets) for text in warned] if isinstance(warned, list) else []
    if document.get("isPartial"):
        found.append(f"{name} answered in part: some of its stores did not")
    return found


def results(
    document: Mapping[str, Any], secrets: Sequence[str], name: str
) -> Iterator[tuple[dict[str, str], list[float], list[float]]]:
    """Yield labels, times (epoch seconds) and values of each series of a matrix.

    Raises ``PrometheusError``: ``malformed``, when it is no matrix.

    ``secrets``: what the request carried; it is masked in what the error quotes.
    """
    try:
        data = document["data"]
        if data["resultType"] != "matrix":
            raise ValueError(f"a {data['resultType']} instead of a matrix")
        for result in data["result"]:
            labels = {str(name): str(value) for name, value in result["metric"].items()}
            points = result.get("values") or []
            yield labels, [float(point[0]) for point in points], [float(point[1]) for point in points]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        quotes = isinstance(error, ValueError)  # what others say is about Python
        why = masked(str(error), secrets) if quotes else "parts of it are missing, or of another kind"
        raise PrometheusError("malformed", f"{name} sent JSON that is not a range of series: {why}") from None


def joined(labels: dict[str, str], parts: Sequence[tuple[list[float], list[float]]], name: str) -> Series:
    """Return the pages of one label set as one series.

    Raises ``PrometheusError``: ``malformed``, when a time is none, or none that milliseconds can be counted to.
    """
    times = np.concatenate([np.asarray(part[0], dtype=np.float64) for part in parts])
    bad = times[~(np.abs(times) < LATEST_S)]  # NaN, too
    if len(bad):
        raise PrometheusError("malformed", f"{name} sent samples at times that are none, such as {bad[0]:g}")
    values = np.concatenate([np.asarray(part[1], dtype=np.float64) for part in parts])
    return Series(labels.pop("__name__", ""), None, np.rint(times * 1000.0).astype(np.int64), values, labels)

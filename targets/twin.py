"""The digital twin as a target: over HTTP for a living one, in process for a replay."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from targets.contract import Running, TargetError
from twin.job import JobTwin

TIMEOUT_S = 5.0


class TwinTarget:
    """A job of a twin that serves at ``url`` (:mod:`twin.prometheus_face`).

    Parameters
    ----------
    timeout_s
        Seconds that each of connecting, sending and reading may take.
    """

    def __init__(self, url: str, job: str, timeout_s: float = TIMEOUT_S) -> None:
        self._address = f"{url.rstrip('/')}/jobs/{quote(job, safe='')}/scale"
        self._client = httpx.Client(timeout=timeout_s)

    def read(self) -> Running:
        """Return what really runs."""
        return self._asked("GET")

    def scale(self, scale_out: int, idempotency_key: str, mix: Mapping[str, int] | None = None) -> Running:
        """Ask for ``scale_out`` workers."""
        body: dict[str, Any] = {"scale_out": scale_out, "idempotency_key": idempotency_key}
        return self._asked("PUT", body | ({"mix": dict(mix)} if mix else {}))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _asked(self, method: str, body: dict[str, Any] | None = None) -> Running:
        try:
            response = self._client.request(method, self._address, json=body)
        except httpx.TimeoutException:
            raise TargetError(f"{self._address}: no answer in time; it may still have been carried out") from None
        except httpx.TransportError as error:
            raise TargetError(f"{self._address}: cannot be reached: {error}") from None
        except (httpx.InvalidURL, RuntimeError) as error:
            raise TargetError(f"{self._address}: cannot be asked: {error}", retriable=False) from None
        if response.is_error or response.is_redirect:
            retriable = response.status_code >= 500 or response.status_code in {408, 425, 429}
            raise TargetError(f"{self._address}: {response.status_code}: {_reason(response)}", retriable=retriable)
        return _running(self._address, response)


class LocalTwinTarget:
    """A twin of this process, for replays and tests."""

    def __init__(self, twin: JobTwin) -> None:
        self._twin = twin

    def read(self) -> Running:
        """Return what really runs."""
        twin = self._twin
        return Running(twin.scale_out, twin.requested, twin.settled, twin.mix, twin.requested_mix)

    def scale(self, scale_out: int, idempotency_key: str, mix: Mapping[str, int] | None = None) -> Running:
        """Ask for ``scale_out`` workers."""
        if not idempotency_key:
            raise TargetError("an idempotency key must not be empty", retriable=False)
        try:
            self._twin.rescale(scale_out, idempotency_key, mix)
        except ValueError as error:
            raise TargetError(str(error), retriable=False) from None
        return self.read()


def _reason(response: httpx.Response) -> str:
    try:
        answer = response.json()
        return str(answer["error"])
    except (ValueError, KeyError, TypeError):
        return response.reason_phrase or "no reason given"


def _running(address: str, response: httpx.Response) -> Running:
    """Read the answer; anything else (a proxy's page, for example) may be gone at the next try."""
    try:
        answer = response.json()
        scale_out, requested, settled = answer["scale_out"], answer["requested"], answer["settled"]
        mixes = [answer.get(name) or {} for name in ("mix", "requested_mix")]
        told_apart = all(type(count) is int for mix in mixes for count in mix.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TargetError(f"{address}: not the answer of a twin: {response.text[:80]!r}") from None
    if (
        not told_apart
        or type(scale_out) is not int
        or type(settled) is not bool
        or not (requested is None or type(requested) is int)
    ):
        raise TargetError(f"{address}: not the answer of a twin: {response.text[:80]!r}")
    return Running(scale_out, requested, settled, *mixes)

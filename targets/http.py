"""Asking a target over HTTP: every way in which that can fail becomes one ``TargetError`` in plain words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from settings.access import AccessError, HttpAccess
from targets.contract import TargetError
from telemetry.http_access import shown, trust

TIMEOUT_S = 5.0
PASSING = frozenset({401, 403, 408, 425, 429})  # not about what was asked: may be mended without asking otherwise
SHOWN = 200

Answer = TypeVar("Answer", bound=BaseModel)


class HttpTarget:
    """A connection to one server.

    Parameters
    ----------
    access
        Address, token, certificates.
    what
        What answers there, for messages: ``Flink``.
    reason_of
        Finds the server's own words in the JSON of a refusal; raises ``KeyError``, ``TypeError`` or ``IndexError``
        where there are none.
    timeout_s
        Seconds that each of connecting, sending and reading may take.

    Raises
    ------
    TargetError
        When the certificate authorities that are named cannot be used.
    """

    def __init__(
        self, access: HttpAccess, what: str, reason_of: Callable[[Any], object], timeout_s: float = TIMEOUT_S
    ) -> None:
        self.address = shown(access)
        self._base = str(access.url).rstrip("/")
        self._access, self._what, self._reason_of = access, what, reason_of
        try:
            self._client = httpx.Client(timeout=timeout_s, **trust(access))
        except AccessError as error:
            raise TargetError(str(error), retriable=False) from None

    def asked(self, method: str, path: str, answer: type[Answer], body: Any = None) -> Answer:
        """Send a request and read its answer.

        Raises
        ------
        TargetError
            Naming the address. It is retriable unless the server refused what was asked.
        """
        place = self.address + path
        try:
            headers = self._access.headers()
            response = self._client.request(method, self._base + path, json=body, headers=headers)
        except AccessError as error:
            raise TargetError(str(error)) from None
        except httpx.TimeoutException:
            raise TargetError(f"{place}: no answer in time; it may still have been carried out") from None
        except httpx.TransportError as error:
            raise TargetError(f"{place}: cannot be reached: {error}") from None
        except (httpx.InvalidURL, RuntimeError) as error:
            raise TargetError(f"{place}: cannot be asked: {error}", retriable=False) from None
        if response.is_error or response.is_redirect:
            status = response.status_code
            reason = f"{status}: {self._reason(response)}"
            raise RefusedError(f"{place}: {reason}", status, retriable=status >= 500 or status in PASSING)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError:
            # A proxy's page, for example, which may be gone at the next try.
            raise TargetError(f"{place}: not the answer of {self._what}: {response.text[:80]!r}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _reason(self, response: httpx.Response) -> str:
        try:
            return " ".join(str(self._reason_of(response.json())).split())[:SHOWN]
        except (ValueError, KeyError, TypeError, IndexError):
            return response.reason_phrase or "no reason given"


class RefusedError(TargetError):
    """The server answered, and not with what was asked. ``status`` is its HTTP status."""

    def __init__(self, message: str, status: int, *, retriable: bool) -> None:
        super().__init__(message, retriable=retriable)
        self.status = status

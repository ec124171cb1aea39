"""Asking a target over HTTP: every way in which that can fail becomes one ``TargetError`` in plain words."""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from perdix.settings.access import AccessError, HttpAccess
from perdix.targets.contract import Fault, TargetError
from perdix.telemetry.http_client import MIB, Answer, HttpError, Limits, SharedClients

TIMEOUT_S = 5.0
TOTAL_S = 8.0
LARGEST_ANSWER_BYTES = 8 * MIB
MAYBE_DONE = frozenset({"no answer", "too slow", "broken off", "unreadable", "too large"})
WHO_ASKS = frozenset({401, 403})  # not about what was asked: the same request may succeed once it is fixed
LATER = frozenset({408, 425, 429})
ABOUT_WHAT_IS_SENT = frozenset({400, 409, 422})
SHOWN = 200

_CLIENTS = SharedClients()

Body = TypeVar("Body", bound=BaseModel)


class HttpTarget:
    """A connection to one server.

    Raises ``TargetError`` when the certificate authorities that are named cannot be used.

    ``access``: address, token, certificates.
    ``what``: what answers there, for messages: ``Flink``.
    ``reason_of``: finds the server's own words in the JSON of a refusal; raises ``KeyError``, ``TypeError`` or
    ``IndexError`` where there are none.
    ``timeout_s``: seconds for connecting, and between two pieces of an answer; all of a call may take ``TOTAL_S``.
    ``later``: statuses with which this server says "later", beside those with which all do.
    """

    def __init__(
        self,
        access: HttpAccess,
        what: str,
        reason_of: Callable[[Any], object],
        timeout_s: float = TIMEOUT_S,
        later: Collection[int] = (),
    ) -> None:
        self._what, self._reason_of = what, reason_of
        self._later = LATER.union(later)
        try:
            self._client = _CLIENTS.borrow(access, Limits(timeout_s, TOTAL_S, LARGEST_ANSWER_BYTES))
        except AccessError as error:
            raise TargetError(str(error), retriable=False, fault=Fault.LASTING) from None
        self.address, self._closed = self._client.address, False

    def asked(self, method: str, path: str, answer: type[Body], body: Any = None) -> Body:
        """Send a request and read its answer.

        Raises ``TargetError``, naming the address. It is retriable unless the server refused what was asked.
        """
        place = self.address + path
        try:
            found = self._client.ask(method, path, json=body)
        except AccessError as error:
            raise TargetError(str(error), fault=Fault.LASTING) from None
        except HttpError as error:
            maybe = "; it may still have been carried out" if error.trouble in MAYBE_DONE and method != "GET" else ""
            if error.trouble == "unaskable":
                raise TargetError(f"{place}: it {error}", retriable=False, fault=Fault.LASTING) from None
            raise TargetError(f"{place}: it {error}{maybe}") from None
        if found.status >= 300:
            status = found.status
            reason = f"{status}: {self._reason(found)}"
            raise RefusedError(f"{place}: {reason}", status, sent=body is not None, later=status in self._later)
        try:
            return answer.model_validate_json(found.body)
        except ValidationError:
            # A proxy's page, for example, which may be gone at the next try.
            text = found.without_secrets(found.body.decode(errors="replace"))[:80]
            raise TargetError(f"{place}: not the answer of {self._what}: {text!r}") from None

    def close(self) -> None:
        """Close the connections that no other target uses."""
        if not self._closed:
            self._closed = True
            _CLIENTS.give_back(self._client)

    def _reason(self, found: Answer) -> str:
        try:
            said = found.without_secrets(str(self._reason_of(orjson.loads(found.body))))
            return " ".join(said.split())[:SHOWN]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return found.reason or "no reason given"


class RefusedError(TargetError):
    """The server answered, and not with what was asked.

    ``status``: its HTTP status.
    ``sent``: whether a body was sent.
    ``later``: whether the status says that the same request may succeed later.
    """

    def __init__(self, message: str, status: int, *, sent: bool, later: bool) -> None:
        fault = Fault.LASTING
        if status >= 500 or later:
            fault = Fault.PASSING
        elif sent and status in ABOUT_WHAT_IS_SENT:
            fault = Fault.SIZE
        super().__init__(message, retriable=status >= 500 or later or status in WHO_ASKS, fault=fault)
        self.status = status

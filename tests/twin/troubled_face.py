"""A twin over HTTP whose answers can be made to fail."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from perdix.telemetry.series import Series
from perdix.twin import prometheus_face
from perdix.twin.living import LivingTwin
from perdix.twin.prometheus_api import Answer

TOO_LONG_S = 1.5  # for a client of these tests


@dataclass(frozen=True)
class Trouble:
    """What is wrong with the server."""

    down: bool = False  # every request is answered with 503
    delay_s: float = 0.0  # every answer comes this much later
    newest_s: float | None = None  # no sample after this epoch second is known: the scrapes stand still
    oldest_s: float | None = None  # queries that begin before this epoch second are not answered in time
    refuse_scaling: bool = False  # requests to scale are answered with 503, reading works


class PrometheusFace(prometheus_face.PrometheusFace):
    """Set :attr:`trouble` at any time."""

    def __init__(self, living: LivingTwin, **options: Any) -> None:
        super().__init__(_UpToNewest(living, self), **options)  # type: ignore[arg-type]
        self.trouble = Trouble()
        self.closing = threading.Event()
        self._server.RequestHandlerClass = type("Handler", (_Handler,), {"face": self})

    def close(self) -> None:
        self.closing.set()
        super().close()


class _UpToNewest:
    def __init__(self, living: LivingTwin, face: PrometheusFace) -> None:
        self._living, self._face = living, face

    def __getattr__(self, name: str) -> Any:
        return getattr(self._living, name)

    def series(self, matchers: Any, from_s: float, to_s: float) -> list[Series]:
        newest_s = self._face.trouble.newest_s
        return self._living.series(matchers, from_s, to_s if newest_s is None else min(to_s, newest_s))


class _Handler(prometheus_face._Handler):
    face: PrometheusFace

    def _routed(self, path: str, query: str, body: bytes) -> Answer:
        trouble = self.face.trouble
        if trouble.delay_s:
            self.face.closing.wait(trouble.delay_s)
        if trouble.down or (trouble.refuse_scaling and self.command != "GET" and path.startswith("/jobs/")):
            return 503, {"status": "error", "errorType": "unavailable", "error": "the server is down for a drill"}
        if trouble.oldest_s is not None and float(dict(parse_qsl(query)).get("start", "inf")) < trouble.oldest_s:
            self.face.closing.wait(TOO_LONG_S)
        return super()._routed(path, query, body)

"""The digital twin as a target: over HTTP for a living one, in process for a replay."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from perdix.models.capacity.key_groups import GROUPS, Subtasks
from perdix.settings.access import HttpAccess
from perdix.targets.contract import Connected, Fault, Guard, Running, TargetError, unguarded
from perdix.targets.http import TIMEOUT_S, HttpTarget
from perdix.twin.exposition import subtasks_of
from perdix.twin.job import JobTwin


class _Answer(BaseModel):
    """What a twin says of one of its jobs."""

    model_config = ConfigDict(strict=True)

    scale_out: int
    requested: int | None
    settled: bool
    mix: dict[str, int] | None = None
    requested_mix: dict[str, int] | None = None
    subtasks: list[str] | None = None
    key_groups: int = GROUPS

    def running(self) -> Running:
        subtasks = None if self.subtasks is None else Subtasks(tuple(self.subtasks), self.key_groups)
        mixes = self.mix or {}, self.requested_mix or {}
        return Running(self.scale_out, self.requested, self.settled, *mixes, subtasks=subtasks)


class TwinTarget(Connected):
    """A job of a twin that serves at ``url`` (:mod:`perdix.twin.prometheus_face`).

    ``timeout_s``: seconds that each of connecting, sending and reading may take.
    """

    def __init__(self, url: str, job: str, timeout_s: float = TIMEOUT_S) -> None:
        self._path = f"/jobs/{quote(job, safe='')}/scale"
        access = HttpAccess.model_validate({"url": url})
        self._twin = HttpTarget(access, "a twin", lambda refusal: refusal["error"], timeout_s)

    def read(self) -> Running:
        """Return what really runs."""
        return self._twin.asked("GET", self._path, _Answer).running()

    def scale(
        self, scale_out: int, idempotency_key: str, mix: Mapping[str, int] | None = None, guard: Guard = unguarded
    ) -> Running:
        """Ask for ``scale_out`` workers."""
        body: dict[str, Any] = {"scale_out": scale_out, "idempotency_key": idempotency_key}
        guard()
        return self._twin.asked("PUT", self._path, _Answer, body | ({"mix": dict(mix)} if mix else {})).running()

    def close(self) -> None:
        """Close the connections."""
        self._twin.close()


class LocalTwinTarget:
    """A twin of this process, for replays and tests."""

    def __init__(self, twin: JobTwin) -> None:
        self._twin = twin

    def read(self) -> Running:
        """Return what really runs."""
        twin = self._twin
        mixes = twin.mix, twin.requested_mix
        return Running(twin.scale_out, twin.requested, twin.settled, *mixes, subtasks=subtasks_of(twin))

    def scale(
        self, scale_out: int, idempotency_key: str, mix: Mapping[str, int] | None = None, guard: Guard = unguarded
    ) -> Running:
        """Ask for ``scale_out`` workers."""
        if not idempotency_key:
            raise TargetError("an idempotency key must not be empty", retriable=False, fault=Fault.LASTING)
        guard()
        try:
            self._twin.rescale(scale_out, idempotency_key, mix)
        except ValueError as error:
            raise TargetError(str(error), retriable=False) from None
        return self.read()

    def close(self) -> None:
        """Nothing to close: the twin lives in this process."""

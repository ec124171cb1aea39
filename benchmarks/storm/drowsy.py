"""Targets whose controller may fall asleep at the last moment, right before it looks whether it may still ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perdix.targets.contract import Guard, Running, Target, unguarded
from perdix.targets.flink.dataflow import DataflowReading
from perdix.targets.flink.target import FlinkTarget


class Drowsy:
    """A target whose controller may fall asleep there."""

    def __init__(self, inner: Target, sleep: Callable[[], object]) -> None:
        self._inner, self._sleep = inner, sleep

    def read(self) -> Running:
        return self._inner.read()

    def scale(
        self, scale_out: int, key: str, mix: Mapping[str, int] | None = None, guard: Guard = unguarded
    ) -> Running:
        return self._inner.scale(scale_out, key, mix, _late(self._sleep, guard))

    def close(self) -> None:
        self._inner.close()


class Sleepy:
    """A Flink whose loop may fall asleep right before it looks whether it may still ask.

    ``first``: what the next look finds, where that was read before.
    """

    def __init__(self, inner: FlinkTarget, sleep: Callable[[], object]) -> None:
        self._inner, self._sleep = inner, sleep
        self.first: DataflowReading | None = None

    def read_dataflow(self) -> DataflowReading:
        found, self.first = self.first, None
        return found or self._inner.read_dataflow()

    def scale_operators(
        self, parallelism: Mapping[str, int], idempotency_key: str, guard: Guard = unguarded
    ) -> Running:
        return self._inner.scale_operators(parallelism, idempotency_key, _late(self._sleep, guard))

    def requested_operators(self) -> Mapping[str, int]:
        return self._inner.requested_operators()

    def close(self) -> None:
        self._inner.close()


def _late(sleep: Callable[[], object], guard: Guard) -> Guard:
    """Return a guard before which its controller may sleep."""

    def late() -> None:
        sleep()
        guard()

    return late

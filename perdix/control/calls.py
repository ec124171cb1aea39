"""Calls of servers, many at once within bounds, in whatever order they are answered.

A server that hangs holds no more threads than one server may have, so it delays those calls only that are its own.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Call(Generic[Result]):
    """One question to one server."""

    server: str
    ask: Callable[[], Any]  # run in a thread of its own; what it raises is a defect and ends everything
    # Run by whoever iterates, with the answer: yields results, and further calls
    then: Callable[[Any], Iterable[Result | Call[Result]]]


@dataclass(frozen=True)
class Calls:
    """Bounds on calls."""

    at_once: int = 24  # of all servers together
    per_server: int = 6  # of one server; fewer than ``at_once``, or it could hold them all

    def run(self, calls: Iterable[Call[Result]]) -> Iterator[Result]:
        """Yield results as they come. ``calls`` is read only as far ahead as there is room for them."""
        rest, waiting = iter(calls), deque[Call[Result]]()
        flying: dict[Future[Any], Call[Result]] = {}

        def launch() -> None:
            while len(flying) < self.at_once:
                call = self._next(waiting, flying.values())
                if call is None and len(waiting) < self.at_once:
                    call = next(rest, None)
                    if call is None:
                        return
                    if sum(other.server == call.server for other in flying.values()) >= self.per_server:
                        waiting.append(call)
                        continue
                if call is None:
                    return
                flying[pool.submit(call.ask)] = call

        with ThreadPoolExecutor(self.at_once, thread_name_prefix="call") as pool:
            launch()
            while flying:
                for answered in wait(flying, return_when=FIRST_COMPLETED).done:
                    for found in flying.pop(answered).then(answered.result()):
                        if isinstance(found, Call):
                            waiting.append(found)
                        else:
                            yield found
                    launch()

    def _next(self, waiting: deque[Call[Result]], flying: Iterable[Call[Result]]) -> Call[Result] | None:
        """Take the first call that waits and whose server has room."""
        taken = Counter(call.server for call in flying)
        for position, call in enumerate(waiting):
            if taken[call.server] < self.per_server:
                del waiting[position]
                return call
        return None

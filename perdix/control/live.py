"""The live loop put together: what ``perdix tick``, ``perdix controller`` and the Dagster sensor share."""

import os
import socket
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from perdix.control.champions import Champions
from perdix.control.crew import Crew
from perdix.control.read_ahead import Hanging, ReadAhead
from perdix.control.serving import FleetCrew, serve_elsewhere
from perdix.control.sources import LiveSource
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO
from perdix.models.registry import Registry
from perdix.settings.home import Home
from perdix.settings.product import ControlSettings
from perdix.settings.stream_job import StreamJob
from perdix.targets.build import build_target
from perdix.targets.contract import Running, Target, TargetError


@dataclass(frozen=True)
class _Unusable:
    """In place of a target that cannot be made of its settings: as one that does not answer, and says why."""

    error: TargetError

    def read(self) -> Running:
        raise self.error

    def scale(self, *_: Any, **__: Any) -> Running:
        raise self.error

    def close(self) -> None:
        """Nothing to close."""


class Targets:
    """One target per job, kept as long as the job's settings of it stay the same."""

    def __init__(self, build: Callable[[StreamJob], Target] = build_target) -> None:
        self._build = build
        self._kept: dict[str, tuple[str, Target]] = {}

    def __call__(self, job: StreamJob) -> Target:
        """Return the job's target."""
        settings = job.target.model_dump_json()
        kept = self._kept.get(job.name)
        if kept is None or kept[0] != settings:
            if kept is not None:
                del self._kept[job.name]  # also where the new one cannot be built
                kept[1].close()
            try:
                kept = self._kept[job.name] = (settings, self._build(job))
            except TargetError as error:
                return _Unusable(error)
        return kept[1]

    def keep_only(self, jobs: Container[str]) -> None:
        """Close the connections of jobs that are no longer served."""
        for job in [job for job in self._kept if job not in jobs]:
            self._kept.pop(job)[1].close()

    def close(self) -> None:
        """Close every connection."""
        self.keep_only(())


def holder_name(of: str = "controller") -> str:
    """Return a name for this process among all controllers: what it is, host, and process id."""
    return f"{of}@{socket.gethostname()}:{os.getpid()}"


@contextmanager
def live_io(home: Home, settings: ControlSettings) -> Iterator[TickIO]:
    """Open all that a live tick touches, and close it at the end. Opening asks nothing of MLflow or Prometheus.

    Large fleets are served by further processes (``settings.processes``), which open the same.

    Raises ``StateError`` when the state store cannot be opened.
    """
    crew: FleetCrew = Crew(partial(alone_io, home, settings), serve_elsewhere, settings.processes)
    with alone_io(home, settings) as io, closing(crew):
        yield replace(io, crew=crew)


@contextmanager
def alone_io(home: Home, settings: ControlSettings) -> Iterator[TickIO]:
    """Open what a process touches that serves jobs itself; as :func:`live_io`."""
    home.make()
    with ExitStack() as stack:
        store = StateStore(home.state_url)
        stack.callback(store.close)
        source, targets = LiveSource(), Targets()
        stack.callback(source.close)
        stack.callback(targets.close)
        champions = Champions(home.champions, Registry(home.mlflow_url, home.mlflow_artifacts))
        ahead = ReadAhead(source, Hanging())
        interval_s, keep = settings.tick_interval_s, targets.keep_only
        yield TickIO(source, store, champions, targets, keep_targets=keep, tick_interval_s=interval_s, ahead=ahead)

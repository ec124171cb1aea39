"""Where controllers run: what each process begins with, and machines that are booted anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.storm.boundaries import Boundaries
from benchmarks.storm.controller import Controller
from benchmarks.storm.faults import ALL
from benchmarks.storm.job_files import JobFiles
from benchmarks.storm.process import Loop, Machine, Process, Surroundings
from benchmarks.storm.registry import Registry, Tables
from benchmarks.storm.weather import Weather
from perdix.control.clock import PROCESS
from perdix.control.read_ahead import JobsSource


@dataclass
class Hosts:
    """Starts the processes of an episode, and boots what they run on.

    ``folder``: of the store (``url``) and of each controller.
    ``machine``: that all share; ``None`` where each is on one of its own, of whose boot no other knows.
    """

    weather: Weather
    boundaries: Boundaries
    files: JobFiles
    folder: Path
    url: str
    source: Callable[[], JobsSource]
    tables: Callable[[], Tables]
    machine: Machine | None

    def start(self, controller: Controller) -> Process | Loop:
        weather, boundaries = self.weather, self.boundaries
        folder = self.folder / controller.name
        folder.mkdir(exist_ok=True)
        controller.starts += 1
        alone = Machine(f"{PROCESS}{controller.name}-{controller.starts}", weather.now_s)
        around = Surroundings(
            self.url,
            lambda: weather.clock_s(controller.name),
            lambda: weather.now_s,
            self.machine or alone,
            partial(boundaries.statement, controller),
            partial(boundaries.waits, controller),
        )
        drowsy = partial(boundaries.sleeps, controller, "asleep before asking")
        if controller.operates:
            return Loop(controller.name, around, self.files.of_flow, drowsy)
        return Process(
            controller.name,
            folder,
            around,
            source=self.source(),
            registry=Registry(
                self.tables,
                lambda kind: weather.active(kind, ALL),
                lambda: weather.minute,
                boundaries.passes,
                partial(boundaries.cross, controller, may_pause=True),
            ),
            drowsy=drowsy,
        )

    def boot(self, controllers: Sequence[Controller]) -> None:
        """Boot machines anew whose time has come: what runs on them dies, where it sleeps, too."""
        minute, struck = self.weather.minute, self.weather.struck
        for fault in self.weather.faults:
            if fault.kind != "reboot" or fault.from_min > minute or fault in struck:
                continue
            struck.add(fault)
            if self.machine is not None:
                self.machine = Machine(f"kernel:{self.weather.now_s}", self.weather.now_s)
            for controller in controllers:
                if self.machine is None and fault.where not in {controller.name, ALL}:
                    continue
                controller.doomed = controller.busy
                if not controller.busy:
                    controller.end()

    def heartbeat(self, controller: Controller) -> Path:
        """Return where a controller writes that it lives; a folder is in the way where it cannot."""
        path = self.folder / controller.name / "heartbeat.json"
        if self.weather.active("heartbeat unwritable", controller.name, ALL) is not None:
            path.unlink(missing_ok=True) if path.is_file() else None
            path.mkdir(exist_ok=True)
        elif path.is_dir():
            shutil.rmtree(path)
        return path

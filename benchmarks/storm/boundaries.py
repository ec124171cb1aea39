"""Where a process may die or fall asleep, and where its store and its disk may fail it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.storm.controller import Controller
from benchmarks.storm.disk import FULL, GONE, LOCKED, READ_ONLY, writes
from benchmarks.storm.faults import ALL, ASLEEP_S, KINDS
from benchmarks.storm.process import CHAMPIONS, Killed
from benchmarks.storm.weather import Weather

FROZEN_S = 10.0
AWAKE_S = 360.0


@dataclass
class Boundaries:
    """The boundaries of all processes of an episode.

    ``passes`` lets time pass. ``crash_at``: number of the boundary, counted from the episode's begin, at which whoever
    passes it dies.
    """

    weather: Weather
    passes: Callable[[float], None]
    crash_at: int | None = None
    running: list[Controller] = field(default_factory=list)  # whose steps go on: each began while the one before slept
    passed: int = 0

    def cross(self, controller: Controller, *, may_pause: bool) -> None:
        """Die or sleep here, if a fault says so."""
        self.passed += 1
        if self.crash_at is not None and self.passed == self.crash_at:
            raise Killed
        minute = int(self.weather.minute)
        if controller.counted_min != minute:
            controller.counted_min, controller.boundaries = minute, 0
        controller.boundaries += 1
        crash = self.weather.active("crash", controller.name)
        if crash is not None and crash not in controller.done and controller.boundaries >= crash.amount:
            controller.done.add(crash)
            raise Killed
        pause = self.weather.active("pause", controller.name)
        if may_pause and pause is not None and pause not in controller.done and controller.boundaries >= pause.amount:
            controller.done.add(pause)
            self.passes(60.0 * pause.minutes)

    def reads(self, job: str) -> None:
        """Die or sleep, or let time pass, before metrics are read."""
        if self.running:
            self.cross(self.running[-1], may_pause=True)
        slow = self.weather.active("slow metrics", job)
        if slow is not None:
            self.passes(slow.amount)

    def file(self, target: Path) -> None:
        """Die before a file appears, or find the disk full."""
        if self.running:
            self.cross(self.running[-1], may_pause=False)
        if CHAMPIONS in target.parts and self.weather.active("champions unwritable", ALL) is not None:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))

    def sleeps(self, controller: Controller, kind: str) -> None:
        """Sleep here for longer than a lease lasts, but not soon again before the same job's requests."""
        weather, job = self.weather, controller.job
        awake_until_s = controller.awake_until_s.get(job, 0.0)
        if weather.active(kind, controller.name) is not None and weather.now_s >= awake_until_s:
            self.passes(ASLEEP_S)
            controller.awake_until_s[job] = weather.now_s + AWAKE_S

    def waits(self, controller: Controller, seconds: float) -> bool:
        """Let time pass while a target waits for a slow checkpoint; else it waits beside the loop, and False."""
        slow = self.weather.active("slow checkpoint", controller.job) is not None
        if slow:
            self.passes(seconds)
        return slow

    def statement(self, controller: Controller, statement: str) -> str | None:
        """Return the error that a statement meets in the store, if any; die or sleep before."""
        begins, active = statement.startswith("BEGIN"), self.weather.active
        self.cross(controller, may_pause=begins)
        here = (controller.name, ALL)
        fails = active("statement fails", *here)
        if fails is not None and fails not in controller.done and controller.boundaries >= fails.amount:
            controller.done.add(fails)
            return "disk I/O error"
        if active("store gone", *here) is not None:
            return GONE
        if statement == "BEGIN IMMEDIATE":
            if active("store frozen", *here) is not None:
                self.passes(FROZEN_S)
                return LOCKED
            if active("store locked", *here) is not None:
                return LOCKED
        if writes(statement):
            if active("store full", *here) is not None:
                return FULL
            if active("store read-only", *here) is not None:
                return READ_ONLY
        return None

    def store_failed(self, controller: Controller, since_s: float) -> bool:
        """Whether the store had a fault: what was asked while it lasted may be answered long after it."""
        since_min = self.weather.minute_of(since_s)
        return any(
            KINDS[fault.kind].scope == "store"
            and fault.where in {controller.name, ALL}
            and fault.between(since_min, self.weather.minute)
            for fault in self.weather.faults
        )

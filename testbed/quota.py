"""CPU quotas of single processes through cgroups, version 1 or 2, where they can be written."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PERIOD_US = 100_000  # the kernel's and Kubernetes' default
SHORTEST_QUOTA_US = 1_000  # the kernel refuses less


@dataclass(frozen=True)
class Quotas:
    """The cgroups of one testbed: ``<parent>/<member>``."""

    version: Literal[1, 2]  # of the cgroups
    parent: Path  # a cgroup of the testbed's own

    def prepare(self) -> None:
        """Make the testbed's own cgroup; raise ``OSError`` where that is not allowed."""
        self.parent.mkdir(exist_ok=True)
        if self.version == 2:
            (self.parent / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")

    def set(self, member: str, cores: float) -> None:
        """Let the processes of ``member`` use ``cores`` CPU cores, together, in every 100 ms."""
        folder = self.parent / member
        folder.mkdir(exist_ok=True)
        quota_us = max(round(cores * PERIOD_US), SHORTEST_QUOTA_US)
        if self.version == 1:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US), encoding="ascii")
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")
        else:
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}", encoding="ascii")

    def add(self, member: str, pid: int) -> None:
        """Put a process, with all its threads, into ``member``."""
        (self.parent / member / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def cores(self, member: str) -> float | None:
        """Return the quota of ``member`` in cores; None where there is none."""
        try:
            if self.version == 1:
                quota_us = int((self.parent / member / "cpu.cfs_quota_us").read_text(encoding="ascii"))
                return quota_us / PERIOD_US if quota_us > 0 else None
            quota, period = (self.parent / member / "cpu.max").read_text(encoding="ascii").split()
            return None if quota == "max" else int(quota) / int(period)
        except (OSError, ValueError):
            return None

    def remove(self, members: Iterable[str] | None = None) -> None:
        """Remove cgroups whose processes ended; all of them and the testbed's own by default."""
        folders = [path for path in self.parent.glob("*") if path.is_dir()]
        chosen = folders if members is None else [self.parent / member for member in members]
        for folder in [*chosen, *([self.parent] if members is None else [])]:
            _remove(folder)


def find(tag: str, mounts: Path = Path("/proc/self/mounts"), own: Path = Path("/proc/self/cgroup")) -> Quotas | None:
    """Return the quotas that can be set on this machine, without trying; None where there are none at all.

    Version 1 where the CPU controller is mounted by itself; else version 2, in the nearest cgroup above this process
    that hands the CPU controller down.
    """
    memberships = _memberships(own)
    for kind, mount, options in _mounts(mounts):
        if kind == "cgroup" and "cpu" in options:
            within = mount / memberships.get("cpu", "").lstrip("/")
            return Quotas(1, (within if within.is_dir() else mount) / tag)
    for kind, mount, _ in _mounts(mounts):
        if kind != "cgroup2":
            continue
        folder = mount / memberships.get("", "").lstrip("/")
        for above in (folder, *folder.parents):
            if _hands_down_cpu(above):
                return Quotas(2, above / tag)
            if above == mount:
                break
    return None


def usable(tag: str) -> tuple[Quotas | None, str]:
    """Return the quotas of this machine once setting one was tried, or None and why there are none."""
    quotas = find(tag)
    if quotas is None:
        return None, "no cgroup above this process has the CPU controller"
    try:
        quotas.prepare()
        quotas.set("try", 1.0)
        quotas.remove(["try"])
    except OSError as error:
        with contextlib.suppress(OSError):
            quotas.parent.rmdir()
        return None, f"{error.filename} cannot be written ({error.strerror})"
    return quotas, ""


def _hands_down_cpu(folder: Path) -> bool:
    try:
        return "cpu" in (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return False


def _mounts(path: Path) -> list[tuple[str, Path, list[str]]]:
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return [(kind, Path(where), options.split(",")) for _, where, kind, options, *_ in lines]


def _memberships(path: Path) -> dict[str, str]:
    """Return the cgroup of this process for each controller; that of version 2 under the empty name."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        _, controllers, folder = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), folder))
    return found


def _remove(folder: Path) -> None:
    """Remove a cgroup; it stays busy for a moment after its last process ended."""
    for _ in range(50):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return

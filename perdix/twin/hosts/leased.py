"""Hosts, containers, and what happens to them: the words that describe a fleet."""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal[
    "leased", "host-started", "leased-again", "went-on", "released", "release-lapsed", "host-died",
    "asked", "started", "start-failed", "stopping", "stopped", "migrating", "migrated", "lost",
]  # fmt: skip


class ImpossibleError(ValueError):
    """A step that cannot be carried out, and why; nothing has changed."""


@dataclass(frozen=True)
class Event:
    """What happened to a host or a container, ``at_s`` seconds after the twin began."""

    at_s: int
    kind: Kind
    host_id: str
    instance_id: str = ""
    operator: str = ""


@dataclass
class LeasedHost:
    """A host from its lease on.

    ``number``: the how many-th lease it is.
    ``leased_s``, ``ready_s``, ``gone_s``: seconds after the twin began; ``gone_s`` is ``None`` while it is leased.
    ``images``: operator -> when its image is there.
    ``again``: whether its next unit is asked for.
    """

    host_id: str
    number: int
    leased_s: int
    ready_s: int
    images: dict[str, float] = field(default_factory=dict)
    releasing: bool = False
    again: bool = False
    died: bool = False
    gone_s: int | None = None

    def paid_until_s(self, now_s: int, unit_s: int) -> int:
        """Return the end of what is paid for, seconds after the twin began."""
        units = max(1, -(-(now_s - self.leased_s) // unit_s))
        return self.leased_s + unit_s * (units + self.again)


@dataclass
class Container:
    """An instance of an operator type."""

    instance_id: str
    number: int
    operator: str
    host_id: str
    ready: bool = False
    # starts_s, ready_s, gone_s: when its start began, when it works (a start that fails ends then), and when it has
    # stopped, seconds after the twin began; ``None``: not yet known, as its host or its room is not there
    starts_s: int | None = None
    ready_s: float | None = None
    gone_s: int | None = None
    replaces: str | None = None

    @property
    def stopping(self) -> bool:
        """Whether it is being stopped."""
        return self.gone_s is not None

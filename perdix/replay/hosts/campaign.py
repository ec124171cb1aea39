"""Many replays on leased hosts side by side: every policy with every pattern and every seed."""

from dataclasses import dataclass

from perdix.replay.hosts.outcome import HostsPlayed
from perdix.replay.hosts.run import HostsCase, HostsContender, play
from perdix.replay.labels import HOSTS_FORECASTER
from perdix.replay.side_by_side import Ended, OnProgress, play_all
from perdix.settings.yaml_files import SettingsError
from perdix.twin.hosts.parameters import Topology


@dataclass(frozen=True)
class HostsSetup:
    """What is to be replayed."""

    contenders: tuple[HostsContender, ...]
    topology: Topology
    patterns: tuple[str, ...]  # names of the topology's arrival patterns
    seeds: tuple[int, ...] = (1,)
    seconds: int | None = None  # length of each replay; ``None``: that of the topology's file
    failures: int = 0  # hosts that die in each replay
    forecaster: str | None = HOSTS_FORECASTER  # family of the forecast of arrivals, or ``None`` for none

    def __post_init__(self) -> None:
        if not self.patterns:
            raise SettingsError(f"no pattern is named; known: {', '.join(self.topology.patterns)}")
        for name in self.patterns:
            self.topology.pattern(name)
        twice = [name for name in self.patterns if self.patterns.count(name) > 1]
        if twice:
            raise SettingsError(f"pattern {twice[0]}: given twice")
        if self.length_s <= max((case.interval_s for case in self.cases()), default=0):  # none is made at the end
            raise SettingsError(f"{self.length_s} s do not cover one look of a policy; give more hours")

    @property
    def length_s(self) -> int:
        """Length of each replay."""
        return self.topology.duration_s if self.seconds is None else self.seconds

    @property
    def simulated_s(self) -> float:
        """Sum of all seconds that are replayed."""
        return float(len(self.cases()) * self.length_s)

    def cases(self) -> tuple[HostsCase, ...]:
        """Return a case per pattern, seed and contender; for one seed all meet the same luck."""
        return tuple(
            HostsCase(contender, self.topology, pattern, seed, self.length_s, self.failures, self.forecaster)
            for pattern in self.patterns
            for seed in self.seeds
            for contender in self.contenders
        )


HostsCampaign = Ended[HostsSetup, HostsPlayed]


def run_hosts_campaign(
    setup: HostsSetup, *, processes: int | None = None, on_progress: OnProgress | None = None
) -> HostsCampaign:
    """Play every contender with every pattern and seed; as :func:`~perdix.replay.side_by_side.play_all`."""
    return play_all(setup, play, _name_of, processes=processes, on_progress=on_progress)


def _name_of(case: HostsCase) -> str:
    return f"{case.contender.label} ({case.pattern})"

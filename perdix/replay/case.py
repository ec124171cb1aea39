"""One replay: which policy, on which twin and trace, with which seed."""

import sys
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perdix.models.forecasting.families import families_named
from perdix.replay.labels import FORECASTER
from perdix.settings.stream_job import Bounds, Objectives, PolicySettings
from perdix.settings.yaml_files import SettingsError
from perdix.twin.emission import Scraping
from perdix.twin.parameters import TwinParameters

START_S = 1_760_000_400  # epoch second at which a twin begins when none is given
TICK_INTERVAL_S = 60
BEST_STATIC = "best-static"  # what the best fixed size is called in tables; it takes part unasked
LEAST_BETWEEN_FAILURES_S = 60


def whole_seconds(hours: float, step_s: int) -> int:
    """Return hours as seconds, to the nearest one, without what is no whole step of the twin.

    Raises ``ValueError`` for hours that are no number, ``OverflowError`` for infinite ones.
    """
    seconds = round(3600 * hours)
    return seconds - seconds % step_s


def require_few_failures(failures: int, seconds: int) -> None:
    """Raise ``SettingsError`` for more failures than one a minute."""
    if not 0 <= failures <= seconds // LEAST_BETWEEN_FAILURES_S:
        raise SettingsError(
            f"{failures} failures in {seconds / 3600:g} hours are more failures than one a minute; give fewer"
        )


def require_known_family(forecaster: str | None) -> None:
    """Raise ``SettingsError`` for a family of forecasters that nobody knows; ``None`` asks for none."""
    if forecaster is None:
        return
    try:
        families_named(forecaster)
    except ValueError as error:
        raise SettingsError(f"forecaster: {error}") from None


@dataclass(frozen=True)
class Contender:
    """A policy as it takes part: what it is called in tables, what it is, and how often it looks.

    ``label``: for example ``hpa-80``; unique within a campaign.
    ``tick_interval_s``: seconds between its ticks. Kubernetes' HPA looks every 15 s, the Flink Autoscaler every 10 s.
    ``grace_s``: seconds after a rescale in which the control loop lets it not rescale (``grace_s`` of the stream job);
    ``None``: as long as the job's own restarts ask for.
    ``latency_family``: of a policy that needs a profile: the family of its latency model; when ``None``, the first that
    training tries.
    """

    label: str
    settings: PolicySettings
    tick_interval_s: int = TICK_INTERVAL_S
    grace_s: float | None = None
    latency_family: str | None = None


@dataclass(frozen=True)
class Case:
    """One policy on one twin and trace with one seed. Picklable: it may be played in another process."""

    contender: Contender
    trace: str  # what the trace is called in tables
    parameters: TwinParameters  # the twin; its ``workload`` is the trace, in records/s (nothing is left to be scaled)
    seed: int
    hours: float  # length; :attr:`seconds` are what is played of it
    objectives: Objectives = field(default_factory=Objectives)
    bounds: Bounds | None = None
    scraping: Scraping = field(default_factory=lambda: Scraping(interval_s=5.0))
    failures: int = 0  # workers that crash, spread over the run; when and which depends on the seed only
    # Family of forecasters that is fitted to what the run has seen so far, and anew when drift asks for it; ``None``:
    # the policy decides on the fallback forecast throughout
    forecaster: str | None = FORECASTER
    # Records/s in each second from the start on, at least as long as the run, in place of the twin's own workload;
    # longer by the recovery time objective, for the records that still wait when it ends
    arrivals: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    step_s: int = 1  # length of the twin's steps: one second, but for months (:mod:`perdix.replay.pace`)
    # Whether the job's load is foreseen and its capacities are worked out. ``False`` saves most of the work where the
    # policy decides by what is measured alone: it does the very same, but there is no WAPE, and no error of capacity
    # and recovery
    beliefs: bool = True

    @property
    def seconds(self) -> int:
        """Length of the run, the same for every contender and bound."""
        return whole_seconds(self.hours, self.step_s)

    @property
    def ticks(self) -> int:
        """How often the contender looks; the last interval is shorter where the run does not end with a whole one."""
        return -(-self.seconds // self.contender.tick_interval_s)

    @property
    def last_arrival_s(self) -> int:
        """Epoch second up to which it is known what arrives; the twin's own workload has no end."""
        return sys.maxsize if self.arrivals is None else START_S + len(self.arrivals)

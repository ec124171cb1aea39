"""What a plan of the frontier knows beforehand: the whole trace, and all of the job's physics that is no luck.

No luck is what the seed gives every policy alike: what arrives, the noise of capacity and latency in each second, and
when workers crash. How keys fall after a rescale and how long it takes are luck: the plan reckons with the capacity to
expect and with median standstills.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perdix.replay.clairvoyant.physics import Physics, checked_arrivals, physics_of
from perdix.settings.stream_job import Bounds, Objectives
from perdix.telemetry.window import Values
from perdix.twin import physics
from perdix.twin.job import JobTwin
from perdix.twin.observables import Observables
from perdix.twin.parameters import Latency, Restart, TwinParameters
from perdix.twin.workloads import arrivals_from

MUCH_PER_S = 1e12  # a capacity at which nothing queues


@dataclass(frozen=True)
class Known:
    """One trace and one job; arrays by second have the shape ``(seconds,)``."""

    arrivals: Values  # records that arrive in each second
    # workers, per_s: every scale-out within the bounds, and its expected capacity in records/s, shape ``(sizes,)``
    workers: NDArray[np.int64]
    per_s: Values
    physics: Physics  # standstills, in whole seconds
    objectives: Objectives
    # Relative speed of all workers in each second: its noise, the first warm-up, and crashes (0: it stands still)
    speed: Values
    noise: Values  # factor on the job's own latency in each second
    again: Values  # records that a crash in this second has done again
    # restart, latency: as the twin has them
    restart: Restart
    latency: Latency
    least_records: float  # what arrives and is done each second are multiples of it

    @property
    def seconds(self) -> int:
        """Length of the trace."""
        return len(self.arrivals)

    @property
    def replayed_s(self) -> float:
        """Seconds of work that a rescale does again on average."""
        own_s = self.restart.rescale_replay_s
        return self.crash_replayed_s if own_s is None else float(own_s)

    @property
    def crash_replayed_s(self) -> float:
        """Seconds of work that a crash does again on average: checkpoints end at any second of their interval."""
        return (self.restart.checkpoint_interval_s - 1) / 2.0

    def arrived(self, at_s: NDArray[np.integer[Any] | np.floating[Any]]) -> Values:
        """Return the records that have arrived by some times, in seconds since the start; of their shape."""
        total = np.concatenate(([0.0], np.cumsum(self.arrivals)))
        return np.asarray(np.interp(at_s, np.arange(len(total)), total))

    def warm_up(self, since_s: Values, *, failed: bool = False) -> Values:
        """Return the speed in seconds that begin so long after a start, or after that of a failure; of their shape."""
        return self.restart.warm_up(since_s + 1.0, failed=failed)


def known(
    parameters: TwinParameters,
    seed: int,
    arrivals_per_s: Values,
    objectives: Objectives,
    bounds: Bounds,
    *,
    crashes_s: Sequence[int] = (),
) -> Known:
    """Return what is known of a twin with a seed.

    Raises ``ValueError`` as :func:`perdix.replay.clairvoyant.bound.clairvoyant`.

    ``crashes_s``: seconds since the start in which a worker crashes.
    """
    twin = JobTwin(parameters, seed, arrivals=arrivals_from(checked_arrivals(arrivals_per_s), 0))
    arrivals, expected = twin.arrivals(0, len(arrivals_per_s)), physics_of(twin)
    restart, latency, seconds = parameters.restart, parameters.latency, len(arrivals)
    ones, observables = np.ones(seconds), Observables(parameters, seed)
    own_ms = latency.base_ms + float(physics.fill_ms(ones[:1], latency.fill_records, latency.fill_at_most_ms)[0])
    found = Known(
        arrivals,
        np.arange(bounds.minimum, bounds.maximum + 1),
        expected.capacities(bounds),
        expected,
        objectives,
        speed=observables.speed(ones * (restart.warm_up_s + 1.0)),
        noise=observables.latency_p95_ms(ones, ones * MUCH_PER_S, 0.0 * ones, 1) / own_ms,
        again=np.zeros(seconds),
        restart=restart,
        latency=latency,
        least_records=parameters.least_records,
    )
    found.speed[:] *= found.warm_up(np.arange(seconds, dtype=np.float64))
    for at_s in crashes_s:
        until_s = at_s + expected.failure_s
        found.speed[at_s:until_s] = 0.0
        found.speed[until_s:] *= found.warm_up(np.arange(max(seconds - until_s, 0), dtype=np.float64), failed=True)
        around_s = np.array([at_s - found.crash_replayed_s, at_s])
        found.again[at_s : at_s + 1] += np.diff(found.arrived(around_s))
    return found

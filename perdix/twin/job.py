"""The digital twin of one stream job, second by second."""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perdix.policies.wording import workers as in_words
from perdix.telemetry.window import Values
from perdix.twin import physics
from perdix.twin.history import History
from perdix.twin.observables import Observables
from perdix.twin.outages import Cause, Outage, draw_standstill_s
from perdix.twin.parameters import TwinParameters
from perdix.twin.workloads import Arrivals, in_blocks, workload

EXPECTATION_DRAWS = 4_000
KEYS_REMEMBERED = 4_096
# Random streams; those of the observables lie between.
_SPEEDS, _KEYS, _OUTAGE, _EXPECTATION, _OF_SCALE_OUT, _GROUPS = 0, 1, 2, 7, 8, 9


@dataclass(frozen=True)
class Totals:
    """Records since the twin began; always ``arrived + replayed == processed + lag``, exactly."""

    arrived: float
    replayed: float
    processed: float
    lag: float


@dataclass(frozen=True)
class Deployed:
    """What was deployed from epoch second ``since_s`` on; ``mix`` is size -> workers, empty where they are equal."""

    since_s: int
    scale_out: int
    mix: Mapping[str, int]


class JobTwin:
    """A stream job whose truth is known.

    Deterministic for ``parameters``, ``seed`` and the calls made; how the time is cut into steps makes no difference.
    Noise is drawn per second whatever the job does, so that two policies are compared on the same luck.

    ``start_s``: epoch second at which it begins, running at ``scale_out`` with nothing waiting.
    ``arrivals``: ``(first epoch second, count) -> records/s``; by default the workload of the parameters.
    ``mix``: size -> workers at the start, which sum to ``scale_out``; left out where they are equal.
    ``step_s``: length of a row of its history: within one nothing changes, and standstills are whole ones. More than a
    second is for months.
    """

    def __init__(
        self,
        parameters: TwinParameters,
        seed: int = 0,
        *,
        start_s: int = 0,
        scale_out: int | None = None,
        arrivals: Arrivals | None = None,
        mix: Mapping[str, int] | None = None,
        step_s: int = 1,
    ) -> None:
        self.parameters = parameters
        self._least = parameters.least_records
        self.step_s = step_s
        self.seed = seed
        maximum = parameters.workers.maximum
        self.history = History(start_s, maximum, step_s)
        self.outages: list[Outage] = []
        rng = np.random.default_rng([seed, _SPEEDS])
        speeds = physics.worker_speeds(maximum, parameters.workers.speed_spread, rng)
        self._speeds = speeds
        self._capacities = parameters.workers.capacity_per_s * speeds
        self._group_loads = self._drawn_group_loads()
        self._observables = Observables(parameters, seed, step_s)
        self._expected: dict[int, float] = {}
        self._arrivals = arrivals or self._own_arrivals()
        self.now_s = start_s  # epoch second that has been reached
        self._lag = self._progress = self._arrived = self._replayed = self._processed = 0.0
        self._keys_seen: OrderedDict[str, str] = OrderedDict()
        self._down_until_s: int | None = None
        self._failed_worker: int | None = None
        self._deployment = -1
        # Workers deployed, during a rescale still the old number, and those that were last asked for
        self.scale_out = self.requested = self._checked(scale_out or min(parameters.start_scale_out, maximum))
        # The same by size; empty where they are equal
        self.mix = self.requested_mix = self._checked_mix(self.scale_out, mix)
        self.deployments: list[Deployed] = []
        self._deploy()

    # ---- what it is now -------------------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """False while the job stands still."""
        return self._down_until_s is None

    @property
    def totals(self) -> Totals:
        """Records since the twin began."""
        return Totals(self._arrived, self._replayed, self._processed, self._lag)

    def arrivals(self, second: int, count: int) -> Values:
        """Return records in each of ``count`` seconds from epoch second ``second``, ``(count,)``.

        Multiples of :attr:`TwinParameters.least_records`, as all that is counted here.
        """
        return np.maximum(self._least * np.rint(self._arrivals(second, count) / self._least), 0.0)

    def current_capacity(self) -> float:
        """Return the true capacity of this deployment, records/s, once warm and without second-to-second noise."""
        return self._capacity_per_s

    def true_capacity(self, scale_out: int) -> float:
        """Return the capacity to expect at ``scale_out``, records/s: the mean over many draws of the key skew."""
        self._checked(scale_out)
        if scale_out not in self._expected:
            rng = np.random.default_rng([self.seed, _EXPECTATION, scale_out])
            self._expected[scale_out] = float(self.possible_capacities(scale_out, EXPECTATION_DRAWS, rng).mean())
        return self._expected[scale_out]

    def possible_capacities(self, scale_out: int, draws: int, rng: np.random.Generator) -> Values:
        """Return capacities that a deployment at ``scale_out`` may have as its keys fall, records/s; ``(draws,)``."""
        capacities = self._capacities[: self._checked(scale_out)] * self._efficiency(scale_out)
        return physics.bottleneck_per_s(
            capacities, self._binding(capacities, self._drawn_shares(scale_out, rng, draws))
        )

    def recovery_time_s(self, outage: Outage) -> int | None:
        """Return seconds from the outage's start until nothing waited any more; ``None`` if not yet, or forgotten."""
        if outage.end_s < self.history.start_s:
            return None
        caught_up = np.flatnonzero(self.history.column("lag", outage.end_s) <= 0.0)
        return outage.end_s - outage.start_s + (int(caught_up[0]) + 1) * self.step_s if len(caught_up) else None

    # ---- what can be done to it -----------------------------------------------------------------------------------

    def step(self, seconds: int = 1) -> None:
        """Let ``seconds`` seconds pass, in whole rows. Raises ``ValueError`` when negative."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds} s")
        rows = -(-seconds // self.step_s)
        while rows > 0:
            block = rows if self._down_until_s is None else min(rows, (self._down_until_s - self.now_s) // self.step_s)
            arrived = self.arrivals(self.now_s, block * self.step_s)
            self._pass(arrived if self.step_s == 1 else arrived.reshape(block, self.step_s).sum(axis=1))
            rows -= block
            if self._down_until_s == self.now_s:
                self._deploy()

    def rescale(self, scale_out: int, key: str, mix: Mapping[str, int] | None = None) -> bool:
        """Ask for ``scale_out`` workers; the job stops at once and replays the work since its last checkpoint.

        Raises ``ValueError`` when ``scale_out`` is outside the bounds, the mix cannot be, or the key was used for other
        workers.

        ``mix``: size -> workers, which sum to ``scale_out``; left out for equal ones.
        Returns false when nothing changed: the key was used before for the same workers, or they run already.
        """
        self._checked(scale_out)
        mix = self._checked_mix(scale_out, mix)
        asked = in_words(scale_out, mix)
        if key in self._keys_seen:
            if self._keys_seen[key] != asked:
                raise ValueError(f"key {key!r} was used for {self._keys_seen[key]}; use another for {asked}")
            return False
        self._keys_seen[key] = asked
        if len(self._keys_seen) > KEYS_REMEMBERED:
            self._keys_seen.popitem(last=False)
        if scale_out == self.requested and mix == self.requested_mix:
            return False
        before = self._relative(self.scale_out, self.mix).sum()
        self.requested, self.requested_mix = scale_out, mix
        self._interrupt("out" if self._relative(scale_out, mix).sum() > before else "in")
        return True

    def fail(self, worker: int = 0) -> None:
        """Let ``worker`` (0-based, among those deployed) crash; the job restarts at the same scale-out."""
        if not 0 <= worker < self.scale_out:
            raise ValueError(f"worker {worker} is not deployed; 0..{self.scale_out - 1} are")
        self._failed_worker = worker
        self._interrupt("failure")

    # ---- how it works ---------------------------------------------------------------------------------------------

    def _own_arrivals(self) -> Arrivals:
        peak_at = self.true_capacity(self.parameters.workers.maximum)
        spec = self.parameters.workload.scaled_to(peak_at)
        return in_blocks(lambda second, count: workload(spec, count, self.seed, second))

    def _checked(self, scale_out: int) -> int:
        maximum = self.parameters.workers.maximum
        if not 1 <= scale_out <= maximum:
            raise ValueError(f"scale-out {scale_out} is outside 1..{maximum}")
        return scale_out

    def _checked_mix(self, scale_out: int, mix: Mapping[str, int] | None) -> Mapping[str, int]:
        sizes, mix = self.parameters.workers.sizes, {size: count for size, count in (mix or {}).items() if count}
        unknown = [size for size in mix if size not in sizes]
        if unknown:
            raise ValueError(f"there is no size '{unknown[0]}'; known: {', '.join(sizes) or 'none'}")
        if mix and (min(mix.values()) < 0 or sum(mix.values()) != scale_out):
            raise ValueError(f"the mix {mix} does not sum to {scale_out} workers")
        return mix

    def _relative(self, scale_out: int, mix: Mapping[str, int]) -> Values:
        """Return what a worker is worth by its size, of a mean one without a size, shape ``(scale_out,)``."""
        given = self.parameters.workers
        if not mix:
            return np.ones(scale_out)
        sizes, counts = sorted(mix), [mix[size] for size in sorted(mix)]
        return np.repeat([given.per_s(size) / given.capacity_per_s for size in sizes], counts)

    def _efficiency(self, scale_out: int) -> float:
        workers = self.parameters.workers
        if workers.measured_per_s is not None:
            return workers.measured_per_s[scale_out - 1] / (scale_out * workers.capacity_per_s)
        return physics.efficiency(scale_out, workers.contention, workers.coherency)

    def _deployed_capacities(self) -> Values:
        alone = self._capacities[: self.scale_out] * self._relative(self.scale_out, self.mix)
        return np.asarray(alone * self._efficiency(self.scale_out))

    def _drawn_shares(self, scale_out: int, rng: np.random.Generator, draws: int) -> Values:
        """Draw how the work falls onto the first ``scale_out`` workers, shape ``(draws, scale_out)``."""
        keys = self.parameters.keys
        if self._group_loads is not None:
            return np.tile(physics.key_group_shares(self._group_loads, scale_out, keys.keyed), (draws, 1))
        if keys.count is None:
            # Flink deals the same key groups whenever it runs at the same parallelism: that part comes back.
            own = np.random.default_rng([self.seed, _OF_SCALE_OUT, scale_out])
            stays = physics.key_shares(scale_out, keys.skew_spread * math.sqrt(1.0 - keys.redrawn), own)
            drawn = physics.key_shares(scale_out, keys.skew_spread * math.sqrt(keys.redrawn), rng, draws)
            shares = physics.together(stays, drawn)
        else:
            shares = physics.counted_key_shares(scale_out, keys.count, keys.keyed, rng, draws)
        return physics.towards_quick(shares, self._speeds[:scale_out], keys.towards_quick)

    def _drawn_group_loads(self) -> Values | None:
        keys = self.parameters.keys
        groups, rng = keys.dealt_groups, np.random.default_rng([self.seed, _GROUPS])
        if groups is None or keys.count is None:
            return None
        return physics.key_group_loads(groups, keys.count, keys.zipf or 0.0, rng)

    def _binding(self, capacities: Values, shares: Values) -> Values:
        """Return how the work falls onto workers that read whole partitions, too; shape of ``shares``.

        Reading and the work by key are two stages that may use a worker each. The one whose busiest worker is full
        first holds up the job, and what workers show is theirs in that one.
        """
        partitions = self.parameters.source.partitions
        if partitions is None:
            return shares
        return physics.binding(capacities, shares, physics.partition_shares(partitions, len(capacities)))

    def _deploy(self) -> None:
        """Start at the requested scale-out; the keys fall anew unless the same workers come back."""
        same_number = self.requested == self.scale_out
        same_workers = self._deployment >= 0 and same_number and self.requested_mix == self.mix
        self.scale_out, self.mix = self.requested, self.requested_mix
        self.deployments.append(Deployed(self.now_s, self.scale_out, self.mix))
        self._deployment += 1
        self._counters = np.zeros(self.parameters.workers.maximum)
        if not same_workers:
            rng = np.random.default_rng([self.seed, _KEYS, self._deployment])
            drawn = self._drawn_shares(self.scale_out, rng, 1)[0]
            shares = physics.together(drawn, self._relative(self.scale_out, self.mix)) if self.mix else drawn
            self._shares = self._binding(self._deployed_capacities(), shares)
        self._each_per_s = self._deployed_capacities()
        self._capacity_per_s = float(physics.bottleneck_per_s(self._each_per_s, self._shares))
        self._started_s, self._start_progress = self.now_s, self._progress
        self._after_failure = self._failed_worker is not None
        self._down_until_s, self._failed_worker = None, None

    def _interrupt(self, cause: Cause) -> None:
        """Stop the job: fall back to the last checkpoint, and draw how long it stands still."""
        lost = 0.0 if self._down_until_s is not None else self._progress - self._checkpointed(cause)
        self._progress -= lost
        self._lag += lost
        self._replayed += lost
        rng = np.random.default_rng([self.seed, _OUTAGE, len(self.outages)])
        standstill_s = -(-draw_standstill_s(cause, self.parameters.restart, rng) // self.step_s) * self.step_s
        self._down_until_s = max(self.now_s + standstill_s, self._down_until_s or 0)
        self.outages.append(Outage(cause, self.now_s, self._down_until_s, self.scale_out, self.requested, lost))

    def _checkpointed(self, cause: Cause) -> float:
        """Return the records that the checkpoint covers from which the job starts again."""
        restart = self.parameters.restart
        if cause != "failure" and restart.rescale_replay_s is not None:
            covered_s = max(self.now_s - restart.rescale_replay_s, self._started_s)
        else:
            interval_s = restart.checkpoint_interval_s
            covered_s = self._started_s + (self.now_s - self._started_s) // interval_s * interval_s
        covered_s -= (covered_s - self._started_s) % self.step_s
        if covered_s == self._started_s:
            return self._start_progress
        return self.history.at("progress_total", covered_s - 1)

    def _pass(self, arrived: Values) -> None:
        """Let ``len(arrived)`` rows pass in which nothing starts or stops; ``arrived`` is in records."""
        seconds, running, step_s = len(arrived), self._down_until_s is None, self.step_s
        arrived_total = self._arrived + np.cumsum(arrived)
        ends_s = np.arange(1.0, seconds + 1.0, dtype=np.float64) * step_s + self.now_s
        uptime_s = ends_s - self._started_s
        speed = self._observables.speed(uptime_s, failed=self._after_failure)
        capacity = self._least * np.floor(running * self._capacity_per_s * speed * step_s / self._least)
        lag = physics.backlog(self._lag, arrived, capacity)
        processed = np.concatenate(([self._lag], lag[:-1])) + arrived - lag
        progress = self._progress + np.cumsum(processed)
        rate, could = processed / step_s, capacity / step_s
        per_worker, cpu = self._observables.workers(rate, speed, self._shares, self._each_per_s)
        if self._failed_worker is not None:
            per_worker[:, self._failed_worker] = cpu[:, self._failed_worker] = np.nan
        waited_s = self._waited_s(ends_s, arrived_total, progress - processed, processed)
        self.history.append(
            {
                "arrived": arrived / step_s,
                "processed": rate,
                "arrived_total": arrived_total,
                "progress_total": progress,
                "lag": lag,
                "capacity": could,
                "latency_p95_ms": self._observables.latency_p95_ms(rate, could, waited_s, self.scale_out),
                "uptime_s": uptime_s if running else np.nan,
                "scale_out": self.scale_out,
                "deployment": self._deployment,
                "worker_processed": per_worker,
                "worker_counter": self._count(per_worker),
                "worker_cpu": cpu,
                "cpu_load": _mean_of_present(cpu),
            }
        )
        self._arrived, self._progress, self._lag = float(arrived_total[-1]), float(progress[-1]), float(lag[-1])
        self._processed += float(processed.sum())
        self.now_s += seconds * step_s

    def _count(self, per_worker: Values) -> Values:
        """Return each worker's counter after each second; a restart has set it to 0."""
        absent = np.isnan(per_worker)
        counted = self.step_s * np.where(absent, 0.0, per_worker)
        counter = np.concatenate((self._counters[None], counted)).cumsum(axis=0)[1:]
        self._counters = counter[-1].copy()
        return np.where(absent, np.nan, counter)

    def _waited_s(self, ends_s: Values, arrived_total: Values, before: Values, processed: Values) -> Values:
        """Return how long what is processed in each second had waited; 0 where nothing is."""
        waited = np.zeros(len(ends_s))
        out = np.flatnonzero(processed > 0)
        if len(out):
            earlier = self.history.column("arrived_total")
            first = max(int(np.searchsorted(earlier, before[out[0]])) - 1, 0)
            known = np.concatenate((earlier[first:], arrived_total))
            rows = np.arange(first + 1, first + 1 + len(known), dtype=np.float64)
            times_s = self.step_s * rows + self.history.start_s
            waited[out] = physics.waited_s(times_s, known, ends_s[out], before[out], processed[out], step_s=self.step_s)
        return waited


def _mean_of_present(per_worker: Values) -> Values:
    """Return the mean over workers of each row, those left out that are not there; NaN where none is."""
    present = np.isfinite(per_worker)
    count = present.sum(axis=1)
    return np.where(count > 0, np.where(present, per_worker, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)

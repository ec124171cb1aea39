"""What workers of each size are worth: sampled alone, and what is left of that when they work together."""

from collections.abc import Mapping

from perdix.control.believe import WARM_S
from perdix.control.job_memory import JobMemory
from perdix.control.observe import Observation
from perdix.policies.contract import SizedWorker
from perdix.settings.stream_job import StreamJob
from perdix.targets.contract import Running

BUSY_ENOUGH = 0.2  # below, the busy share of an idling job says little of what it could do
LEARNS = 0.2  # weight of a tick: some five ticks, so that one uneven minute does not count
LEAST, MOST = 0.2, 1.2


def sized_workers(job: StreamJob, memory: JobMemory) -> Mapping[str, SizedWorker]:
    """Return size -> worker for a job that has sizes and whose performance model is known; else nothing.

    A worker among others is worth less than one that was sampled alone (skew, coordination): the share that is left is
    learned from the running job.
    """
    model = memory.performance
    if model is None or not job.sizes:
        return {}
    names = list(job.sizes)
    cores, memory_mb = [job.sizes[name].cpu_cores for name in names], [job.sizes[name].memory_mb for name in names]
    found = model.predict(cores, memory_mb)
    return {
        name: SizedWorker(
            job.sizes[name].cpu_cores,
            job.sizes[name].memory_mb,
            job.sizes[name].price_per_h,
            float(found.per_s[k]) * memory.mix_share,
            bool(found.extrapolated[k]),
        )
        for k, name in enumerate(names)
        if found.per_s[k] > 0
    }


def learned_mix_share(job: StreamJob, memory: JobMemory, observation: Observation, running: Running | None) -> float:
    """Return what is left of the sampled performance in the deployment that runs, a ratio.

    The deployment could process ``throughput / busy share of its busiest worker`` (DS2's true processing rate), and the
    sum of what its workers reached alone is known.
    """
    if observation.uptime_s is None or observation.uptime_s < WARM_S:  # a job that warms up is slower than it will be
        return memory.mix_share
    rate_per_s, busy = observation.throughput_per_s, max(observation.worker_busy, default=0.0)
    if running is None or not running.settled or not running.mix or rate_per_s is None or busy < BUSY_ENOUGH:
        return memory.mix_share
    known = sized_workers(job, memory)
    if any(size not in known for size in running.mix):
        return memory.mix_share
    alone_per_s = sum(count * known[size].per_s for size, count in running.mix.items()) / memory.mix_share
    if len(observation.worker_busy) != running.scale_out or alone_per_s <= 0:
        return memory.mix_share
    seen = min(max(rate_per_s / min(busy, 1.0) / alone_per_s, LEAST), MOST)
    return memory.mix_share + LEARNS * (seen - memory.mix_share)

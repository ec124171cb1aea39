"""How many simulated hours the twin passes in a second of wall time, and how near it is to what was measured.

Run: ``python -m benchmarks.twin``. Machines differ: read the ratios between the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from twin.emission import Scraping, emit
from twin.job import JobTwin
from twin.parameters import load_twin, load_twins
from twin.tending import tend

HOURS = 6
SECONDS = 3_600 * HOURS
START_S = 1_700_000_000
MEASURED_CAPACITY_PER_S = 488_000.0  # 12 saturated workers, one of which alone takes 61,757 (Daedalus' runs)
MEASURED_WORKER_PER_S = 61_757.0


def best_of(work: Callable[[], object], repeats: int = 3) -> float:
    times_s = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - began)
    return min(times_s)


def in_steps(name: str, step_s: int, seconds: int = SECONDS) -> Callable[[], object]:
    def work() -> object:
        twin = JobTwin(load_twin(name), 1, start_s=START_S, scale_out=12)
        for _ in range(seconds // step_s):
            twin.step(step_s)
        return twin

    return work


def tended(name: str) -> Callable[[], object]:
    return lambda: tend(JobTwin(load_twin(name), 1, start_s=START_S), SECONDS)


def scraped(name: str) -> tuple[Callable[[], object], int]:
    twin = JobTwin(load_twin(name), 1, start_s=START_S, scale_out=12)
    twin.step(SECONDS)
    samples = sum(len(series) for series in emit(twin, Scraping(5.0, 0.1, 0.01), names="flink"))
    return lambda: emit(twin, Scraping(5.0, 0.1, 0.01), names="flink"), samples


def speed() -> None:
    print(f"{'job':10} {'simulated as':28} {'wall s':>8} {'simulated h / wall s':>21}")
    for name in load_twins():
        rows: list[tuple[str, Callable[[], object], float]] = [
            ("6 h at once", in_steps(name, SECONDS), HOURS),
            ("6 h, a tick every 60 s", in_steps(name, 60), HOURS),
            ("6 h under the CPU rule", tended(name), HOURS),
            ("10 min, second by second", in_steps(name, 1, 600), 1 / 6),
        ]
        for label, work, hours in rows:
            wall_s = best_of(work)
            print(f"{name:10} {label:28} {wall_s:8.3f} {hours / wall_s:21,.0f}")
        work, samples = scraped(name)
        wall_s = best_of(work)
        print(
            f"{name:10} {'scraped every 5 s, 12 workers':28} {wall_s:8.3f} {samples / wall_s / 1e6:15.1f} M samples/s"
        )


def truth() -> None:
    twins = [JobTwin(load_twin("wordcount"), seed, scale_out=12) for seed in range(40)]
    single = load_twin("wordcount").workers.capacity_per_s
    shares = np.array([twin.current_capacity() for twin in twins]) / (12 * single)
    measured = MEASURED_CAPACITY_PER_S / (12 * MEASURED_WORKER_PER_S)
    print("\n12 workers against 12 times one worker (overhead and skew)")
    print(f"  measured {measured:.3f}   twin: mean {shares.mean():.3f}, sd {shares.std():.3f} over 40 seeds")


if __name__ == "__main__":
    speed()
    truth()

"""How many simulated hours the twin passes in a second of wall time, and how much memory it takes.

Run: ``python -m benchmarks.twin``. Machines differ: read the ratios between the rows. How near it is to what was
measured: ``python -m benchmarks.calibration``.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from benchmarks.harness import seconds
from perdix.twin.emission import Scraping, emit
from perdix.twin.job import JobTwin
from perdix.twin.parameters import load_twin, load_twins
from perdix.twin.tending import tend

HOURS = 6
SECONDS = 3_600 * HOURS
START_S = 1_700_000_000
KEPT_S = 3_600


def best_of(work: Callable[[], object]) -> float:
    return min(seconds(work) for _ in range(3))


def in_steps(name: str, step_s: int, length_s: int = SECONDS) -> Callable[[], object]:
    def work() -> object:
        twin = JobTwin(load_twin(name), 1, start_s=START_S, scale_out=12)
        for _ in range(length_s // step_s):
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
    """Print wall time by job and by how the time is cut into steps."""
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


def memory(name: str = "ads") -> None:
    """Print the peak of allocated memory by length of the trace: all of it recorded, and the last hour only."""
    print(f"\n{name}, a tick every 60 s{'':12} {'all recorded':>14} {'last hour kept':>15}")
    for hours in (6, 24):
        peaks = [_peak_mb(name, hours, kept_s) for kept_s in (None, KEPT_S)]
        print(f"{hours:3} h simulated{'':22} {peaks[0]:11.1f} MB {peaks[1]:12.1f} MB")


def _peak_mb(name: str, hours: int, kept_s: int | None) -> float:
    parameters = load_twin(name)
    JobTwin(parameters, 1, start_s=START_S).step(60)  # so that nothing is counted that is loaded once
    tracemalloc.start()
    twin = JobTwin(parameters, 1, start_s=START_S, scale_out=12)
    for tick in range(60 * hours):
        twin.step(60)
        if kept_s is not None and tick % 60 == 0:
            twin.history.discard_before(twin.now_s - kept_s)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    speed()
    memory()

"""How far off the capacity is that is learnt from workers which are not full, on twins whose truth is known.

Run ``python -m benchmarks.capacity_on_twins [--seeds 8] [--json]``: each twin runs for 20 minutes at a load that ranges
by 10 % around a share of what it takes; the lines through CPU load are then asked for the capacity of what runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.forecasting.contract import Values
from perdix.replay.twin_source import TwinSource
from perdix.settings.stream_job import Bounds, PolicySettings, StreamJob
from perdix.settings.targets import TwinSettings
from perdix.twin.job import JobTwin
from perdix.twin.parameters import load_twin

START_S = 1_760_000_000
RUNS = (("wordcount", 4), ("wordcount", 12), ("ysb", 4), ("ysb", 12), ("ysb", 24), ("tsw", 12))
LOADS = (0.2, 0.5, 0.8)
WARM_S, MINUTES, WINDOW_S = 300, 20, 180.0
SWING, SWING_S = 0.1, 300.0


def error(name: str, scale_out: int, load: float, seed: int) -> float:
    """Return the estimate's relative error for the deployment that runs."""
    parameters = load_twin(name)
    per_s = load * JobTwin(parameters, seed).true_capacity(scale_out)

    def arrivals(second: int, count: int) -> Values:
        return np.asarray(per_s * (1.0 + SWING * np.sin(np.arange(second, second + count) / SWING_S)))

    twin = JobTwin(parameters, seed, start_s=START_S, scale_out=scale_out, arrivals=arrivals)
    bounds, target = Bounds(minimum=1, maximum=parameters.workers.maximum), TwinSettings(url="http://in.process")
    job = StreamJob(name=name, bounds=bounds, policy=PolicySettings(), target=target)
    source, model = TwinSource(twin), ScaleOuts()
    twin.step(WARM_S)
    for _ in range(MINUTES):
        twin.step(60)
        model = model.update(source.read(job, twin.now_s, twin.now_s - WINDOW_S).window, scale_out)
    return model.capacity(scale_out).per_s / twin.current_capacity() - 1.0


def rows(seeds: int) -> Iterator[dict[str, object]]:
    """Yield a row per twin and scale-out: mean and standard deviation over seeds at each load, in percent."""
    for name, scale_out in RUNS:
        row: dict[str, object] = {"twin": name, "scale_out": scale_out}
        for load in LOADS:
            found = 100.0 * np.array([error(name, scale_out, load, seed) for seed in range(1, seeds + 1)])
            row |= {f"error_at_{load:.0%}_pct": float(found.mean()), f"error_at_{load:.0%}_sd": float(found.std())}
        yield row


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    found = list(rows(asked.seeds))
    if asked.json:
        print(json.dumps(found, indent=1))
        return 0
    print("| twin, workers | " + " | ".join(f"at {load:.0%}" for load in LOADS) + " |\n|" + "---|" * (len(LOADS) + 1))
    for row in found:
        cells = [f"{row[f'error_at_{load:.0%}_pct']:+.1f} +- {row[f'error_at_{load:.0%}_sd']:.1f} %" for load in LOADS]
        print(f"| {row['twin']}, {row['scale_out']} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

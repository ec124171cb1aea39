"""Phoebe's measured profile as the models' tests read it, and a job whose truth is known."""

from pathlib import Path

import numpy as np
import pandas as pd

from perdix.models.profiling.profile import ProfilePoint

OVERLOADED_MS = 2_000.0


def measured_profile(shared_data: Path) -> tuple[list[ProfilePoint], dict[int, float]]:
    """Return the 79 points and T_max of 8 scale-outs; what was offered is not recorded, so throughput stands for it."""
    rows = pd.read_csv(shared_data / "phoebe" / "profiles2.csv")
    pressed = rows["isBckPres"] == 1
    points = [
        ProfilePoint(int(n), float(rate), float(rate), float(latency), valid=True)
        for n, rate, latency in rows.loc[~pressed, ["scaleOut", "avgThr", "avgLat"]].itertuples(index=False)
    ]
    most = rows[pressed].set_index("scaleOut")["avgThr"]
    return points, {int(n): float(value) for n, value in most.items()}


def known_job(noise: float = 0.04, seed: int = 1, per_worker: float = 10_000.0, base_ms: float = 500.0):
    """Return points and T_max of a job that takes 10,000 records/s per worker and queues as M/M/1 does a little."""
    chance = np.random.default_rng(seed)
    points = []
    for n in (2, 5, 8, 11):
        for rate in np.arange(0.15, 1.35, 0.1) * per_worker * n:
            used = rate / (per_worker * n)
            keeps_up = bool(used < 0.95)
            latency = base_ms * (1 + 0.1 * min(used, 0.95) / (1 - min(used, 0.95))) * (1 + noise * chance.normal())
            points.append(
                ProfilePoint(
                    n,
                    float(rate),
                    float(min(rate, per_worker * n)),
                    float(latency if keeps_up else 15_000 + 5_000 * chance.random()),
                    valid=keeps_up,
                )
            )
            if used > 1.2:
                break
    return points, {n: n * per_worker for n in (2, 5, 8, 11)}

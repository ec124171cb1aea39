"""What the zoo's jobs are like, apart from their workload: speed, skew, restarts, CPU, latency, partitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from perdix.twin.parameters import Latency, TwinParameters

WORKERS = (3, 60)  # at most
PER_S = (50.0, 100_000.0)  # of one worker
RESTART_S = (2.0, 60.0)
IDLE_CPU = (0.02, 0.30)
BASE_MS = (50.0, 10_000.0)
PARTITIONS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
CHECKPOINTS_S = (5, 10, 10, 30, 60, 180)
SENSIBLE = 2.0  # times what the job shows at three quarters of its capacity


def drawn_parameters(name: str, rng: np.random.Generator) -> TwinParameters:
    """Return a job's twin without a workload of its own."""
    maximum = round(_log_uniform(rng, *WORKERS))
    out_s = _log_uniform(rng, *RESTART_S)
    base_ms = _log_uniform(rng, *BASE_MS)
    return TwinParameters.model_validate(
        {
            "name": name,
            "demo": False,
            "workers": _workers(rng, maximum),
            "keys": _keys(rng),
            "source": {"partitions": _partitions(rng, maximum)},
            "cpu": {
                "idle": rng.uniform(*IDLE_CPU),
                "noise": _log_uniform(rng, 0.005, 0.06),
                "request": float(rng.choice([1.0, rng.uniform(0.5, 1.0)])),
            },
            "restart": {
                "out": {"median_s": out_s, "spread": rng.uniform(0.05, 0.3)},
                "in": {"median_s": max(1.0, out_s * rng.uniform(0.4, 1.0)), "spread": rng.uniform(0.05, 0.3)},
                "checkpoint_interval_s": int(rng.choice(CHECKPOINTS_S)),
                "warm_up_s": int(rng.uniform(0.0, 60.0)),
                "warm_up_speed": rng.uniform(0.3, 1.0),
            },
            "latency": {
                "base_ms": base_ms,
                "queueing": rng.uniform(0.01, 0.08),
                "noise": _log_uniform(rng, 0.01, 0.15),
            },
            "workload": {"shape": "constant", "peak_per_s": 1.0},
            "start_scale_out": 1,
        }
    )


def objective_ms(latency: Latency) -> float:
    """Return what the objective for the p95 latency is at least: what a sensible operator would leave room for."""
    loaded = latency.base_ms * (1.0 + latency.queueing * 0.75 / 0.25) + latency.fill_at_most_ms * (
        latency.fill_records > 0
    )
    return SENSIBLE * loaded


def _workers(rng: np.random.Generator, maximum: int) -> dict[str, Any]:
    contention = float(rng.choice([0.0, rng.uniform(0.0, 0.03)], p=[0.2, 0.8]))
    # a further worker is never a loss: n / (1 + a (n-1) + b n (n-1)) is largest at sqrt((1 - a) / b)
    coherency = float(rng.choice([0.0, rng.uniform(0.0, 0.5) * (1.0 - contention) / maximum**2], p=[0.6, 0.4]))
    return {
        "capacity_per_s": _log_uniform(rng, *PER_S),
        "maximum": maximum,
        "speed_spread": rng.uniform(0.0, 0.18),
        "contention": contention,
        "coherency": coherency,
        "capacity_noise": rng.uniform(0.01, 0.08),
    }


def _keys(rng: np.random.Generator) -> dict[str, Any]:
    """Return half the time key groups as Flink deals them, else a spread that a rescale draws anew in part."""
    wobble = rng.uniform(0.01, 0.1)
    if rng.random() < 0.5:
        return {"skew_spread": rng.uniform(0.02, 0.2), "redrawn": rng.uniform(0.0, 1.0), "wobble": wobble}
    return {
        "count": int(_log_uniform(rng, 200, 200_000)),
        "zipf": rng.uniform(0.0, 1.1),
        "groups": int(rng.choice([128, 128, 256, 1_024])),
        "keyed": rng.uniform(0.3, 1.0),
        "wobble": wobble,
    }


def _partitions(rng: np.random.Generator, maximum: int) -> int | None:
    """Return two times in five a number that is near enough to the most workers to matter."""
    near = [number for number in PARTITIONS if maximum / 3 <= number <= 2 * maximum]
    number = int(rng.choice(near)) if near else maximum
    return number if rng.random() < 0.4 else None


def _log_uniform(rng: np.random.Generator, least: float, most: float) -> float:
    return float(np.exp(rng.uniform(np.log(least), np.log(most))))

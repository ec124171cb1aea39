"""Stays of a job at a scale-out, as the loop sees them and as the lake keeps them."""

from dataclasses import replace

import numpy as np
import pandas as pd

from perdix.telemetry.window import Window

IDLE = 0.09
STEP_S = 10.0


def window(start_s, scale_out, per_worker=50_000.0, minutes=3, seed=0, busy=1.0, idle=IDLE, **job):
    """A window of a job whose load swings between 0.3 and 0.7; CPU is the mean of the last minute, as exported.

    ``idle``: CPU load at which it processes nothing; ``busy`` is of the load above it where it is another.
    """
    if idle != IDLE:
        usual = window(start_s, scale_out, busy * per_worker, minutes, seed, **job)
        cpu = idle + (1 - idle) * busy * (usual.worker_metrics["cpu_load"] - IDLE) / (1 - IDLE)
        return replace(usual, worker_metrics={**usual.worker_metrics, "cpu_load": cpu})
    times = start_s + STEP_S * np.arange(int(minutes * 60 / STEP_S))
    rng = np.random.default_rng([seed, int(start_s)])
    shares = np.linspace(1.0, 0.9, scale_out)[None, :]
    per_step = [busy * (0.5 + 0.2 * np.sin((times - STEP_S * back) / 300.0)) for back in range(6)]
    cpu, load = np.mean(per_step, axis=0)[:, None] * shares, per_step[0][:, None] * shares
    throughput = per_worker * (load - IDLE) / (1 - IDLE) + rng.normal(0, 100, cpu.shape)
    workers = tuple(f"flink-taskmanager-658b48fc8c-{index:05d}" for index in range(scale_out))
    metrics = {name: np.full(len(times), value, dtype=float) for name, value in job.items()}
    return Window("job", STEP_S, times, workers, metrics, {"cpu_load": cpu, "throughput_per_s": throughput}, times[-1])


def stay(model, scale_out, start_s=0.0, minutes=30, per_worker=50_000.0, busy=1.0, idle=IDLE):
    """Learn from a stay of some minutes as the loop does: a tick a minute, each with the last three minutes."""
    for minute in range(3, minutes + 1):
        seen = window(start_s + 60 * (minute - 3), scale_out, per_worker, busy=busy, idle=idle)
        model = model.update(seen, scale_out)
    return model


def history(stays, per_worker, start="2026-01-01", minutes=60, seed=0):
    """Rows of ``capacity_features``: ``stays`` is the scale-out of each hour."""
    rng = np.random.default_rng(seed)
    parts = []
    for hour, n in enumerate(stays):
        ts = pd.Timestamp(start, tz="UTC") + pd.to_timedelta(3600 * hour + 60 * np.arange(minutes), unit="s")
        load = 0.5 + 0.35 * np.sin(np.arange(minutes) / 8)
        for worker, share in enumerate(np.linspace(1.0, 0.85, n)):
            cpu = load * share + rng.normal(0, 0.005, minutes)
            throughput = per_worker(n) * (cpu - IDLE) / (1 - IDLE) + rng.normal(0, 200, minutes)
            parts.append(
                pd.DataFrame(
                    {
                        "ts": ts,
                        "worker": f"h{hour}w{worker}",
                        "scale_out": n,
                        "cpu_load": cpu,
                        "throughput_per_s": np.maximum(throughput, 0),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)

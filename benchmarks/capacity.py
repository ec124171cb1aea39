"""Capacity against measured data: the ramp, the sine of two workers, and 12 skewed workers at saturation.

Run ``python -m benchmarks.capacity [--json]`` from the project's folder, with the data pack beside it.
"""

from __future__ import annotations

import sys

import pandas as pd

from benchmarks.harness import Row, markdown, options, write_json
from benchmarks.measured import DATA, by_worker, there
from perdix.models.capacity.line import Line
from perdix.models.capacity.report import below_cpu
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.telemetry.features import capacity_features
from perdix.telemetry.window import Window

METRICS = DATA / "metrics"
RUNS = {
    "ramp": ("figures/cpu_1.csv", "figures/throughput_1.csv"),
    "assumptions": ("figures/assumptions_cpu_1.csv", "figures/assumptions_throughput_1.csv"),
    "sine": ("testing/sine_cpu_p2.csv", "testing/sine_throughput_p2.csv"),
    "skew": ("figures/data_skew_cpu_12.csv", "figures/data_skew_throughput_12.csv"),
}
SATURATED_CPU = 0.95
MEASURED_IDLE = 0.09  # CPU load of these jobs at which nothing is processed: 7.8 to 11.4 % in four runs
LOOP_S, WINDOW_S = 60.0, 180.0
HOTTEST = 0.03  # share of the samples that stand for saturation in a run that does not reach it


def wide(run: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return CPU and throughput of a run, a column per worker, joined by NAME: the files order workers differently."""
    cpu, throughput = (by_worker(file).tz_localize("UTC") for file in RUNS[run])
    both = cpu.index.intersection(throughput.index)
    workers = sorted(set(cpu.columns) & set(throughput.columns))
    return cpu.loc[both, workers], throughput.loc[both, workers]


def features(run: str) -> pd.DataFrame:
    """Return a run as the feature pipeline would: CPU beside the throughput of the same minute."""
    cpu, throughput = wide(run)
    parts = [
        pd.DataFrame({"ts": cpu.index, "worker": name, "cpu_load": cpu[name], "throughput_per_s": throughput[name]})
        for name in cpu
    ]
    return capacity_features(pd.concat(parts, ignore_index=True), pd.DataFrame(columns=["ts"]))


def measured_capacity(run: str) -> float:
    """Return what was measured at saturation, records/s.

    The mean total of saturated samples; where the run does not reach saturation, that of its hottest 3 %, divided by
    the share of the CPU above idle that they used.
    """
    cpu, throughput = wide(run)
    hottest, total = cpu.max(axis=1), throughput.sum(axis=1)
    if run == "skew":
        return float(total.mean())
    if (hottest > SATURATED_CPU).mean() > HOTTEST:
        return float(total[hottest > SATURATED_CPU].mean())
    top = hottest >= hottest.quantile(1.0 - HOTTEST)
    idle = MEASURED_IDLE
    return float(total[top].mean() * (1.0 - idle) / (hottest[top].mean() - idle))


def case(name: str, run: str, rows: pd.DataFrame) -> Row:
    """Ask the model, and the two rules that it improves on, with the same rows; judge them by what was measured."""
    model = ScaleOuts.from_features(rows)
    scale_out = model.scale_out or 1
    estimate = model.capacity(scale_out)
    by_worker = [group for _, group in rows.groupby("worker")]
    lines = [Line.of(group["cpu_load"], group["throughput_per_s"]) for group in by_worker]
    said = {
        "perdix": estimate.per_s,
        "unskewed_line": sum(line.fit().predict(1.0) for line in lines),
        "ratio": sum(float((group["throughput_per_s"] / group["cpu_load"]).mean()) for group in by_worker),
    }
    true = measured_capacity(run)
    row: Row = {"name": name, "samples": len(rows) // scale_out, "measured_per_s": true}
    row |= {f"{who}_per_s": per_s for who, per_s in said.items()}
    row |= {"low_per_s": estimate.low_per_s, "high_per_s": estimate.high_per_s}
    row |= {"off": said["perdix"] / true - 1.0, "covered": estimate.low_per_s <= true <= estimate.high_per_s}
    return row | {f"{who}_off": said[who] / true - 1.0 for who in ("unskewed_line", "ratio")}


def cases() -> list[Row]:
    """Return every case, in the order in which it is printed."""
    found = []
    for run in ("ramp", "assumptions"):
        rows = features(run)
        found += [case(f"{run}, CPU < {limit}", run, below_cpu(rows, limit)) for limit in (0.3, 0.5, 0.7)]
        found.append(case(f"{run}, all", run, rows))
    sine = features("sine")
    hottest = sine.groupby("ts")["cpu_load"].transform("max")
    for low, high in ((0.1, 0.3), (0.3, 0.5), (0.5, 0.7)):
        band = sine[(hottest >= low) & (hottest < high)]
        found.append(case(f"sine, 2 workers, CPU {low} to {high}", "sine", band))
    found.append(case("sine, 2 workers, CPU < 0.7", "sine", below_cpu(sine, 0.7)))
    found.append(case("12 skewed workers, saturated", "skew", features("skew")))
    return found


def online_ramp() -> list[Row]:
    """Replay the ramp as the control loop would see it, until the job is saturated: an estimate after each loop."""
    cpu, throughput = (frame.resample("5s").interpolate() for frame in wide("ramp"))
    times = pd.DatetimeIndex(cpu.index).as_unit("s").astype("int64").to_numpy().astype(float)
    model, loops = ScaleOuts(), []
    for loop in range(1, int((times[-1] - times[0]) / LOOP_S) + 1):
        now = times[0] + loop * LOOP_S
        rows = (times > now - WINDOW_S) & (times <= now)
        metrics = {"cpu_load": cpu[rows].to_numpy(), "throughput_per_s": throughput[rows].to_numpy()}
        model = model.update(Window("ramp", 5.0, times[rows], tuple(cpu.columns), {}, metrics, now), 1)
        seen = cpu[rows].to_numpy()[-12:]
        if seen.mean() > SATURATED_CPU:
            break
        estimate, mean_cpu = model.capacity(1), float(seen.mean())
        row = {"loop": loop, "cpu": mean_cpu, "per_s": estimate.per_s}
        row |= {"low_per_s": estimate.low_per_s, "high_per_s": estimate.high_per_s}
        loops.append(row | {"ratio_per_s": float(throughput[rows].to_numpy()[-12:].mean() / mean_cpu)})
    return loops


def main(arguments: list[str] | None = None) -> int:
    asked = options(__doc__).parse_args(arguments)
    if not there(METRICS):
        return 2
    found, loops = cases(), online_ramp()
    if asked.json:
        write_json({"cases": found, "online_ramp": loops})
        return 0
    print(
        "Capacity at scale-out as measured, records/s; ratio: mean throughput / CPU to CPU 1, unskewed_line: no skew\n"
    )
    markdown(found)
    print(f"\nRamp learnt online, one-minute loops; saturated at {measured_capacity('ramp'):,.0f}/s\n")
    markdown(loops)
    return 0


if __name__ == "__main__":
    sys.exit(main())

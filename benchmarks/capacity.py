"""Capacity against measured data: the ramp, the sine of two workers, and 12 skewed workers at saturation.

Run ``python -m benchmarks.capacity [--json]`` from the project's folder, with the data pack beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from perdix.models.capacity.line import Line
from perdix.models.capacity.report import below_cpu
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.telemetry.features import capacity_features
from perdix.telemetry.window import Window

METRICS = Path(__file__).parents[1] / "../shared/data/metrics"
RUNS = {
    "ramp": ("figures/cpu_1.csv", "figures/throughput_1.csv"),
    "assumptions": ("figures/assumptions_cpu_1.csv", "figures/assumptions_throughput_1.csv"),
    "sine": ("testing/sine_cpu_p2.csv", "testing/sine_throughput_p2.csv"),
    "skew": ("figures/data_skew_cpu_12.csv", "figures/data_skew_throughput_12.csv"),
}
SATURATED_CPU = 0.95
MEASURED_IDLE = 0.09  # CPU load of these jobs at which nothing is processed: 7.8 to 11.4 % in four runs
HOTTEST = 0.03  # share of the samples that stand for saturation in a run that does not reach it


@dataclass(frozen=True)
class Case:
    """One question to the model: learn from these samples, say the capacity, be judged by what was measured."""

    name: str
    samples: int
    measured_per_s: float
    perdix_per_s: float
    low_per_s: float
    high_per_s: float
    unskewed_line_per_s: float
    ratio_per_s: float

    def off(self, value: float) -> float:
        """Return the relative error of a value."""
        return value / self.measured_per_s - 1.0

    @property
    def covered(self) -> bool:
        """Whether the 90 % interval holds what was measured."""
        return self.low_per_s <= self.measured_per_s <= self.high_per_s


def wide(run: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return CPU and throughput of a run, a column per worker, joined by NAME: the files order workers differently."""
    cpu, throughput = (
        pd.read_csv(METRICS / file, encoding="utf-8-sig", index_col=0, parse_dates=True).tz_localize("UTC")
        for file in RUNS[run]
    )
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


def case(name: str, run: str, rows: pd.DataFrame) -> Case:
    """Ask the model, and the two rules that it improves on, with the same rows."""
    model = ScaleOuts.from_features(rows)
    scale_out = model.scale_out or 1
    estimate = model.capacity(scale_out)
    by_worker = [group for _, group in rows.groupby("worker")]
    lines = [Line.of(group["cpu_load"], group["throughput_per_s"]) for group in by_worker]
    return Case(
        name=name,
        samples=len(rows) // scale_out,
        measured_per_s=measured_capacity(run),
        perdix_per_s=estimate.per_s,
        low_per_s=estimate.low_per_s,
        high_per_s=estimate.high_per_s,
        unskewed_line_per_s=sum(line.fit().predict(1.0) for line in lines),
        ratio_per_s=sum(float((group["throughput_per_s"] / group["cpu_load"]).mean()) for group in by_worker),
    )


def cases() -> list[Case]:
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


@dataclass(frozen=True)
class Loop:
    """The estimate after ``loop`` one-minute loops of the ramp, learnt online window by window."""

    loop: int
    cpu: float
    per_s: float
    low_per_s: float
    high_per_s: float
    ratio_per_s: float


def online_ramp(loop_s: float = 60.0, window_s: float = 180.0) -> list[Loop]:
    """Replay the ramp as the control loop would see it, until the job is saturated."""
    cpu, throughput = (frame.resample("5s").interpolate() for frame in wide("ramp"))
    times = pd.DatetimeIndex(cpu.index).as_unit("s").astype("int64").to_numpy().astype(float)
    model, loops = ScaleOuts(), []
    for loop in range(1, int((times[-1] - times[0]) / loop_s) + 1):
        now = times[0] + loop * loop_s
        rows = (times > now - window_s) & (times <= now)
        metrics = {"cpu_load": cpu[rows].to_numpy(), "throughput_per_s": throughput[rows].to_numpy()}
        model = model.update(Window("ramp", 5.0, times[rows], tuple(cpu.columns), {}, metrics, now), 1)
        seen = cpu[rows].to_numpy()[-12:]
        if seen.mean() > SATURATED_CPU:
            break
        estimate = model.capacity(1)
        ratio = float(throughput[rows].to_numpy()[-12:].mean() / seen.mean())
        loops.append(Loop(loop, float(seen.mean()), estimate.per_s, estimate.low_per_s, estimate.high_per_s, ratio))
    return loops


def _print(found: list[Case], loops: list[Loop]) -> None:
    print(
        "Capacity at scale-out as measured, records/s; errors against it. 'ratio' = mean throughput / CPU to CPU 1.\n"
    )
    print(f"{'learnt from':32} {'rows':>5} {'measured':>9} {'perdix':>9} {'off':>7} {'90 % interval':>19} {'holds':>5} "
          f"{'no skew':>8} {'ratio':>8}")  # fmt: skip
    for point in found:
        interval = f"{point.low_per_s:,.0f}-{point.high_per_s:,.0f}"
        print(f"{point.name:32} {point.samples:5} {point.measured_per_s:9,.0f} {point.perdix_per_s:9,.0f} "
              f"{point.off(point.perdix_per_s):+7.1%} {interval:>19} {'yes' if point.covered else 'NO':>5} "
              f"{point.off(point.unskewed_line_per_s):+8.1%} "
              f"{point.off(point.ratio_per_s):+8.1%}")  # fmt: skip
    truth = measured_capacity("ramp")
    print(f"\nRamp learnt online, one-minute loops; saturated at {truth:,.0f}/s")
    print(f"{'loop':>4} {'CPU':>5} {'perdix':>9} {'off':>7} {'holds':>5} {'ratio':>8}")
    for loop in loops:
        held = "yes" if loop.low_per_s <= truth <= loop.high_per_s else "NO"
        print(f"{loop.loop:4} {loop.cpu:5.2f} {loop.per_s:9,.0f} {loop.per_s / truth - 1:+7.1%} {held:>5} "
              f"{loop.ratio_per_s / truth - 1:+8.1%}")  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    wanted = parser.parse_args(arguments)
    if not METRICS.is_dir():
        print(f"{METRICS}: no measured data; put the data pack beside the project", file=sys.stderr)
        return 2
    found, loops = cases(), online_ramp()
    if wanted.json:
        shown = [
            asdict(point) | {"off": point.off(point.perdix_per_s), "covered": bool(point.covered)} for point in found
        ]
        print(json.dumps({"cases": shown, "online_ramp": [asdict(loop) for loop in loops]}, default=float))
    else:
        _print(found, loops)
    return 0


if __name__ == "__main__":
    sys.exit(main())

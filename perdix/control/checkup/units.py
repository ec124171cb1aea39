"""Which unit a metric seems to be reported in, where it is not its own.

What cannot be is known (:mod:`perdix.telemetry.plausible`). A latency in seconds and an uptime in milliseconds can be:
the one is held against its objective and against what waits, the other against the clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from perdix.telemetry.metrics import BUSY, CANONICAL
from perdix.telemetry.plausible import Plausible
from perdix.telemetry.window import Values

FAR_BELOW: Final = 200.0  # times below its objective, from which a latency is doubted
FAR_ABOVE: Final = 100.0  # times above what waits, and twice its objective
LEAST_WAIT_S: Final = 0.1  # below that, what waits says nothing of a latency
FULL: Final = 1.1  # of a ratio: what most values are below, though some may pass 1
ALIKE: Final = 0.1  # relative difference of an uptime's pace from a unit's
SCALES: Final[Mapping[str, tuple[tuple[float, str], ...]]] = {
    "ratio": ((0.01, "percent"), (0.001, "thousandths")),
    BUSY.name: ((0.001, "milliseconds per second"), (0.01, "percent")),  # the unit of Flink's own metric comes first
    "ms": ((1_000.0, "seconds"), (0.001, "microseconds"), (1e-6, "nanoseconds")),
    "s": ((0.001, "milliseconds"), (60.0, "minutes"), (1e-6, "microseconds"), (1e-9, "nanoseconds")),
}


@dataclass(frozen=True)
class Unit:
    """The unit that a metric seems to be reported in, and by which factor that becomes its own unit."""

    scale: float
    name: str

    def question(self, where: str) -> str:
        """Return the fix, with ``where`` the scale is set."""
        return f"is it in {self.name}? Set scale: {self.scale:g} {where}"


def of_value(metric: str, value: float, limits: Plausible) -> Unit | None:
    """Return in which unit a value that cannot be would be possible; ``None`` where that is not known."""
    unit = CANONICAL[metric].unit
    scales = SCALES.get(metric) or SCALES.get(unit, ())
    fitting = (Unit(scale, name) for scale, name in scales if scale < 1.0)
    high = min(limits.high, FULL) if unit == "ratio" else limits.high
    return next((unit for unit in fitting if limits.low <= value * unit.scale <= high), None)


def of_uptime(times_s: Values, uptime: Values) -> tuple[Unit, float] | None:
    """Return the unit of an uptime that does not rise by 1 a second, and by how much it does; ``None``: all is well."""
    known = np.isfinite(uptime)
    steps, moved = np.diff(times_s[known]), np.diff(uptime[known])
    rising = moved > 0
    if rising.sum() < 3:
        return None
    pace = float(np.median(moved[rising] / steps[rising]))
    for scale, name in SCALES["s"]:
        if abs(pace * scale - 1.0) < ALIKE:
            return Unit(scale, name), pace
    return None


def of_latency(latency_ms: float, objective_ms: float, waits_s: float | None) -> tuple[Unit, str] | None:
    """Return the unit that a p95 latency seems to be in and why that is thought; ``None`` where it may well be ms.

    ``waits_s``: consumer lag over throughput: how long a record waits before it is read; ``None`` where that is not
    measured.
    """
    seconds, microseconds = (Unit(scale, name) for scale, name in SCALES["ms"][:2])
    if 0.0 < latency_ms < objective_ms / FAR_BELOW:
        share = f"{latency_ms:.3g} ms is 1/{objective_ms / latency_ms:,.0f} of the objective of {objective_ms:,.0f} ms"
        return seconds, share
    if waits_s is None:
        return None
    waits_ms = 1_000.0 * max(waits_s, LEAST_WAIT_S)
    if latency_ms > max(FAR_ABOVE * waits_ms, 2.0 * objective_ms):
        return microseconds, f"{latency_ms:,.0f} ms, while a record waits only {waits_s:.2g} s to be read"
    if 0.0 < latency_ms < waits_ms / FAR_ABOVE and waits_s > LEAST_WAIT_S:
        return seconds, f"{latency_ms:.3g} ms, while a record waits {waits_s:.2g} s to be read"
    return None

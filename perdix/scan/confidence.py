"""How far a recommendation can be trusted: a grade from A to D, with its reason."""

from dataclasses import dataclass
from typing import Final, Literal

from perdix.models.capacity.contract import Estimate
from perdix.policies.wording import workers as in_words
from perdix.scan.learning import Learned

Grade = Literal["A", "B", "C", "D"]
ORDER: Final[tuple[Grade, ...]] = ("A", "B", "C", "D")
WIDTHS: Final = (0.09, 0.18, 0.32)  # half the 90 % interval as a share of the estimate, up to which A, B, C are given
DAYS: Final = (6.0, 3.0, 1.0)  # of known load, from which A, B, C are given
COVERAGES: Final = (0.95, 0.8, 0.5)  # share of the time with known load
DOUBTED: Final = 2  # place of the best grade that is given where what was measured contradicts what was learned: C


@dataclass(frozen=True)
class Confidence:
    """A grade, the best first, and what keeps it from a better one."""

    grade: Grade
    reason: str


def confidence(learned: Learned, workers: int, doubt: str = "") -> Confidence:
    """Return the grade of recommending ``workers``: the worst of what the capacity, the time and the gaps allow.

    ``doubt``: what that was measured contradicts what was learned, in words; empty where nothing does.
    """
    estimate = learned.capacities[workers]
    # As it is shown: a restart that lacks two minutes of a day costs no grade
    known_days, known_share = round(learned.known_days, 1), round(learned.known_share, 3)
    judged = [
        (_by_width(estimate), _capacity_reason(estimate)),
        (_at_least(known_days, DAYS), f"only {known_days:.1f} days of load are known"),
        (_at_least(known_share, COVERAGES), f"the load is known for {_percent(known_share)} of the time"),
    ]
    if not estimate.seen and judged[0][0] == 0:
        judged[0] = (1, judged[0][1])  # what never ran is never certain
    if doubt:
        judged.insert(0, (DOUBTED, doubt))  # of reasons for the same grade it is the first
    place, reason = max(judged, key=lambda graded: graded[0])
    if place == 0:
        return Confidence("A", f"{in_words(workers)} ran here, and {known_days:.0f} days of load are known")
    return Confidence(ORDER[place], reason)


def legend() -> str:
    """Return in words what the grades mean, by the limits that give them."""
    (a_width, b_width, c_width), (a_days, b_days, c_days) = (
        [f"±{100.0 * width:.0f} %" for width in WIDTHS],
        [f"{days:.0f} day{'' if days == 1.0 else 's'}" for days in DAYS],
    )
    a_share, b_share, c_share = (f"{100.0 * share:.0f} %" for share in COVERAGES)
    return (
        f"A: the size ran, what it takes is known to {a_width}, and {a_days} of load are known, {a_share} of the "
        f"time; B: to {b_width}, or it never ran, or {b_days}, or {b_share}; C: to {c_width}, or {c_days}, or "
        f"{c_share}, or what was measured contradicts what was learned; D: less"
    )


def _by_width(estimate: Estimate) -> int:
    half = round(half_width(estimate), 3)  # as the reason shows it
    return next((place for place, limit in enumerate(WIDTHS) if half <= limit), len(WIDTHS))


def half_width(estimate: Estimate) -> float:
    """Return half of the 90 % interval as a share of the estimate."""
    return (estimate.high_per_s - estimate.low_per_s) / (2.0 * estimate.per_s)


def _at_least(value: float, limits: tuple[float, ...]) -> int:
    return next((place for place, limit in enumerate(limits) if value >= limit), len(limits))


def _capacity_reason(estimate: Estimate) -> str:
    known = "ran here" if estimate.seen else "never ran here: its capacity is extrapolated"
    return f"{in_words(estimate.scale_out)} {known}, known to ±{_percent(half_width(estimate))}"


def _percent(share: float) -> str:
    """Return a share to a tenth of a percent: what is just less than a limit is not shown as it."""
    return f"{share:.1%}".replace(".0%", "%")

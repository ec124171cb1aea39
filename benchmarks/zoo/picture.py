"""The zoo in one picture: how often each policy holds the objective, at what price, and how every job fared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from benchmarks.zoo.contenders import BEST_STATIC
from benchmarks.zoo.summary import against_best, ratio
from perdix.replay.canvas import GREEN, RED, as_wide_as, canvas
from perdix.replay.comparison_picture import colours_of

Document = Mapping[str, Any]


def picture(document: Document) -> Figure:
    """Draw a campaign's document."""
    policies = [row for row in document["policies"] if row["policy"] != BEST_STATIC]
    colours = colours_of([row["policy"] for row in policies])
    figure, grid = canvas(2, 3, width_in=11.0, height_in=8.0, height_ratios=(1.0, 1.9))
    _bars(grid[0, 0], policies, colours, "held_share", "objective held (of jobs in which a fixed size can)")
    _bars(grid[0, 1], policies, colours, "of_best_static", "worker-seconds, best fixed size = 1")
    _bars(grid[0, 2], policies, colours, "rescales_per_day", "rescales a day")
    grid[0, 0].set_xlim(0.0, 1.12)
    grid[0, 0].xaxis.set_major_formatter(PercentFormatter(1.0))
    grid[0, 1].axvline(1.0, color="black", lw=1.0, ls=":")
    _jobs(as_wide_as(grid[1], figure), document, colours)
    jobs = len(document["jobs_played"])
    regime = f", rescales {document['regime']}" if document["regime"] else ""
    which = f"{jobs} jobs of {document['hours']:g} h that nobody tuned to"
    figure.suptitle(f"Zoo, seed {document['seed']}: {which}{regime}")
    return figure


def _bars(axes: Axes, policies: Sequence[Document], colours: Mapping[str, str], what: str, title: str) -> None:
    names, values = [row["policy"] for row in policies], [row[what] or 0.0 for row in policies]
    places = np.arange(len(names))[::-1]
    axes.barh(places, values, color=[colours[name] for name in names], height=0.7)
    axes.set_yticks(places, names)
    axes.set_title(title, loc="left", fontsize=9)
    axes.set_xlim(0.0, 1.25 * max([*values, 1e-9]))
    for place, value in zip(places, values, strict=True):
        shown = (
            f"{value:.0%}" if what == "held_share" else f"{value:.2f}" if what == "of_best_static" else f"{value:.1f}"
        )
        axes.text(value, place, f" {shown}", va="center", fontsize=9)
    axes.grid(visible=False, axis="y")


def _jobs(axes: Axes, document: Document, colours: Mapping[str, str]) -> None:
    """Draw a point per job and policy: to the right it costs more, upwards it is late more often."""
    pairs = [(row, best) for row, best in against_best(document["rows"]) if row["policy"] != BEST_STATIC]
    for policy, colour in colours.items():
        mine = [(ratio(row, best), row["late_share"]) for row, best in pairs if row["policy"] == policy]
        judged = policy == document["judged"]
        axes.scatter(
            [point[0] for point in mine],
            [point[1] for point in mine],
            s=34 if judged else 16,
            color=colour,
            alpha=0.85 if judged else 0.55,
            lw=0,
            label=policy,
            zorder=3 if judged else 2,
        )
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.01, linscale=0.6)
    low, high = _span([ratio(row, best) for row, best in pairs])
    axes.set_xlim(low, high)
    axes.set_ylim(-0.0008, 1.0)
    axes.axvline(1.0, color="black", lw=1.0, ls=":")
    axes.axhline(0.05, color="black", lw=1.0, ls=":")
    axes.fill_between([1.0, high], 0.05, 1.0, color=RED, alpha=0.07, lw=0)
    axes.text(
        high,
        0.9,
        "dearer than the best fixed size, and the objective is lost ",
        color=RED,
        fontsize=9,
        ha="right",
        va="top",
    )
    axes.fill_between([low, 1.0], -0.0008, 0.05, color=GREEN, alpha=0.07, lw=0)
    axes.text(low, 0.046, " cheaper, and on time", color=GREEN, fontsize=9, va="top")
    axes.text(high, 0.053, "objective: late in at most 5 % ", color="black", fontsize=8, ha="right", va="bottom")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} x"))
    axes.set_xticks([tick for tick in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2, 3, 5, 10, 20, 50) if low <= tick <= high])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks([0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("worker-seconds, the job's best fixed size = 1")
    axes.set_ylabel("share of the time late")
    for row, best in pairs:
        if row["policy"] == document["judged"] and row["job"] in {row["job"] for row in document["worst"]}:
            at = (ratio(row, best), row["late_share"])
            axes.annotate(f"job {row['job']}, {row['kind']}", at, (5, 4), textcoords="offset points", fontsize=7)
    axes.set_title("every job: to the right it costs more, upwards it is late more often", loc="left", fontsize=9)
    axes.legend(frameon=False, fontsize=9, ncols=len(colours), loc="upper center", bbox_to_anchor=(0.5, -0.12))


def _span(ratios: Sequence[float]) -> tuple[float, float]:
    if not ratios:
        return 0.5, 2.0
    return min(0.6, 0.9 * min(ratios)), max(1.5, 1.15 * max(ratios))

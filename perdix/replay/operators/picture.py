"""Operator-level policies on one dataflow: achieved and target rate, and the parallelism of each operator over time.

As figures 1, 6 and 7 of the DS2 paper: a column per policy, one row for rates and one for instances.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from perdix.replay.canvas import CYCLE, GREY, canvas, draw_columns, hours_of, legend_below, rate_axis, share_axes
from perdix.replay.document import slug
from perdix.replay.labels import short_names
from perdix.replay.operators.campaign import DataflowCampaign
from perdix.replay.operators.outcome import DataflowPlayed, scalable
from perdix.settings.counting import counted
from perdix.telemetry.window import Values
from perdix.twin.dataflow.parameters import DataflowParameters

COLUMN_IN = 4.3  # inches of a policy
POINTS = 120  # of a rate's line, about: each the mean of the seconds before it


def draw_dataflow_campaign(campaign: DataflowCampaign, folder: Path) -> list[Path]:
    """Draw the first seed of every policy, four policies to a picture, and return the files."""
    setup = campaign.setup
    played = [replay for replay in campaign.played if replay.outcome.seed == setup.seeds[0]]
    return draw_columns(
        played, lambda some: dataflow_picture(some, setup.parameters), folder, slug(setup.parameters.name)
    )


def dataflow_picture(played: Sequence[DataflowPlayed], parameters: DataflowParameters) -> Figure:
    """Draw policies side by side on the same scales. Raises ``ValueError`` when there is no replay to draw."""
    if not played:
        raise ValueError("there is no replay to draw")
    figure, grid = canvas(
        2, len(played), width_in=max(COLUMN_IN * len(played), 6.0), height_in=5.6, height_ratios=(2, 3), same_x=True
    )
    shown, names = _shown(played, parameters), short_names([replay.outcome.policy for replay in played])
    colours = dict(zip(shown, CYCLE, strict=False))
    rates, instances = _tops(played, shown)
    for column, replay in enumerate(played):
        _rates(grid[0, column], replay, rates)
        title = f"{names[replay.outcome.policy]}: {counted(replay.outcome.steps, 'step')}"
        grid[0, column].set_title(title, loc="left", fontsize=10)
        _instances(grid[1, column], replay, colours, instances)
    share_axes(grid, [len(replay.course.stretch) for replay in played])
    handles = [Line2D([], [], color=colours[name], lw=2.0, label=name) for name in shown]
    handles += [
        Line2D([], [], color=GREY, lw=1.2, ls=(0, (1, 1.4)), label="least that sustains the rates"),
        Line2D([], [], color="black", lw=1.2, ls=(0, (4, 2)), label="target rate"),
    ]
    legend_below(figure, handles)
    operators = len(scalable(parameters))
    some = f", {len(shown)} of {operators} operators" if len(shown) < operators else ""
    figure.suptitle(f"{parameters.name}, seed {played[0].outcome.seed}{some}", fontsize=11)
    return figure


def _shown(played: Sequence[DataflowPlayed], parameters: DataflowParameters) -> list[str]:
    """Return as many operators as there are colours, those that had the most instances at any time."""
    names = scalable(parameters)
    kept = sorted(names, key=lambda name: _most(played, name), reverse=True)[: len(CYCLE)]
    return [name for name in names if name in kept]


def _most(played: Sequence[DataflowPlayed], name: str) -> float:
    """Return the most instances that an operator ever had."""
    return max(float(replay.course.stretch.instances[:, replay.course.of(name)].max()) for replay in played)


def _rates(axes: Axes, replay: DataflowPlayed, top: float) -> None:
    course, hours = replay.course, hours_of(len(replay.course.stretch))
    target, emitted = course.total(course.stretch.target), course.total(course.stretch.processed)
    axes.plot(hours, _smooth(emitted), color=CYCLE[0], lw=1.2)
    axes.plot(hours, _smooth(target), color="black", lw=1.2, ls=(0, (4, 2)))
    rate_axis(axes, "source rate")
    axes.set_ylim(0.0, top)


def _instances(axes: Axes, replay: DataflowPlayed, colours: dict[str, str], top: float) -> None:
    hours = hours_of(len(replay.course.stretch))
    for name, colour in colours.items():
        column = replay.course.of(name)
        axes.step(hours, replay.course.stretch.instances[:, column], where="post", color=colour, lw=1.6)
        for phase in replay.outcome.phases:
            best = phase.optimum or phase.balanced_optimum
            if best is not None:
                axes.hlines(
                    best[name], phase.from_s / 3600.0, phase.until_s / 3600.0, color=colour, lw=1.0, ls=(0, (1, 1.4))
                )
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylabel("instances")
    axes.set_ylim(0.0, top)


def _tops(played: Sequence[DataflowPlayed], shown: Sequence[str]) -> tuple[float, float]:
    """Return the tops of both axes, the same for all: rates up to half above the target, since catching up is fast."""
    target = max(float(replay.course.total(replay.course.stretch.target).max()) for replay in played)
    emitted = max(float(_smooth(replay.course.total(replay.course.stretch.processed)).max()) for replay in played)
    most = max(_most(played, name) for name in shown)
    return min(1.1 * max(target, emitted), 1.6 * target) or 1.0, 1.1 * most


def _smooth(values: Values) -> Values:
    """Return the mean of the last seconds at each second, of as many as there are."""
    rows = pd.Series(values).rolling(max(len(values) // POINTS, 10), min_periods=1)
    return np.asarray(rows.mean())

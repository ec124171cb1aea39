"""Policies on leased hosts: instances, hosts and the volume of data over time.

As figures 8 to 11 of Hochreiner et al. (PeerJ CS 2018): a column per policy.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from perdix.replay.canvas import BLUE, GREY, ORANGE, canvas, draw_columns, hours_of, legend_below, share_axes
from perdix.replay.document import slug
from perdix.replay.hosts.outcome import HostsPlayed
from perdix.replay.hosts.run import HostsCampaign
from perdix.replay.labels import short_names

COLUMN_IN = 4.0  # inches of a policy


def draw_hosts_campaign(campaign: HostsCampaign, folder: Path) -> list[Path]:
    """Draw the first seed of every policy, a picture per pattern with four policies each, and return the files."""
    setup = campaign.setup
    paths: list[Path] = []
    for pattern in setup.patterns:
        mine = [
            replay
            for replay in campaign.played
            if (replay.outcome.pattern, replay.outcome.seed) == (pattern, setup.seeds[0])
        ]
        paths += draw_columns(mine, hosts_picture, folder, f"{slug(setup.topology.name)}-{slug(pattern)}")
    return paths


def hosts_picture(played: Sequence[HostsPlayed]) -> Figure:
    """Draw policies side by side on the same scales. Raises ``ValueError`` when there is no replay to draw."""
    if not played:
        raise ValueError("there is no replay to draw")
    figure, grid = canvas(
        2, len(played), width_in=max(COLUMN_IN * len(played), 6.0), height_in=5.2, height_ratios=(3, 2), same_x=True
    )
    most = max(float(_instances(replay).max()) for replay in played)
    volume = max(float(replay.course.machines.max()) for replay in played) or 1.0
    hosts = max(float(replay.course.hosts.max()) for replay in played)
    names = short_names([replay.outcome.policy for replay in played])
    for column, replay in enumerate(played):
        _draw_instances(grid[0, column], replay, 1.12 * most, volume)
        title = f"{names[replay.outcome.policy]}: {replay.outcome.instances_mean:.0f} instances"
        grid[0, column].set_title(title, loc="left", fontsize=10)
        _draw_hosts(grid[1, column], replay, hosts + 1.0)
    share_axes(grid, [len(replay.course) for replay in played])
    handles = [
        Line2D([], [], color=BLUE, lw=1.6, label="instances"),
        Line2D([], [], color=ORANGE, lw=1.6, label="hosts"),
        Patch(color=GREY, alpha=0.25, label=f"data volume (top: {volume:g} machines)"),
    ]
    legend_below(figure, handles)
    first = played[0].outcome
    figure.suptitle(f"{first.topology}, {first.pattern}, seed {first.seed}", fontsize=11)
    return figure


def _draw_instances(axes: Axes, replay: HostsPlayed, top: float, volume: float) -> None:
    hours = hours_of(len(replay.course))
    axes.fill_between(hours, top * replay.course.machines / volume / 1.12, color=GREY, alpha=0.25, lw=0, step="post")
    axes.step(hours, _instances(replay), where="post", color=BLUE, lw=1.4)
    axes.set_ylim(0.0, top)
    axes.set_ylabel("instances")


def _draw_hosts(axes: Axes, replay: HostsPlayed, top: float) -> None:
    axes.step(hours_of(len(replay.course)), replay.course.hosts, where="post", color=ORANGE, lw=1.6)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylim(0.0, top)
    axes.set_ylabel("hosts")
    text = f"{replay.outcome.hosts_mean:.2f} hosts, {replay.outcome.hosts_leased} leases"
    axes.set_title(text, loc="left", fontsize=9)


def _instances(replay: HostsPlayed) -> np.ndarray:
    return np.asarray(replay.course.instances.sum(axis=1))

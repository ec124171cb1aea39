"""Policies side by side on one trace: the four panels of figures 7 to 11 of the Daedalus paper."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedLocator, MaxNLocator, NullFormatter, NullLocator, PercentFormatter

from perdix.replay.canvas import BLUE, CYCLE, RED, canvas, hours_axis, legend_below, rate_axis, with_wide_row
from perdix.replay.case import BEST_STATIC
from perdix.replay.curves import band, elapsed_h, extremes, latency_cdf, over_seeds, row_s
from perdix.replay.labels import short_names
from perdix.replay.outcome import Course, Played
from perdix.settings.counting import in_few_digits
from perdix.settings.stream_job import PolicySettings
from perdix.telemetry.window import Values

FIXED = "#3D3D3D"
STATIC = ("#999999", "#C4C4C4", "#666666")
FORECAST = RED
OURS = (PolicySettings().name, "daedalus")
LATE_TICKS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
DASHES, DOTS = (0, (4, 2)), (0, (1, 1.4))

TITLES = ("a  workload", "b  workers", "c  latency", "d  resource use", "e  workers against lateness")

Group = Mapping[str, Sequence[Played]]  # policy -> its seeds
Courses = Mapping[str, Sequence[Course]]
Colours = Mapping[str, str]


def comparison(
    group: Group,
    *,
    objective_ms: float | None = None,
    plan: Values | None = None,
    frontier: tuple[Values, Values] | None = None,
    note: str = "",
) -> Figure:
    """Draw one trace under several policies: workload, workers, latency, resource use, and how late that is.

    Over several seeds, lines are means (a band reaches from the least to the greatest), the distribution of latency is
    that of all records, and bars are means with a dot per seed. Raises ``ValueError`` when there is no replay to draw.

    ``objective_ms``: the p95 latency that was to be held, in ms.
    ``plan``: workers of the clairvoyant plan, one value per second.
    ``frontier``: shares of late seconds, ascending, and the fewest workers on average of any plan that is late so
    often; without it there are four panels.
    ``note``: what else the title says, for example how high the peak is.
    """
    if not group:
        raise ValueError("there is no replay to draw")
    figure, grid = canvas(2, 2, height_in=6.2) if frontier is None else with_wide_row(height_in=8.6)
    colours = colours_of(list(group))
    courses = {policy: [replay.course for replay in mine] for policy, mine in group.items()}
    clairvoyant = _clairvoyant_workers(group)
    _workload(grid[0, 0], courses)
    _workers(grid[0, 1], courses, colours, plan)
    _latency(grid[1, 0], courses, colours, objective_ms)
    _resources(grid[1, 1], group, colours, clairvoyant)
    if frontier is not None:
        _lateness(figure.axes[-1], group, colours, frontier)
    for axes, title in zip(figure.axes, TITLES, strict=False):
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    names = short_names(list(group))
    handles = [Line2D([], [], color=colours[policy], lw=3.0, label=names[policy]) for policy in group]
    if plan is not None or clairvoyant is not None:
        handles.append(Line2D([], [], color="black", lw=1.2, ls=DASHES, label="clairvoyant"))
    if frontier is not None:
        handles.append(Line2D([], [], color="black", lw=1.4, label="frontier"))
    if objective_ms is not None:
        handles.append(Line2D([], [], color="black", lw=1.2, ls=DOTS, label=f"objective {objective_ms:,.0f} ms"))
    legend_below(figure, handles)
    figure.suptitle(_title(group, note), fontsize=11)
    return figure


def colours_of(policies: Sequence[str]) -> dict[str, str]:
    """Return a colour per policy: blue for the default one, greys for what never moves, the others' in their order."""
    ours = [policy for name in OURS for policy in policies if policy.startswith(name)][:1]
    static = [policy for policy in policies if policy.startswith("static")]
    others = [policy for policy in policies if policy not in (*ours, *static, BEST_STATIC)]
    free = [colour for colour in CYCLE if colour != BLUE]
    return {
        **dict.fromkeys(ours, BLUE),
        **{policy: free[index % len(free)] for index, policy in enumerate(others)},
        **{policy: STATIC[index % len(STATIC)] for index, policy in enumerate(static)},
        **{policy: FIXED for policy in policies if policy == BEST_STATIC},
    }


def _title(group: Group, note: str) -> str:
    first = next(iter(group.values()))
    outcome, seeds = first[0].outcome, max(len(mine) for mine in group.values())
    runs = f"{seeds} seeds" if seeds > 1 else f"seed {outcome.seed}"
    return ", ".join(part for part in (f"{outcome.trace}: {_length(outcome.hours)}", runs, note) if part)


def _length(hours: float) -> str:
    return f"{hours:g} h" if hours >= 1.0 else f"{60.0 * hours:.0f} min"


def _clairvoyant_workers(group: Group) -> float | None:
    """Return the average workers of the clairvoyant plans; one per seed, so any policy that has them will do."""
    for mine in group.values():
        known = [
            replay.outcome.clairvoyant_worker_s / (3600.0 * replay.outcome.hours)
            for replay in mine
            if replay.outcome.clairvoyant_worker_s
        ]
        if known:
            return float(np.mean(known))
    return None


def _workload(axes: Axes, courses: Courses) -> None:
    mine = next(iter(courses.values()))
    mean, _, _ = over_seeds(mine, "workload_per_s")
    hours = elapsed_h(mine[0])[: len(mean)]
    axes.plot(*extremes(hours, mean), color="black", lw=1.0, label="arrived")
    believed = [over_seeds(others, "forecast_per_s")[0] for others in courses.values()]
    forecast = next((found for found in believed if np.isfinite(found).any()), None)
    if forecast is not None:
        until = min(len(hours), len(forecast))
        at, values = extremes(hours[:until], forecast[:until])
        axes.plot(at, values, color=FORECAST, lw=0.8, label="forecast")
    rate_axis(axes, "workload")
    # A forecast that runs away must not flatten what arrived; above is room for the legend.
    axes.set_ylim(0.0, 1.25 * float(mean.max()) or 1.0)
    axes.legend(loc="upper right", frameon=False, fontsize=8, ncols=2, borderaxespad=0.1)
    hours_axis(axes, len(mean) * row_s(mine[0]) / 3600.0)


def _workers(axes: Axes, courses: Courses, colours: Colours, plan: Values | None) -> None:
    until_h = 0.0
    for policy, mine in courses.items():
        mean, low, high = over_seeds(mine, "workers")
        hours = elapsed_h(mine[0])[: len(mean)]
        axes.plot(*extremes(hours, mean), color=colours[policy], lw=1.4, drawstyle="steps-post")
        if len(mine) > 1:
            axes.fill_between(*band(hours, low, high), color=colours[policy], alpha=0.15, lw=0, step="post")
        until_h = max(until_h, len(mean) * row_s(mine[0]) / 3600.0)
    if plan is not None:
        at, values = extremes(np.arange(len(plan)) / 3600.0, plan)
        axes.plot(at, values, color="black", lw=1.1, ls=DASHES, drawstyle="steps-post")
    axes.set_ylim(0.0, 1.06 * axes.dataLim.y1)
    axes.yaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.set_ylabel("workers")
    hours_axis(axes, until_h)


def _latency(axes: Axes, courses: Courses, colours: Colours, objective_ms: float | None) -> None:
    axes.set_xscale("log")
    for policy, mine in courses.items():
        latency_ms, share = latency_cdf(mine)
        axes.plot(latency_ms, share, color=colours[policy], lw=1.4, drawstyle="steps-post")
    if objective_ms is not None:
        axes.axvline(objective_ms, color="black", lw=1.2, ls=DOTS)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0))
    axes.set_ylim(0.0, 1.03)
    axes.set_xlabel("p95 end-to-end latency (ms)")
    axes.set_ylabel("share of records")


def _resources(axes: Axes, group: Group, colours: Colours, clairvoyant: float | None) -> None:
    """Draw average workers as a share of the baseline's: the largest static deployment, else whoever used most."""
    used = {policy: np.array([replay.outcome.average_workers for replay in mine]) for policy, mine in group.items()}
    means = {policy: float(values.mean()) for policy, values in used.items()}
    baseline = max(
        [policy for policy in means if policy.startswith("static")] or means, key=lambda policy: means[policy]
    )
    for row, (policy, workers) in enumerate(used.items()):
        shares = workers / means[baseline]
        axes.barh(row, shares.mean(), color=colours[policy], height=0.62)
        if len(shares) > 1:
            axes.scatter(shares, np.full(len(shares), row), s=9, color="black", lw=0, alpha=0.6, zorder=3)
        note = f"{workers.mean():.1f} ({shares.mean():.0%}){_cost(group[policy])}"
        said = axes.annotate(note, (shares.max(), row), (6, 0), textcoords="offset points", va="center", fontsize=8)
        said.set(zorder=4, bbox={"color": "white", "pad": 1.0})
    if clairvoyant is not None:
        axes.axvline(clairvoyant / means[baseline], color="black", lw=1.2, ls=DASHES)
    highest = max(float(workers.max()) for workers in used.values()) / means[baseline]
    priced = any(_cost(mine) for mine in group.values())
    axes.set_xlim(0.0, (1.75 if priced else 1.4) * highest)
    axes.set_xticks(np.arange(0.0, highest + 1e-9, 0.25))
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    names = short_names(list(used))
    axes.set_yticks(range(len(used)), list(names.values()), fontsize=9)
    axes.set_ylim(len(used) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"average workers (share of {names[baseline]})")


def _lateness(axes: Axes, group: Group, colours: Colours, frontier: tuple[Values, Values]) -> None:
    """Draw what each policy needs over how often it is late, a dot per seed, beside the least that any plan needs."""
    axes.plot(*frontier, color="black", lw=1.4)
    most_late, most = 0.1, 0.0
    for policy, mine in group.items():
        late = np.array([replay.outcome.share_above_objective for replay in mine])
        workers = np.array([replay.outcome.average_workers for replay in mine])
        axes.plot(late.mean(), workers.mean(), "o", ms=8.0, color=colours[policy], mec="white", zorder=3, clip_on=False)
        if len(mine) > 1:
            axes.scatter(late, workers, s=9, color=colours[policy], lw=0, alpha=0.6, zorder=2, clip_on=False)
        most_late, most = max(most_late, float(late.max())), max(most, float(workers.max()))
    axes.set_xscale("function", functions=(lambda late: np.sqrt(np.maximum(late, 0.0)), np.square))
    axes.set_xlim(0.0, min(1.1 * most_late, 1.0))
    axes.set_ylim(0.0, 1.1 * most)
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in LATE_TICKS if tick <= 1.1 * most_late]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    marks = MaxNLocator(6, integer=True).tick_values(0.0, 1.1 * most)
    axes.set_yticks([mark for mark in marks if mark <= 1.1 * most])
    axes.set_xlabel("seconds above the objective")
    axes.set_ylabel("average workers")


def _cost(mine: Sequence[Played]) -> str:
    """Return what a policy's hosts cost on average over its seeds, to be put behind its workers; nothing unpriced."""
    bills = [replay.outcome.bill for replay in mine if replay.outcome.bill is not None]
    if not bills:
        return ""
    return f", {in_few_digits(float(np.mean([bill.cost for bill in bills])))} {bills[0].currency}"

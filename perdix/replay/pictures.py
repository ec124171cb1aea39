"""Pictures of replays as PNG files: policies side by side, recoveries predicted and true, one course on its own.

Belongs here: which pictures there are and what they are called. What they show is in
:mod:`perdix.replay.comparison_picture` and :mod:`perdix.replay.course_picture`.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from perdix.replay.campaign import Campaign
from perdix.replay.canvas import to_png
from perdix.replay.comparison_picture import comparison
from perdix.replay.course_picture import course_picture, recovery_picture
from perdix.replay.document import slug
from perdix.replay.outcome import Played
from perdix.telemetry.window import Values

_DPI = 160
POINTS = 400  # of a curve


def draw_campaign(campaign: Campaign, folder: Path) -> list[Path]:
    """Draw a campaign with its objective, its peak and the clairvoyant plan (mean over seeds, as all lines are).

    As :func:`draw`, whose paths are returned.
    """
    setup = campaign.setup
    plans = [least.scale_outs for least in campaign.clairvoyants.values()]
    return draw(
        campaign.played,
        folder,
        objective_ms=setup.objectives.latency_p95_ms,
        plan=np.asarray(np.mean(plans, axis=0)) if plans else None,
        frontier=_curve(campaign) if campaign.frontiers else None,
        note=f"peak at {setup.peak_utilisation:.0%} of {setup.bounds.maximum} workers",
    )


def _curve(campaign: Campaign) -> tuple[Values, Values]:
    """Return the frontier's mean over seeds, from where every seed has a plan that is late so rarely."""
    curves = campaign.frontiers.values()
    least = max(curve.least_late for curve in curves)
    late = np.linspace(np.sqrt(least), 1.0, POINTS) ** 2
    workers = [[curve.worker_s_at(float(share)) / curve.seconds for share in late] for curve in curves]
    return late, np.asarray(np.mean(workers, axis=0))


def draw(
    played: Sequence[Played],
    folder: Path,
    *,
    objective_ms: float | None = None,
    plan: Values | None = None,
    frontier: tuple[Values, Values] | None = None,
    note: str = "",
    courses: bool = False,
) -> list[Path]:
    """Draw what a campaign came to.

    Returns ``<trace>.png`` with four or five panels for each trace first, then ``<trace>-<policy>-recoveries.png`` of
    each policy that predicts recoveries, then ``<trace>-<policy>-seed-<seed>.png``.

    ``played``: replays of any traces, policies and seeds.
    ``folder``: where the PNGs go; made when it is absent. Pictures of the same name are replaced.
    ``objective_ms``, ``plan``, ``frontier``, ``note``: as of :func:`perdix.replay.comparison_picture.comparison`.
    ``courses``: also a picture of each single replay: why was latency high, and when?.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, bytes] = {}
    traces: dict[str, dict[str, list[Played]]] = {}
    for replay in played:
        traces.setdefault(replay.outcome.trace, {}).setdefault(replay.outcome.policy, []).append(replay)
    for trace, group in traces.items():
        figure = comparison(group, objective_ms=objective_ms, plan=plan, frontier=frontier, note=note)
        pictures[_file_name(trace)] = to_png(figure, _DPI)
    for trace, group in traces.items():
        for policy, mine in group.items():
            recoveries = recovery_picture(mine)
            if recoveries is not None:
                pictures[_file_name(trace, policy, "recoveries")] = to_png(recoveries, _DPI)
    for replay in played if courses else ():
        name = _file_name(replay.outcome.trace, replay.outcome.policy, "seed", str(replay.outcome.seed))
        pictures[name] = to_png(course_picture(replay, objective_ms=objective_ms), _DPI)
    paths = [folder / name for name in pictures]
    for path, png in zip(paths, pictures.values(), strict=True):
        path.write_bytes(png)
    return paths


def _file_name(*parts: str) -> str:
    """Return a file name for what ``parts`` name, whatever letters they have."""
    return "-".join(map(slug, parts)) + ".png"

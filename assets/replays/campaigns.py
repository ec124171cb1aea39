"""A campaign of replays carried out for an asset, whatever kind it is: played, written, drawn, recorded in MLflow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg

from perdix.assets.metadata import picture
from perdix.control.clock import WallClock
from perdix.settings.yaml_files import SettingsError

if TYPE_CHECKING:
    from perdix.assets.resources import Workspace
    from perdix.models.registry import Comparison, Recorded
    from perdix.replay.kinds import Kind, Simulated

Setup = TypeVar("Setup", bound="Simulated")
Campaign = TypeVar("Campaign")


@dataclass(frozen=True)
class Carried:
    """What came of a campaign: its document, the folder of its results, its pictures and the MLflow run."""

    found: Mapping[str, Any]
    folder: Path
    drawn: Sequence[Path]
    recorded: Recorded | None

    def metadata(self, caption: str) -> dict[str, Any]:
        """Return what every kind of replay shows."""
        one = self.recorded
        links = {} if one is None else {"mlflow_run": one.run_url, "mlflow_compare": one.compare_url}
        first, *others = self.drawn
        return {
            **{name: dg.MetadataValue.url(url) for name, url in links.items()},
            "comparison": picture(first.read_bytes(), caption),
            **{path.stem: picture(path.read_bytes(), f"{caption} ({path.stem})") for path in others},
            "replays": len(self.found["results"]),
            "replays_failed": len(self.found["failed"]),
            "wall_s": self.found["wall_s"],
            "folder": dg.MetadataValue.path(str(self.folder)),
        }


def carry_out(
    context: dg.AssetExecutionContext,
    workspace: Workspace,
    kind: Kind[Setup, Campaign],
    asked: Callable[[], Setup],
    *,
    processes: int,
) -> Carried:
    """Carry out a campaign.

    Raises ``Failure``, in words, when what was asked for cannot be, or no replay came to its end.

    ``asked``: makes the setup; raises ``SettingsError`` where that cannot be.
    ``processes``: replays at a time; 0: as many as there are cores.
    """
    began_s = WallClock().now_s()
    try:
        setup = asked()
        progress = _progress(context, setup.simulated_s)
        campaign = kind.run(setup, processes=processes or None, on_progress=progress)
    except SettingsError as error:
        raise dg.Failure(str(error)) from error
    found = kind.document(campaign)
    for row in found["failed"]:
        context.log.warning(f"{row['policy']}, seed {row['seed']}: {row['reason']}")
    if not found["results"]:
        first = found["failed"][0]
        raise dg.Failure(f"no replay came to its end; {first['policy']}, seed {first['seed']}: {first['reason']}")
    folder = workspace.paths().reports / kind.folder_name(setup)
    drawn = kind.draw(campaign, folder)
    series = kind.series(campaign, folder / "series")
    written = folder / "replay.json"
    written.write_text(json.dumps(found, indent=2), encoding="utf-8")
    tags = {"dagster.run_id": context.run.run_id, "perdix.reason": context.run.tags.get("perdix/reason", "manual")}
    compared = kind.comparison(campaign, began_s, [*drawn, *series, written], tags)
    return Carried(found, folder, drawn, _recorded(context, workspace, compared))


def _progress(context: dg.AssetExecutionContext, total_s: float) -> Callable[[float, int], None]:
    """Return what logs a line whenever another tenth of all simulated time has passed."""
    said = 0

    def tell(simulated_s: float, _ended: int) -> None:
        nonlocal said
        tenths = int(10 * simulated_s / total_s)
        if tenths > said:
            said = tenths
            context.log.info(f"{10 * tenths} % replayed")

    return tell


def _recorded(context: dg.AssetExecutionContext, workspace: Workspace, compared: Comparison) -> Recorded | None:
    """Record in MLflow; hours of replays are not lost because it cannot be reached."""
    from perdix.models.registry import RegistryError

    try:
        return workspace.registry().record(compared)
    except RegistryError as error:
        context.log.warning(f"not recorded in MLflow: {error}")
        return None

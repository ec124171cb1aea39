"""What can be replayed: jobs, the operators of a dataflow, containers on leased hosts. One way for all of them.

A campaign plays a setup's cases side by side; its document, series, pictures and MLflow runs come of it. Whoever
carries one out (the command line, Dagster) knows a kind, and not which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from perdix.replay import campaign, document, pictures, tracking
from perdix.replay.hosts import document as hosts_document
from perdix.replay.hosts import picture as hosts_picture
from perdix.replay.hosts import run as hosts_run
from perdix.replay.operators import campaign as operators_campaign
from perdix.replay.operators import document as operators_document
from perdix.replay.operators import picture as operators_picture

if TYPE_CHECKING:
    from perdix.models.registry import Comparison

Setup = TypeVar("Setup", bound="Simulated")
Campaign = TypeVar("Campaign")


class Simulated(Protocol):
    """What is to be replayed."""

    @property
    def simulated_s(self) -> float:
        """Sum of all seconds that are replayed."""


@dataclass(frozen=True)
class Kind(Generic[Setup, Campaign]):
    """One kind of replays."""

    run: Callable[..., Campaign]  # plays a setup, ``processes`` replays at a time, and reports to ``on_progress``
    document: Callable[[Campaign], dict[str, Any]]  # everything of a campaign but the seconds, JSON-serialisable
    folder_name: Callable[[Setup], str]  # of a setup's results: the same setup has the same
    series: Callable[[Campaign, Path], list[Path]]  # writes what was played second by second into a folder
    draw: Callable[[Campaign, Path], list[Path]]  # draws a campaign into a folder
    # What MLflow is to show of a campaign: ``(campaign, started_at_s, files, tags)``; raises ``ValueError`` where no
    # replay came to its end
    comparison: Callable[..., Comparison]


JOB: Kind[campaign.Setup, campaign.Campaign] = Kind(
    campaign.run_campaign,
    document.document,
    document.folder_name,
    lambda done, folder: document.write_series(done.played, folder),
    pictures.draw_campaign,
    tracking.comparison_of,
)
OPERATORS: Kind[operators_campaign.DataflowSetup, operators_campaign.DataflowCampaign] = Kind(
    operators_campaign.run_dataflow_campaign,
    operators_document.dataflow_document,
    operators_document.dataflow_folder_name,
    lambda done, folder: operators_document.write_dataflow_series(done.played, folder),
    operators_picture.draw_dataflow_campaign,
    operators_document.dataflow_comparison,
)
HOSTS: Kind[hosts_run.HostsSetup, hosts_run.HostsCampaign] = Kind(
    hosts_run.run_hosts_campaign,
    hosts_document.hosts_document,
    hosts_document.hosts_folder_name,
    lambda done, folder: hosts_document.write_hosts_series(done.played, folder),
    hosts_picture.draw_hosts_campaign,
    hosts_document.hosts_comparison,
)

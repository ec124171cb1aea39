"""The document of a campaign: everything that is printed, drawn and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.zoo.campaign import Campaign
from benchmarks.zoo.contenders import usual_policies
from benchmarks.zoo.picture import picture
from benchmarks.zoo.results import Row, code_version
from benchmarks.zoo.summary import against_frontier, summary
from perdix.replay.canvas import to_png


def document(campaign: Campaign, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the document, and draw its picture into the campaign's folder."""
    against = against_frontier(rows)
    found = {
        "seed": campaign.seed,
        "jobs": len(campaign.jobs),
        "jobs_played": sorted({row["job"] for row in rows}),
        "skipped": list(campaign.skipped),
        "hours": campaign.hours,
        "regime": campaign.regime,
        "version": code_version(),
        "folder": str(campaign.folder),
        "notes": _notes(campaign),
        **summary(against, campaign.policies),
        "rows": [dict(row) for row in against],
    }
    path = campaign.folder / f"{campaign.name}.png"
    campaign.folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_png(picture(found)))
    found["picture"] = str(path)
    return found


def _notes(campaign: Campaign) -> list[str]:
    notes = []
    if campaign.regime:
        notes.append(f"rescales cost what they do in the regime '{campaign.regime}', on every job")
    if campaign.skipped:
        which = ", ".join(map(str, campaign.skipped))
        notes.append(f"no real traces in {campaign.data}: jobs {which} are left out, all others are the same")
    if campaign.policies[0] != usual_policies()[0]:
        notes.append(f"judged is {campaign.policies[0]}; by default it is {usual_policies()[0]}")
    return notes

"""Where the results of ``perdix replay`` go: Parquet, pictures, MLflow, one JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.output import UserError, complaints, plain
from cli.stores import home

if TYPE_CHECKING:
    from replay.campaign import Campaign


def write_results(
    campaign: Campaign, started_at_s: float, out: Path | None, *, pictures: bool, mlflow: bool
) -> dict[str, Any]:
    """Write series, pictures and the document into a folder, record MLflow runs, and return the document.

    What has been computed is not lost because MLflow cannot be reached: that is said on standard error.
    """
    from replay.document import document, folder_name, write_series

    folder = (out or home().reports / folder_name(campaign.setup)).resolve()
    made: dict[str, Any] = {**document(campaign), "folder": folder, "pictures": [], "mlflow": None}
    try:
        made["series"] = write_series(campaign.played, folder / "series")
        if pictures and campaign.played:
            from replay.pictures import draw_campaign

            made["pictures"] = draw_campaign(campaign, folder)
        (folder / "replay.json").write_text(as_text(made), encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written ({error.strerror}); name another folder") from None
    if mlflow and campaign.played:
        made["mlflow"] = _record(campaign, started_at_s, [*made["pictures"], folder / "replay.json"])
    return made


def as_text(document: Mapping[str, Any]) -> str:
    """Return the document as JSON."""
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def _record(campaign: Campaign, started_at_s: float, files: list[Path]) -> dict[str, Any] | None:
    from models.registry import RegistryError, prepare
    from replay.tracking import record

    try:
        recorded = record(campaign, prepare(home()), started_at_s=started_at_s, files=files)
    except RegistryError as error:
        complaints.print(f"not recorded in MLflow: {error}", highlight=False, markup=False)
        return None
    return {"run_id": recorded.run_id, "run_url": recorded.run_url, "compare_url": recorded.compare_url}

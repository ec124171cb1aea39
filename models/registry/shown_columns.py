"""Which columns MLflow's list of runs opens with: the metrics that decide, and why a family could not be judged.

MLflow shows no metric until a reader chooses some. A view that is kept with an experiment, as its *Share* button keeps
one, is opened by its key in the address. MLflow reads it from a tag of the experiment: JSON of the columns by type and
name.
"""

import json
from collections.abc import Mapping, Sequence

from perdix.models.registry.publication import CAPACITY, FORECAST, LATENCY, PERFORMANCE

KEY = "perdix"
NOT_JUDGED = "perdix.not_judged"  # tag of a run: why a family could not be judged on some job
WHOLE = ("chosen_share", "jobs_failed")
DECIDING: Mapping[str, Sequence[str]] = {  # few, for the list has room for some five, which it orders by name
    FORECAST: ("score_median", "wape_median", *WHOLE),
    CAPACITY: ("score_median", "capacity_mape_median", *WHOLE),
    LATENCY: ("balanced_error_median", *WHOLE),
    PERFORMANCE: ("relative_rmse_median", *WHOLE),
}


def view_tag(metrics: Sequence[str]) -> dict[str, str]:
    """Return the tag that keeps an experiment's view; empty where nobody said what decides."""
    if not metrics:
        return {}
    columns = [*(f"metrics.`{name}`" for name in metrics), f"tags.`{NOT_JUDGED}`"]
    return {f"mlflow.sharedViewState.{KEY}": json.dumps({"selectedColumns": columns})}


def page_of(ui_url: str, experiment_id: str) -> str:
    """Return the address of an experiment's list of runs, opened with its view."""
    return f"{ui_url}/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={KEY}"

"""Code location ``training``: ingest, validation, features, training, replays, and the sensor that retrains."""

import dagster as dg

from perdix.assets.profile import profiles
from perdix.assets.recent_range import recent_range
from perdix.assets.replays.hosts import hosts_comparison
from perdix.assets.replays.jobs import policy_comparison
from perdix.assets.replays.operators import operators_comparison
from perdix.assets.resources import Spark, Workspace
from perdix.assets.sample import operator_samples
from perdix.assets.training.factory import build_training
from perdix.assets.training.from_features import CAPACITY, FORECAST
from perdix.assets.training.from_measurements import LATENCY, PERFORMANCE
from perdix.assets.validation import build_checks
from perdix.pipelines.ingesting import INGESTING
from perdix.pipelines.jobs import REPLAYS, ingest_day, observe_day, profile, sample, train, train_performance
from perdix.pipelines.progress import progress_logger
from perdix.pipelines.retrain_sensor import retrain_on_drift
from perdix.pipelines.schedules import daily_ingest, daily_training


def build_training_defs(workspace: Workspace | None = None) -> dg.Definitions:
    """Assemble the location; tests hand in a workspace of their own."""
    workspace = workspace or Workspace()
    return dg.Definitions(
        assets=[
            *INGESTING,
            recent_range,
            *build_training(FORECAST),
            *build_training(CAPACITY),
            profiles,
            *build_training(LATENCY),
            operator_samples,
            *build_training(PERFORMANCE),
            policy_comparison,
            operators_comparison,
            hosts_comparison,
        ],
        asset_checks=build_checks(),
        jobs=[ingest_day, observe_day, train, profile, sample, train_performance, *REPLAYS],
        schedules=[daily_ingest, daily_training],
        sensors=[retrain_on_drift],
        resources={"workspace": workspace, "spark": Spark(workspace=workspace)},
        loggers={"progress": progress_logger, "console": dg.colored_console_logger},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions that Dagster loads."""
    return build_training_defs()

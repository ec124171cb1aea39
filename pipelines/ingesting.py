"""What an ingest needs of the code location ``training``: a third of its imports, for a command that takes seconds."""

import dagster as dg

from perdix.assets import ingest, observe
from perdix.assets.resources import Spark, Workspace
from perdix.assets.validation import build_checks
from perdix.pipelines.jobs import ingest_day, observe_day
from perdix.pipelines.progress import progress_logger
from perdix.pipelines.run_worker import name_main_module

name_main_module()  # before a run in this process validates
INGESTING = (ingest.exports, ingest.samples, observe.observations, observe.features)
JOBS = (ingest_day, observe_day)


def ingesting_defs() -> dg.Definitions:
    """Return the definitions of :data:`JOBS`."""
    workspace = Workspace()
    return dg.Definitions(
        assets=INGESTING,
        asset_checks=build_checks(),
        jobs=JOBS,
        resources={"workspace": workspace, "spark": Spark(workspace=workspace)},
        loggers={"progress": progress_logger, "console": dg.colored_console_logger},
        executor=dg.in_process_executor,
    )

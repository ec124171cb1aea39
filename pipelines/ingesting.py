"""What an ingest needs of the code location ``training``: a third of its imports, for a command that takes seconds."""

import sys
from importlib.util import find_spec

import dagster as dg

from perdix.assets import ingest, observe
from perdix.assets.resources import Spark, Workspace
from perdix.assets.validation import build_checks
from perdix.pipelines.jobs import ingest_day, observe_day
from perdix.pipelines.progress import progress_logger

INGESTING = (ingest.exports, ingest.samples, observe.observations, observe.features)
JOBS = (ingest_day, observe_day)


def _name_main_module() -> None:
    """Let this process look started as ``python -m dagster`` is, where it looks like nothing.

    Dagster spawns the process of a run by multiprocessing, which leaves its main module with neither file nor
    specification. pyspark.sql.connect, which Great Expectations imports, takes it for a doctest and ends it.
    """
    main = sys.modules["__main__"]
    if main.__spec__ is None and not hasattr(main, "__file__"):
        main.__spec__ = find_spec("dagster.__main__")  # multiprocessing runs no module of this name a second time


_name_main_module()  # before a run in this process validates


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

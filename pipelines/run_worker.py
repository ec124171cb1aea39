"""What the processes lack that Dagster starts for the runs of its UI, its schedules and its sensors."""

import sys
from importlib.util import find_spec


def name_main_module() -> None:
    """Let this process look started as ``python -m dagster`` is, where it looks like nothing.

    A run's process is spawned by multiprocessing, which leaves its main module with neither file nor specification.
    pyspark.sql.connect, which Great Expectations imports, takes such a process for a doctest and ends it.
    """
    main = sys.modules["__main__"]
    if main.__spec__ is None and not hasattr(main, "__file__"):
        main.__spec__ = find_spec("dagster.__main__")  # multiprocessing runs no module of this name a second time

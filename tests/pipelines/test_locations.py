"""Both code locations load, and the slim one stays slim."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import dagster as dg
import pytest

PROJECT = Path(__file__).resolve().parents[2]


def imported_by(module: str, then: str = "") -> set[str]:
    """What a process has imported that imported a module; it goes on with ``then``, and must come to its end."""
    code = f"import sys; assert sys.modules['__main__'].__spec__ is None; import {module}; print(*sys.modules); {then}"
    command = [sys.executable, "-W", "ignore", "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)
    assert answer.returncode == 0, answer.stderr
    said = answer.stdout.split()
    assert said[-1] == "alive" or not then, answer.stderr
    names = set(said)
    return names | {name.split(".")[0] for name in names}


# The processes of a controller, of a replay and of Spark loaded scipy.stats and scipy.signal to filter a noise.
STATISTICS = {"scipy.stats", "scipy.signal", "sklearn", "statsmodels", "matplotlib"}
TRAINS = STATISTICS | {"great_expectations", "pmdarima", "xgboost", "mlflow"}


def test_the_control_location_and_the_processes_of_a_controller_import_nothing_that_trains() -> None:
    found = imported_by("perdix.pipelines.control_location")
    # dagster_pyspark itself imports pyspark (half a second); sessions are made by the training location only.
    assert found & TRAINS == set()
    assert {"perdix.control.live", "perdix.control.crew", "perdix.control.serving"} <= found


def test_the_training_location_loads_nothing_heavy_and_lets_great_expectations_be_imported() -> None:
    """A command's main module has neither file nor specification, as that of a process which multiprocessing spawned.

    Runs that the UI, a schedule or a sensor starts live in such processes, and Great Expectations ended them.
    """
    found = imported_by("perdix.pipelines.training_location", "import great_expectations; print('alive')")
    assert found & TRAINS == set()
    assert "perdix.assets.training.tasks" in found


def test_what_an_ingest_needs_brings_no_models_along() -> None:
    """A command of seconds: the models and the libraries that they fit with are two more seconds of imports."""
    assert imported_by("perdix.pipelines.ingesting") & {"scipy", "mlflow", "replay", "policies", "profiling"} == set()


def test_processes_of_a_replay_begin_without_a_second_of_statistics() -> None:
    assert imported_by("perdix.replay.campaign") & STATISTICS == set()


@pytest.mark.parametrize("package", ["assets", "models", "pipelines", "cli", "control", "settings", "telemetry"])
def test_packages_are_those_of_this_checkout(package: str) -> None:
    found = import_module(f"perdix.{package}")
    assert Path(found.__file__ or "").resolve().is_relative_to(PROJECT)


def test_a_profiling_that_takes_hours_holds_up_no_training() -> None:
    """A run waits until no other run has a pool that one of its steps needs (granularity ``run``)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
        definitions = import_module("perdix.pipelines.training_location").build_training_defs()
    pools = {
        job: {node.definition.pool for node in definitions.resolve_job_def(job).nodes} - {None}
        for job in ("train", "train_performance", "profile", "sample")
    }
    assert pools["train"] == pools["train_performance"] == {"spark"}
    assert pools["profile"] == pools["sample"] == {"profiling"}

"""Both code locations load, and the slim one stays slim."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def imported_by(module: str) -> set[str]:
    code = f"import sys, warnings; warnings.simplefilter('ignore'); import {module}; print(' '.join(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    names = set(answer.stdout.split())
    return names | {name.split(".")[0] for name in names}


def test_the_control_location_imports_nothing_that_trains() -> None:
    heavy = {"pyspark", "great_expectations", "pmdarima", "sklearn", "xgboost", "mlflow", "matplotlib", "scipy.stats"}
    # dagster_pyspark itself imports pyspark (half a second); sessions are made by the training location only.
    assert imported_by("perdix.pipelines.control_location") & (heavy - {"pyspark"}) == set()


def test_importing_the_training_location_loads_no_library_that_it_uses_only_when_it_runs() -> None:
    heavy = {"great_expectations", "pmdarima", "sklearn", "xgboost", "mlflow", "matplotlib", "scipy.stats"}
    assert imported_by("perdix.pipelines.training_location") & heavy == set()


def test_what_an_ingest_needs_brings_no_models_along() -> None:
    """A command of seconds: the models and the libraries that they fit with are two more seconds of imports."""
    assert imported_by("perdix.pipelines.ingesting") & {"scipy", "mlflow", "replay", "policies", "profiling"} == set()


@pytest.mark.parametrize("module", ["perdix.control.live", "perdix.replay.campaign", "perdix.assets.training.tasks"])
def test_what_starts_as_a_process_of_its_own_begins_without_a_second_of_statistics(module: str) -> None:
    """Each process of a controller, of a replay and of Spark loaded scipy.stats and scipy.signal to filter a noise."""
    assert imported_by(module) & {"scipy.stats", "scipy.signal", "sklearn", "statsmodels", "matplotlib"} == set()


@pytest.mark.parametrize("package", ["assets", "models", "pipelines", "cli", "control", "settings", "telemetry"])
def test_packages_are_those_of_this_checkout(package: str) -> None:
    found = import_module(f"perdix.{package}")
    assert Path(found.__file__ or "").resolve().is_relative_to(PROJECT)

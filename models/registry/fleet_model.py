"""The fleet as a registered model: a pyfunc kept as source code over one Parquet file. Nothing in it is pickled."""

import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from perdix.models.registry.fleet_table import FLEET_FILE, Fleet, write_fleet
from perdix.models.registry.provenance import pins
from perdix.models.registry.publication import CAPACITY, DIGEST_TAG, FORECAST, LATENCY, PERFORMANCE
from perdix.settings.counting import counted
from perdix.settings.home import PACKAGE

_PYFUNC = PACKAGE / "models" / "fleet_pyfunc.py"
# Copied into each version (some 300 kB), so that it can be served where perdix is not installed.
_CODE = ("models", "telemetry", "settings")
_REQUIREMENTS = ("mlflow", "numpy", "pandas", "pyarrow", "scipy")
_ALSO_REQUIRED = {  # families that grow their trees when they are loaded
    LATENCY: ("scikit-learn",),
    PERFORMANCE: ("scikit-learn", "threadpoolctl", "xgboost"),
}

_RATES = ("mean_per_s", "p50_per_s", "p90_per_s", "p95_per_s")
_COLUMNS = {
    FORECAST: (
        {"job": "string", "horizon_s": "long"},
        {"job": "string", "at_s": "double", **dict.fromkeys(_RATES, "double")},
    ),
    CAPACITY: (
        {"job": "string", "scale_out": "long"},
        {
            "job": "string",
            "scale_out": "long",
            **dict.fromkeys(("per_s", "low_per_s", "high_per_s"), "double"),
            "seen": "boolean",
        },
    ),
    LATENCY: (
        {"job": "string", "scale_out": "long", "rate_per_s": "double"},
        {"job": "string", "scale_out": "long", "rate_per_s": "double", "latency_ms": "double", "normal": "boolean"},
    ),
    PERFORMANCE: (
        {"job": "string", "cpu_cores": "double", "memory_mb": "double"},
        {"job": "string", **dict.fromkeys(("cpu_cores", "memory_mb", "per_s"), "double"), "extrapolated": "boolean"},
    ),
}
_ASKED: Mapping[str, Mapping[str, float]] = {
    FORECAST: {"horizon_s": 900},
    CAPACITY: {"scale_out": 4},
    LATENCY: {"scale_out": 4, "rate_per_s": 10_000.0},
    PERFORMANCE: {"cpu_cores": 1.0, "memory_mb": 1_024.0},
}


def register(client: Any, experiment_id: str, run_id: str, name: str, fleet: Fleet) -> int:
    """Store the fleet as a logged model of the run ``run_id``; return the version of it that is registered."""
    from mlflow.entities import LoggedModelOutput  # noqa: PLC0415

    model = client.create_logged_model(
        experiment_id, name="fleet", source_run_id=run_id, model_type=name.removeprefix("perdix-")
    )
    with tempfile.TemporaryDirectory() as folder:
        digest = _save(Path(folder), name, fleet, model.model_id, run_id)
        client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
    client.finalize_logged_model(model.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(model.model_id, 0)])
    _ensure_registered_model(client, name)
    version = client.create_model_version(
        name,
        source=_source(model),
        run_id=run_id,
        model_id=model.model_id,
        tags={DIGEST_TAG: digest, "perdix.jobs": str(len(fleet)), "perdix.shared_models": str(len(fleet.shared))},
        description=_description(fleet),
    )
    return int(version.version)


def _save(folder: Path, name: str, fleet: Fleet, model_id: str, run_id: str) -> str:
    pyfunc = _pyfunc()
    from mlflow.models import Model  # noqa: PLC0415

    table = folder / FLEET_FILE
    digest = write_fleet(fleet, table)
    pyfunc.save_model(
        path=folder / "model",
        python_model=str(_PYFUNC),
        artifacts={"fleet": str(table)},
        model_config={"name": name},
        code_paths=[str(_code(folder))],
        signature=_signature(name),
        input_example=pd.DataFrame([{"job": str(fleet.jobs["job"].iloc[0]), **_ASKED[name]}]),
        # Inferring them would import everything in a subprocess: 7 to 10 s.
        pip_requirements=pins((*_REQUIREMENTS, *_ALSO_REQUIRED.get(name, ()))),
        mlflow_model=Model(model_id=model_id, run_id=run_id),
    )
    return digest


def _code(folder: Path) -> Path:
    """Write what a version needs of perdix into ``folder``, and return where."""
    code = folder / "perdix"
    for room in _CODE:
        shutil.copytree(PACKAGE / room, code / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "__init__.py", code)
    return code


def _pyfunc() -> Any:
    with warnings.catch_warnings():
        # It warns about type hints in its own modules, once, while it is imported.
        warnings.simplefilter("ignore", UserWarning)
        import mlflow.pyfunc  # noqa: PLC0415

        return mlflow.pyfunc


def _signature(name: str) -> Any:
    """Return what a fleet model is asked and answers; written out, since MLflow infers ``any`` where it is unsure."""
    from mlflow.models import ModelSignature  # noqa: PLC0415
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema  # noqa: PLC0415

    def schema(columns: Mapping[str, str]) -> Any:
        return Schema([ColSpec(kind, column) for column, kind in columns.items()])

    asked, answered = _COLUMNS[name]
    step = ParamSchema([ParamSpec("step_s", "double", 10.0)]) if name == FORECAST else None
    return ModelSignature(schema(asked), schema(answered), step)


def _source(model: Any) -> str:
    # For models:/<id> a database store asks MLflow's global URI, which perdix never sets; the location needs no asking.
    location: str = model.artifact_location
    return location if location.startswith("file:") else f"models:/{model.model_id}"


def _ensure_registered_model(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        client.create_registered_model(name, description="One row per job; see the alias 'champion'.")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _description(fleet: Fleet) -> str:
    families = ", ".join(f"{family} {count}" for family, count in fleet.jobs["family"].value_counts().items())
    shared = f"; {counted(len(fleet.shared), 'model')} shared" if fleet.shared else ""
    return f"{counted(len(fleet), 'job')}: {families}{shared}"

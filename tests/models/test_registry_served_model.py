"""The registered model answers by itself: in another process, with the code and the table of its own version only."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.forecasting.contract import Workload
from perdix.models.forecasting.forecaster import fitted, forecaster_from_state
from perdix.models.latency.state import latency_from_state
from perdix.models.latency.utilisation import UtilisationLatency
from perdix.models.performance.families import FOREST
from perdix.models.performance.fitted import FittedPerformance
from perdix.models.registry import (
    CAPACITY,
    FORECAST,
    LATENCY,
    PERFORMANCE,
    Candidate,
    Fleet,
    Publication,
    TrainingData,
    prepare,
    tracking,
)
from perdix.settings.home import PROJECT, Home
from tests.models.measured_profile import known_job
from tests.models.sampled import sampled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning"),
]

# Without the checkout on the path, so that `perdix` can only come from the version itself. Every version is asked in a
# process of its own, copied from one that has imported MLflow (seconds) and nothing of perdix.
ASK = """
import json, os, sys
sys.path = [entry for entry in sys.path if entry not in ("", sys.argv[1])]
sys.meta_path = [finder for finder in sys.meta_path if "__editable__" not in repr(finder)]
import mlflow, mlflow.pyfunc, pandas as pd, pyarrow.parquet, scipy.optimize

def ask(location, questions):
    assert "perdix" not in sys.modules
    model = mlflow.pyfunc.load_model(location)
    for question, answer in questions:
        try:
            answered = model.predict(pd.read_json(question, orient="split")).to_json(orient="split")
        except Exception as error:
            answered = json.dumps({"error": f"{type(error).__name__}: {error}"})
        with open(answer, "w") as file:
            file.write(answered)
    import perdix.models as ours
    assert ours.__file__.startswith(location), ours.__file__

for location, questions in json.loads(sys.argv[2]):
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{location} has not answered")
    else:
        code = 1
        try:
            ask(location, questions)
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
"""
QUESTIONS = {
    "forecast": (FORECAST, {"job": ["orders"], "horizon_s": [300]}),
    "capacity": (CAPACITY, {"job": ["orders", "orders"], "scale_out": [2, 5]}),
    "latency": (
        LATENCY,
        {"job": ["orders"] * 3, "scale_out": [2, 5, 5], "rate_per_s": [9_000.5, 30_000.5, 90_000.5]},
    ),
    "performance": (
        PERFORMANCE,
        {"job": ["orders"] * 3, "cpu_cores": [1.3, 4.0, 0.5], "memory_mb": [1_024.0, 512.5, 200.5]},
    ),
    "unknown": (CAPACITY, {"job": ["payments"], "scale_out": [2]}),
}


def states() -> dict[str, tuple[str, dict]]:
    rng = np.random.default_rng(3)
    workload = Workload(1_700_000_000.0, 10.0, 1000.0 + np.arange(360) + rng.normal(0, 5, 360))
    forecaster = fitted("damped-trend", workload)
    minutes = pd.date_range("2026-01-01", periods=120, freq="60s", tz="UTC").repeat(2)
    cpu = rng.uniform(0.2, 0.7, 240)
    features = pd.DataFrame({"ts": minutes, "worker": ["a", "b"] * 120, "scale_out": 2.0, "cpu_load": cpu})
    features["throughput_per_s"] = 2000.0 * (cpu - 0.08)
    return {
        FORECAST: ("damped-trend", forecaster.to_state()),
        CAPACITY: ("linear", ScaleOuts.from_features(features).to_state()),
        LATENCY: ("utilisation-limit", UtilisationLatency.fit(*known_job()).to_state()),
        PERFORMANCE: ("random-forest", FittedPerformance.fit(FOREST, FOREST.published, sampled(), seed=4).to_state()),
    }


@pytest.fixture(scope="module")
def locations(tmp_path_factory: pytest.TempPathFactory, home_at: Callable[[Path], Home]) -> dict[str, Path]:
    """Each fleet model published, its artifacts moved away from where they were made."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    registry = prepare(home_at(tmp_path_factory.mktemp("home")))
    found = {}
    for name, (family, state) in states().items():
        fleet = pd.DataFrame({"job": ["orders"], "family": [family], "state": [json.dumps(state)]})
        data = TrainingData("features", "lake", "0" * 64, 1)
        published = registry.publish(Publication(name, Fleet(fleet), [Candidate(family, fleet[["job"]])], data, 0.0))
        uri = tracking.client(registry.tracking_uri).get_model_version_download_uri(name, str(published.version))
        found[name] = tmp_path_factory.mktemp("served") / name
        shutil.copytree(uri.removeprefix("file://"), found[name])
    monkeypatch.undo()
    return found


@pytest.fixture(scope="module")
def answers(locations: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The file of the answer to every question."""
    folder = tmp_path_factory.mktemp("answers")
    files: dict[str, list[tuple[str, str]]] = {}
    for name, (model, question) in QUESTIONS.items():
        asked = folder / f"{name}.question.json"
        pd.DataFrame(question).to_json(asked, orient="split")
        files.setdefault(model, []).append((str(asked), str(folder / f"{name}.json")))
    asked_of = json.dumps([(str(locations[model]), asked) for model, asked in files.items()])
    command = [sys.executable, "-W", "ignore", "-c", ASK, str(PROJECT), asked_of]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return {name: folder / f"{name}.json" for name in QUESTIONS}


def answered(answers: dict[str, Path], name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A question and the answer to it."""
    assert "error" not in json.loads(answers[name].read_text()), answers[name].read_text()
    return pd.DataFrame(QUESTIONS[name][1]), pd.read_json(answers[name], orient="split")


def test_the_forecast_model_answers_as_the_forecaster_does(answers: dict[str, Path]) -> None:
    _, answer = answered(answers, "forecast")
    _, state = states()[FORECAST]
    expected = forecaster_from_state(state).forecast(300.0, 10.0)
    assert len(answer) == 30
    np.testing.assert_allclose(answer["mean_per_s"], expected.mean, rtol=1e-6)
    np.testing.assert_allclose(answer["p90_per_s"], expected.quantiles[0.9], rtol=1e-6)
    np.testing.assert_allclose(answer["at_s"].iloc[[0, -1]], [1_700_003_600.0, 1_700_003_890.0])


def test_the_capacity_model_answers_as_the_loop_would(answers: dict[str, Path]) -> None:
    _, answer = answered(answers, "capacity")
    _, state = states()[CAPACITY]
    model = ScaleOuts.from_state(state)
    np.testing.assert_allclose(answer["per_s"], [model.capacity(n).per_s for n in (2, 5)], rtol=1e-6)
    assert list(answer["seen"]) == [True, False]
    assert pd.api.types.is_bool_dtype(answer["seen"])


def test_the_latency_model_answers_as_the_policy_would(answers: dict[str, Path]) -> None:
    question, answer = answered(answers, "latency")
    _, state = states()[LATENCY]
    expected = latency_from_state(state).predict(question["scale_out"], question["rate_per_s"])
    np.testing.assert_allclose(answer["latency_ms"].astype(float), expected.latency_ms, rtol=1e-6)
    assert list(answer["normal"]) == [True, True, False]


def test_the_performance_model_answers_as_the_loop_would_and_says_what_was_not_sampled(
    locations: dict[str, Path], answers: dict[str, Path]
) -> None:
    question, answer = answered(answers, "performance")
    _, state = states()[PERFORMANCE]
    expected = FittedPerformance.from_state(state).predict(question["cpu_cores"], question["memory_mb"])
    np.testing.assert_allclose(answer["per_s"], expected.per_s, rtol=1e-9)
    assert list(answer["extrapolated"]) == [False, False, True]
    pins = (locations[PERFORMANCE] / "requirements.txt").read_text()
    assert all(f"\n{name}==" in f"\n{pins}" for name in ("scikit-learn", "xgboost"))


def test_an_unknown_job_is_named(answers: dict[str, Path]) -> None:
    assert "not in this fleet: payments" in json.loads(answers["unknown"].read_text())["error"]


def test_the_version_says_what_it_needs(locations: dict[str, Path]) -> None:
    pins = (locations[FORECAST] / "requirements.txt").read_text().split()
    assert {pin.split("==")[0] for pin in pins} >= {"mlflow", "numpy", "pandas", "pyarrow", "scipy"}
    assert all("==" in pin for pin in pins)
    assert not list(locations[FORECAST].rglob("*.pkl"))

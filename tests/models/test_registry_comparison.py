"""Things compared on the same data, in a real MLflow; what a replay says there is in ``tests/replay``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdix.models.registry import Compared, Comparison, Registry, RegistryError, TrainingData, prepare, tracking
from perdix.settings.home import Home

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

COMPARISON = Comparison(
    experiment="perdix-example",
    kind="example",
    name="two of them",
    compared=[
        Compared(
            "one", {"error": 0.1, "unknown": float("nan")}, series={"course/error": [(0, 0.3), (5, float("inf"))]}
        ),
        Compared("other", {"error": 0.2}),
    ],
    data=TrainingData("samples", "lake/samples", "ab" * 32, 10),
    started_at_s=1_700_000_000.0,
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory, home_at: Callable[[Path], Home]) -> Iterator[Registry]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield prepare(home_at(tmp_path_factory.mktemp("home")))


@pytest.fixture
def client(registry: Registry) -> Any:
    return tracking.client(registry.tracking_uri)


def test_an_experiment_is_made_once(registry: Registry, client: Any) -> None:
    first, second = registry.record(COMPARISON), registry.record(COMPARISON)
    experiments = {client.get_run(record.run_id).info.experiment_id for record in (first, second)}
    assert experiments == {client.get_experiment_by_name("perdix-example").experiment_id}


def test_what_is_no_number_is_not_recorded(registry: Registry, client: Any) -> None:
    run_id = registry.record(COMPARISON).compared_run_ids["one"]
    assert client.get_run(run_id).data.metrics == {"error": 0.1, "course/error": 0.3}


def test_two_of_one_name_are_refused_before_anything_is_written(registry: Registry, client: Any) -> None:
    twice = replace(COMPARISON, experiment="perdix-twice", compared=[COMPARISON.compared[0]] * 2)
    with pytest.raises(ValueError, match="two of one name are compared: one, one"):
        registry.record(twice)
    experiment = client.get_experiment_by_name("perdix-twice")
    assert experiment is None or not client.search_runs([experiment.experiment_id])


def test_a_file_that_is_gone_marks_the_run_as_failed(registry: Registry, client: Any, tmp_path: Path) -> None:
    lost = replace(COMPARISON, experiment="perdix-lost", files=[tmp_path / "gone.png"])
    with pytest.raises(RegistryError, match=r"recording two of them: .*gone\.png"):
        registry.record(lost)
    (run,) = client.search_runs([client.get_experiment_by_name("perdix-lost").experiment_id])
    assert run.info.status == "FAILED"

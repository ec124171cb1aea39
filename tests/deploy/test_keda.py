"""How KEDA and an HPA follow the metric: the files as their APIs take them, and the HPA controller's arithmetic."""

import math
import re
from typing import Any

import pytest
from kubernetes import client

from perdix.control.publish.names import DESIRED
from tests.deploy.promql import DEPLOY, SCALED_OBJECT, metrics_named, read_yaml

KEDA = DEPLOY / "keda"


def replicas(current: int, metric: float, threshold: float = 1.0, tolerance: float = 0.1) -> int:
    """What an HPA asks for by an external metric with AverageValue: nothing new within the tolerance."""
    ratio = metric / (threshold * current)
    return current if 1.0 - tolerance <= ratio <= 1.0 + tolerance else math.ceil(metric / threshold)


def unknown_keys(document: Any, model: str) -> list[str]:
    """Keys that the official client's model of this type does not know, by path."""
    inside = re.fullmatch(r"list\[(\w+)\]|dict[\[(]str, (\w+)[\])]", model)
    if inside:
        values = document if isinstance(document, list) else document.values()
        return [key for value in values for key in unknown_keys(value, inside[1] or inside[2])]
    if model in {"str", "int", "bool", "object", "float", "datetime"}:
        return []
    types = getattr(client, model).openapi_types
    keys = {name: python for python, name in getattr(client, model).attribute_map.items()}
    return [f"{model}.{key}" for key in document if key not in keys] + [
        found for key, value in document.items() if key in keys for found in unknown_keys(value, types[keys[key]])
    ]


def test_the_hpa_is_one_that_kubernetes_knows() -> None:
    document = read_yaml(KEDA / "hpa.yaml")
    assert (document["apiVersion"], document["kind"]) == ("autoscaling/v2", "HorizontalPodAutoscaler")
    assert unknown_keys(document, "V2HorizontalPodAutoscaler") == []
    assert unknown_keys({"spec": {"minReplica": 1}}, "V2HorizontalPodAutoscaler") == [
        "V2HorizontalPodAutoscalerSpec.minReplica"
    ]


def test_both_ask_for_the_metric_itself_and_never_for_nothing() -> None:
    hpa, scaled = read_yaml(KEDA / "hpa.yaml")["spec"], read_yaml(SCALED_OBJECT)["spec"]
    external = hpa["metrics"][0]["external"]
    assert external["metric"]["name"] == DESIRED.name
    assert list(external["metric"]["selector"]["matchLabels"]) == list(DESIRED.labels)
    assert external["target"] == {"type": "AverageValue", "averageValue": "1"}
    trigger = scaled["triggers"][0]
    assert trigger["metricType"] == "AverageValue"
    assert metrics_named(trigger["metadata"]["query"]) == {DESIRED.name}
    assert trigger["metadata"]["threshold"] == "1"
    assert hpa["minReplicas"] >= 1
    assert scaled["minReplicaCount"] >= 1


def test_a_missing_metric_is_an_error_to_keda_and_keeps_what_runs() -> None:
    spec = read_yaml(SCALED_OBJECT)["spec"]
    assert spec["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
    assert spec["fallback"]["behavior"] == "currentReplicas"
    assert spec["fallback"]["replicas"] == spec["maxReplicaCount"], (
        "the safe side, where an old KEDA ignores the behavior"
    )


def test_the_adapter_takes_the_maximum_over_processes() -> None:
    rule = read_yaml(KEDA / "prometheus-adapter.yaml")["rules"]["external"][0]
    assert rule["seriesQuery"] == DESIRED.name
    assert rule["metricsQuery"].startswith("max(")


@pytest.mark.parametrize("file", ["hpa.yaml", "scaledobject.yaml"])
def test_more_workers_come_at_once_and_fewer_only_when_that_stays_wanted(file: str) -> None:
    spec = read_yaml(KEDA / file)["spec"]
    behavior = spec.get("behavior") or spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 300
    assert [behavior[way]["tolerance"] for way in ("scaleUp", "scaleDown")] == ["0", "0"]


def test_without_tolerance_what_is_wanted_is_what_runs() -> None:
    for current in range(1, 101):
        for desired in range(1, 101):
            assert replicas(current, float(desired), tolerance=0.0) == desired


def test_the_default_tolerance_loses_single_steps_of_larger_jobs() -> None:
    """The figures of docs/metrics.md."""
    lost_out = [n for n in range(1, 50) if replicas(n, n + 1.0) == n]
    lost_in = [n for n in range(2, 50) if replicas(n, n - 1.0) == n]
    assert (lost_out[0], lost_in[0]) == (10, 10)

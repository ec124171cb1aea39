"""The plugin by which Flink's autoscaler asks perdix reads what perdix publishes. What it does is tested in Java."""

import re

import pytest

from perdix.control.publish import names
from perdix.control.publish.metrics import SILENT
from perdix.control.state.journal import Status
from tests.deploy.promql import DEPLOY, read_yaml

PLUGIN = DEPLOY / "flink-autoscaler"
SOURCES = PLUGIN / "src" / "main"
READS = (SOURCES / "java" / "perdix" / "flink" / "Exposition.java").read_text()
INTERFACES = {
    "metrics.custom-evaluator": "org.apache.flink.autoscaler.metrics.ScalingMetricsEvaluatorPlugin",
    "scaling.custom-executor": "org.apache.flink.autoscaler.ScalingExecutorPlugin",
}


def test_it_reads_metrics_that_perdix_publishes_always() -> None:
    read = set(re.findall(r'"(perdix_\w+)"', READS))
    assert read == {metric.name for metric in (names.DESIRED, names.DESIRED_UNTIL, names.STATUS, names.JOB_INFO)}
    assert all(metric.shown is names.ALWAYS for metric in names.METRICS if metric.name in read)
    labels = {label for metric in names.METRICS if metric.name in read for label in metric.labels}
    assert set(re.findall(r'labels\.get(?:OrDefault)?\("(\w+)"', READS)) <= labels


def test_it_knows_every_status() -> None:
    known = set(re.findall(r'case "(\w+)":', READS))
    left_to_scale_out_only = {Status.BLIND, Status.UNREACHABLE, Status.BROKEN, SILENT}
    assert known == set(Status) - left_to_scale_out_only


@pytest.mark.parametrize("prefix", INTERFACES)
def test_the_example_names_the_classes_that_the_jar_announces(prefix: str) -> None:
    configuration = read_yaml(PLUGIN / "flinkdeployment.yaml")["spec"]["flinkConfiguration"]
    name = configuration[f"job.autoscaler.{prefix}s"]
    announced = (SOURCES / "resources" / "META-INF" / "services" / INTERFACES[prefix]).read_text().strip()
    assert configuration[f"job.autoscaler.{prefix}.{name}.class"] == announced
    assert (SOURCES / "java" / f"{announced.replace('.', '/')}.java").is_file()


def test_every_option_of_the_plugin_stands_in_the_example() -> None:
    options = (SOURCES / "java" / "perdix" / "flink" / "Options.java").read_text()
    own = set(re.findall(r'key\("(job\.autoscaler\.perdix\.[\w.-]+)"\)', options))
    configuration = read_yaml(PLUGIN / "flinkdeployment.yaml")["spec"]["flinkConfiguration"]
    assert own
    assert own <= set(configuration)

"""Whatever is answered, a target raises a ``TargetError`` and nothing else, and may be asked again."""

from contextlib import closing, contextmanager

import pytest

from perdix.settings.targets import FlinkSettings, KubernetesSettings
from perdix.targets.contract import TargetError
from perdix.targets.flink.target import FlinkTarget
from perdix.targets.kubernetes.target import KubernetesTarget
from perdix.targets.twin import TwinTarget
from tests.targets.flink_api import FlinkCluster, a_job
from tests.targets.hostile import BODIES, CODINGS, DEEP, STATUSES
from tests.targets.kubernetes_api import kubernetes_target
from tests.telemetry.wire_server import Wire, answer_of

KUBECONFIG = """
{{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}],
 "clusters": [{{"name": "c", "cluster": {{"server": "{url}"}}}}], "users": [{{"name": "u", "user": {{}}}}]}}
"""


@contextmanager
def asking(kind, url, folder):
    if kind == "flink":
        made = FlinkTarget(FlinkSettings(url=url), "orders", 2.0)
    elif kind == "twin":
        made = TwinTarget(url, "orders", 2.0)
    else:
        (folder / "config").write_text(KUBECONFIG.format(url=url))
        settings = KubernetesSettings(
            kubeconfig=folder / "config", namespace="prod", name="orders", ready=kind != "pods"
        )
        made = KubernetesTarget(settings, "orders", 2.0)
    with closing(made):
        yield made


ANSWERS = [(body, status, "") for body in BODIES.values() for status in (STATUSES[0], STATUSES[3], STATUSES[10])]
ANSWERS += [(BODIES["deep"], status, "") for status in STATUSES]
ANSWERS += [(body, status, "gzip") for body in CODINGS.values() for status in (STATUSES[0], STATUSES[10])]


@pytest.mark.parametrize("kind", ["flink", "twin", "pods", "ready pods"])
def test_an_answer_that_nobody_expects_is_an_error_of_the_target(kind, tmp_path):
    with closing(Wire()) as server, asking(kind, server.url, tmp_path) as target:
        for body, status, coding in ANSWERS:
            server.pieces = (answer_of(body, coding, status),)
            for act in (target.read, lambda: target.scale(4, "a")):
                with pytest.raises(TargetError) as failed:
                    act()
                assert len(str(failed.value)) < 600


GARBLED = {
    "gzip that is none": (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b\x08garbage"),
    "deep JSON": (200, {}, DEEP),
    "a list": (200, {}, b"[]"),
    "an error that is a number": (500, {}, b'{"errors": [1]}'),
}


@pytest.mark.parametrize("answer", GARBLED.values(), ids=GARBLED)
def test_flink_is_asked_again_after_an_answer_that_says_nothing(answer):
    with (
        closing(FlinkCluster([a_job()], checkpoints_pass=True)) as cluster,
        FlinkTarget(FlinkSettings(url=cluster.url), "orders") as target,
    ):
        cluster.garbled = {"PUT /jobs/" + "a" * 32 + "/resource-requirements": answer}
        with pytest.raises(TargetError) as failed:
            target.scale(4, "a")
        assert failed.value.retriable
        cluster.garbled = {}
        assert target.scale(4, "a").requested == 4


def test_flink_is_asked_again_where_it_accepts_and_forgets():
    with (
        closing(FlinkCluster([a_job()], checkpoints_pass=True, forgetting=1)) as cluster,
        FlinkTarget(FlinkSettings(url=cluster.url), "orders") as target,
    ):
        target.scale(4, "a")
        assert target.read().requested == 2
        target.scale(4, "a")
        assert target.read().requested == 4
        target.scale(4, "a")
        assert len(cluster.puts()) == 2, "what it shows is not asked for again"


def test_kubernetes_is_asked_again_where_it_accepts_and_forgets(tmp_path):
    with kubernetes_target(tmp_path) as (target, server):
        assert target.scale(4, "a").requested == 4
        (resource,) = server.resources.values()
        resource.replicas = 2
        assert target.scale(4, "a").requested == 4
        assert resource.replicas == 4

"""The Kubernetes target on a real API server with its controllers; only the kubelet's part is played.

Run by ``make e2e`` where etcd, kube-apiserver, kube-controller-manager and kubectl are on the PATH or in the folder
that ``KUBEBUILDER_ASSETS`` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from perdix.settings.targets import KubernetesSettings
from perdix.targets.contract import Fault, Running, TargetError
from perdix.targets.kubernetes.target import KubernetesTarget
from tests.e2e.kubernetes_cluster import ASSETS, MISSING, Kubernetes, kubernetes
from tests.e2e.twin_in_real_time import controller, twin_face, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        bool(MISSING), reason=f"THE TESTS OF KUBERNETES DID NOT RUN: no {', '.join(MISSING)} on the PATH or in {ASSETS}"
    ),
]
DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
JOB = """\
name: orders
engine: flink
mode: act
bounds: {{minimum: 1, maximum: 8}}
policy: {{name: static, options: {{scale_out: 3}}}}
prometheus: {{url: "{url}", selector: {{namespace: orders, job_name: orders, topic: orders}}, scrape_interval_s: 5}}
target: {{kind: kubernetes, namespace: prod, name: wordcount-taskmanager, kubeconfig: "{access}"}}
"""
CONTAINERS = [{"name": "worker", "image": "registry.example/worker:1"}]


def workload(kind: str, name: str, replicas: int) -> dict:
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}},
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "prod"}, "spec": spec}


FLINK = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "flinkdeployments.flink.apache.org"},
    "spec": {
        "group": "flink.apache.org",
        "scope": "Namespaced",
        "names": {"plural": "flinkdeployments", "singular": "flinkdeployment", "kind": "FlinkDeployment"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.taskManager.replicas",
                        "statusReplicasPath": ".status.taskManager.replicas",
                    },
                },
            }
        ],
    },
}
AT_MOST_FOUR = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: at-most-four}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments/scale]}
  validations:
    - {expression: object.spec.replicas <= 4, message: four replicas are paid for}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: at-most-four}
spec: {policyName: at-most-four, validationActions: [Deny]}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """The API server with the shipped rules applied, and the workloads that they name, of two replicas each."""
    with kubernetes(tmp_path_factory.mktemp("kubernetes")) as running:
        running.apply(FLINK)
        running.apply((DEPLOY / "rbac.yaml").read_text())
        running.apply(workload("Deployment", "wordcount-taskmanager", 2))
        running.apply(workload("StatefulSet", "orders-streams", 2))
        until(lambda: "fraud" in running.apply(flink_deployment(2)), 60, "the custom resource")
        yield running


@pytest.fixture
def at_two(cluster: Kubernetes) -> Kubernetes:
    """Every workload asked for two replicas, and followed by its controller."""
    for kind, name in (("Deployment", "wordcount-taskmanager"), ("StatefulSet", "orders-streams")):
        cluster.apply(workload(kind, name, 2))
        until(lambda of=f"{kind}/{name}": cluster.get(of)["status"].get("replicas") == 2, 60, f"two pods of {name}")
    cluster.apply(flink_deployment(2))
    cluster.kubectl(
        *("patch", "flinkdeployment", "fraud", "-n", "prod", "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": {"taskManager": {"replicas": 2}}})),
    )
    return cluster


def flink_deployment(replicas: int) -> dict:
    return {
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "fraud", "namespace": "prod"},
        "spec": {"taskManager": {"replicas": replicas}},
    }


def target(of: Kubernetes, name: str = "wordcount-taskmanager", **settings: object) -> KubernetesTarget:
    """Return the target of a job, with the token of the shipped service account."""
    access = of.kubeconfig("perdix", of.token("perdix"))
    named = {"namespace": "prod", "name": name, "kubeconfig": access, **settings}
    return KubernetesTarget(KubernetesSettings.model_validate(named), "orders")


@pytest.mark.parametrize("manifest", sorted(DEPLOY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_manifest_is_accepted_without_a_warning(cluster: Kubernetes, manifest: Path) -> None:
    tried = ("apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors")
    assert "server dry run" in cluster.kubectl(*tried, "-f", str(manifest))


@pytest.mark.parametrize(
    ("api_version", "resource", "name"),
    [
        ("apps/v1", "deployments", "wordcount-taskmanager"),
        ("apps/v1", "statefulsets", "orders-streams"),
    ],
)
def test_a_workload_is_scaled_and_its_controller_follows(
    at_two: Kubernetes, api_version: str, resource: str, name: str
) -> None:
    with target(at_two, name, api_version=api_version, resource=resource) as of:
        assert of.read() == Running(2, 2, settled=True)
        asked = of.scale(3, "key-1")
        assert asked.requested == 3
        assert until(lambda: of.read().settled, 60, "a third pod")
        assert of.read() == Running(3, 3, settled=True)
        version = at_two.get(f"{resource}/{name}")["metadata"]["resourceVersion"]
        of.scale(3, "key-2")
        assert at_two.get(f"{resource}/{name}")["metadata"]["resourceVersion"] == version  # nothing was written


def test_a_custom_resource_is_scaled_and_settles_when_its_operator_says_so(at_two: Kubernetes) -> None:
    flink = {"api_version": "flink.apache.org/v1beta1", "resource": "flinkdeployments"}
    with target(at_two, "fraud", **flink) as of:
        assert of.scale(3, "key-1") == Running(2, 3, settled=False)
        assert at_two.get("flinkdeployment/fraud")["spec"]["taskManager"]["replicas"] == 3


def test_with_ready_pods_count_once_their_probes_answer(at_two: Kubernetes) -> None:
    at_two.pods_ready("app=wordcount-taskmanager")
    with target(at_two, ready=True) as of:
        assert until(lambda: of.read() == Running(2, 2, settled=True), 60, "two ready pods")
        of.scale(3, "key-1")
        until(lambda: at_two.get("deployment/wordcount-taskmanager")["status"].get("replicas") == 3, 60, "a third pod")
        assert of.read() == Running(2, 3, settled=False)
        at_two.pods_ready("app=wordcount-taskmanager")
        assert until(lambda: of.read() == Running(3, 3, settled=True), 60, "three ready pods")


def test_what_changed_after_the_look_is_read_again_and_a_number_of_somebody_else_stands(at_two: Kubernetes) -> None:
    deployment, looks = ("deployment/wordcount-taskmanager", "-n", "prod"), list[int]()

    def annotates() -> None:
        looks.append(len(looks))
        if len(looks) == 1:
            at_two.kubectl("annotate", *deployment, f"seen={uuid4().hex}", "--overwrite")

    def scales() -> None:
        at_two.kubectl("scale", *deployment, "--replicas=5")

    with target(at_two) as of:
        assert of.scale(3, "key-1", guard=annotates).requested == 3
        assert len(looks) >= 2  # the first write was refused: its resourceVersion was no longer the newest
        with pytest.raises(TargetError, match="someone else asked for 5 instead of 3 meanwhile"):
            of.scale(2, "key-2", guard=scales)


def test_the_shipped_rules_allow_what_perdix_does_and_nothing_else(at_two: Kubernetes) -> None:
    access = str(at_two.kubeconfig("perdix", at_two.token("perdix")))
    rights = at_two.kubectl("--kubeconfig", access, "auth", "can-i", "--list", "-n", "prod", "--no-headers")
    of_workloads = [row.split()[0] for row in rights.splitlines() if ".apps" in row or "flink" in row]
    assert sorted(of_workloads) == [
        "deployments.apps",
        "deployments.apps/scale",
        "flinkdeployments.flink.apache.org/scale",
        "statefulsets.apps",
        "statefulsets.apps/scale",
    ]

    def may(verb: str, what: str) -> bool:
        asked = ("--kubeconfig", access, "auth", "can-i", verb, what, "-n", "prod")
        return at_two.kubectl(*asked, check=False).strip() == "yes"

    assert may("get", "deployments.apps/wordcount-taskmanager")
    refused = [("list", "deployments.apps"), ("patch", "deployments.apps"), ("get", "secrets"), ("get", "pods")]
    assert not [right for right in refused if may(*right)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"name": "unnamed"},
            'add to its Role in namespace prod: apiGroups: ["apps"], resources: ["deployments/scale"]',
        ),
        ({"name": "flown", "kubeconfig": "admin"}, "check 'name' and 'namespace' of the target"),
        (
            {
                "name": "perdix-scale",
                "kubeconfig": "admin",
                "api_version": "rbac.authorization.k8s.io/v1",
                "resource": "roles",
            },
            "the cluster knows no roles/scale",
        ),
        (
            {
                "name": "fraud",
                "kubeconfig": "admin",
                "api_version": "flink.apache.org/v1",
                "resource": "flinkdeployments",
            },
            "check 'api_version' and 'resource'",
        ),
        ({"kubeconfig": "nobody"}, "401"),
    ],
)
def test_a_refusal_names_what_to_do(at_two: Kubernetes, settings: dict[str, Any], words: str) -> None:
    files = {"admin": at_two.admin, "nobody": at_two.kubeconfig("nobody", "token-of-nobody")}
    if "kubeconfig" in settings:
        settings = {**settings, "kubeconfig": files[settings["kubeconfig"]]}
    with target(at_two, **settings) as of:
        refused = failure(of)
    assert words in str(refused)
    assert "token-of" not in str(refused)


def test_what_an_admission_rule_refuses_is_quoted_and_bars_that_size_alone(at_two: Kubernetes) -> None:
    at_two.apply(AT_MOST_FOUR)
    try:
        with target(at_two) as of:
            refused = until(lambda: refusal_of_five(of), 60, "a refusal")
            assert "four replicas are paid for" in str(refused)
            assert refused.fault is Fault.SIZE
            assert of.scale(4, "four").requested == 4
    finally:
        at_two.kubectl("delete", "-f", "-", given=AT_MOST_FOUR)


def refusal_of_five(of: KubernetesTarget) -> TargetError | None:
    """Return why five replicas are refused; ``None``, and four again, where they are not yet."""
    try:
        of.scale(5, uuid4().hex)
    except TargetError as refused:
        return refused
    of.scale(4, uuid4().hex)
    return None


def test_an_account_made_anew_is_known_again_without_a_restart(at_two: Kubernetes) -> None:
    with target(at_two) as of:
        assert of.read().scale_out == 2
        at_two.kubectl("delete", "serviceaccount", "perdix", "-n", "perdix")
        refused = until(lambda: failure(of), 60, "a refusal")
        assert "401" in str(refused)
        at_two.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"))
        at_two.kubeconfig("perdix", at_two.token("perdix"))
        assert of.read().scale_out == 2


def test_a_restart_of_the_api_server_is_an_error_once_and_forgotten(at_two: Kubernetes) -> None:
    with target(at_two) as of:
        of.read()
        at_two.kill_api()
        refused = failure(of)
        assert "cannot be reached" in str(refused)
        assert refused is not None
        assert refused.retriable
        at_two.start_api()
        assert until(lambda: failure(of) is None, 60, "an answer")


def test_what_somebody_scaled_to_zero_stays_there(at_two: Kubernetes) -> None:
    at_two.kubectl("scale", "deployment/wordcount-taskmanager", "-n", "prod", "--replicas=0")
    with target(at_two) as of, pytest.raises(TargetError, match="scaled it to 0"):
        of.scale(3, "key-1")


def test_what_a_quota_has_no_room_for_does_not_settle(at_two: Kubernetes) -> None:
    at_two.kubectl("create", "quota", "few", "--hard=pods=5", "-n", "prod")  # four run
    try:
        until(lambda: at_two.get("quota/few").get("status", {}).get("used") == {"pods": "4"}, 60, "a count of pods")
        with target(at_two) as of:
            of.scale(4, "key-1")
            until(lambda: of.read().scale_out == 3, 60, "a third pod")
            assert of.read() == Running(3, 4, settled=False)
    finally:
        at_two.kubectl("delete", "quota", "few", "-n", "prod")


def test_a_controller_that_is_killed_rescales_once_and_marks_what_it_wrote(at_two: Kubernetes, tmp_path: Path) -> None:
    with twin_face() as face:
        file = tmp_path / "home" / "jobs" / "orders.yaml"
        file.parent.mkdir(parents=True)
        access = at_two.kubeconfig("perdix", at_two.token("perdix"))
        file.write_text(JOB.format(url=face.url, access=access), encoding="utf-8")
        name = "deployment/wordcount-taskmanager"
        with controller(tmp_path / "home", {}):
            until(lambda: at_two.get(name)["spec"]["replicas"] == 3, 60, "a rescale")
        asked = at_two.kubectl("get", name, "-n", "prod", "-o", "json", "--show-managed-fields")
        assert "perdix" in {entry["manager"] for entry in json.loads(asked)["metadata"]["managedFields"]}
        generation = at_two.get(name)["metadata"]["generation"]
        with controller(tmp_path / "home", {}) as ticks:
            until(lambda: len(ticks()) >= 3, 60, "three ticks")
        assert at_two.get(name)["metadata"]["generation"] == generation


def failure(of: KubernetesTarget) -> TargetError | None:
    try:
        of.read()
    except TargetError as refused:
        return refused
    return None

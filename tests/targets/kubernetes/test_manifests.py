"""The manifests in ``deploy/kubernetes`` grant what the target asks for, and no more."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from perdix.settings.stream_job import StreamJob
from perdix.settings.targets import KubernetesSettings
from tests.targets.kubernetes_api import RESOURCES, kubernetes_target

DEPLOY = Path(__file__).parents[3] / "deploy" / "kubernetes"


def manifests(name):
    return list(YAML(typ="safe").load_all(DEPLOY / name))


def granted(role):
    found = next(
        manifest
        for manifest in manifests("rbac.yaml")
        if manifest["kind"] == "Role" and manifest["metadata"]["name"] == role
    )
    return {
        (group, resource, verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked_for(tmp_path, kinds, **settings):
    """Drive the target through reading, scaling, a conflict and a rotated token; return what it asked the server."""
    asked = set()
    for api_version, resource in kinds:
        of = {"api_version": api_version, "resource": resource, **settings}
        with kubernetes_target(tmp_path, **of) as (target, server):
            made = next(iter(server.resources.values()))
            target.read()
            server.before_put = [made.settle, lambda made=made: setattr(made, "version", made.version + 1)]
            target.scale(4, "a")
            made.settle()
            server.fail("GET", status=401)
            target.read()
            asked |= server.verbs()
    return asked


def test_the_role_grants_exactly_what_the_target_asks_for(tmp_path):
    assert asked_for(tmp_path, RESOURCES) == granted("perdix-scale")


def test_with_ready_the_second_role_grants_the_rest(tmp_path):
    asked = asked_for(tmp_path, RESOURCES[:2], ready=True)
    assert asked - granted("perdix-scale") == granted("perdix-ready")


def test_every_rule_names_its_resources_and_binds_to_the_one_account():
    objects = manifests("rbac.yaml")
    assert {row["kind"] for row in objects} == {"ServiceAccount", "Role", "RoleBinding"}, "nothing cluster-wide"
    assert all(rule["resourceNames"] for row in objects if row["kind"] == "Role" for rule in row["rules"])
    account = next(row["metadata"] for row in objects if row["kind"] == "ServiceAccount")
    for binding in (row for row in objects if row["kind"] == "RoleBinding"):
        role = next(row for row in objects if row["kind"] == "Role" and row["metadata"] == binding["metadata"])
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert [(subject["name"], subject["namespace"]) for subject in binding["subjects"]] == [
            (account["name"], account["namespace"])
        ]


@pytest.mark.parametrize("file", ["controller.yaml", "training.yaml"])
def test_pods_are_confined(file):
    (pod,) = (manifest["spec"]["template"]["spec"] for manifest in manifests(file) if manifest["kind"] == "Deployment")
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_job_file_of_the_example_is_valid_and_its_target_may_be_scaled():
    objects = {manifest["kind"]: manifest for manifest in manifests("controller.yaml")}
    ((name, text),) = objects["ConfigMap"]["data"].items()
    job = StreamJob.model_validate({"name": Path(name).stem, **YAML(typ="safe").load(text)})
    names = {
        name
        for manifest in manifests("rbac.yaml")
        if manifest["kind"] == "Role"
        for r in manifest["rules"]
        for name in r["resourceNames"]
    }
    assert isinstance(job.target, KubernetesSettings)
    assert job.target.name in names


def test_the_training_pod_shares_the_controllers_home_and_job_files_on_its_node():
    controller = next(manifest for manifest in manifests("controller.yaml") if manifest["kind"] == "Deployment")[
        "spec"
    ]["template"]
    (training,) = manifests("training.yaml")
    pod = training["spec"]["template"]["spec"]
    shared = {
        name: next(v for v in pod["volumes"] if v["name"] == name) for name in ("home", "jobs", "prometheus-token")
    }
    assert all(volume in controller["spec"]["volumes"] for volume in shared.values())
    (near,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near["labelSelector"]["matchLabels"].items() <= controller["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"ready": True, "resource": "flinkdeployments", "api_version": "flink.apache.org/v1beta1"}, "'ready' is for"),
        ({"api_version": "v1"}, "api_version"),
        ({"resource": "deployments/scale"}, "resource"),
        ({"namespace": "../kube-system"}, "namespace"),
    ],
)
def test_settings_that_name_no_resource_are_refused(wrong, told):
    with pytest.raises(ValidationError, match=told):
        KubernetesSettings.model_validate({"name": "orders", **wrong})


def pod_of(file):
    (pod,) = (manifest["spec"]["template"] for manifest in manifests(file) if manifest["kind"] == "Deployment")
    return pod


@pytest.mark.parametrize("file", ["controller.yaml", "training.yaml"])
def test_job_files_lie_where_the_pod_reads_them(file):
    """A checkout reads its own conf; what was installed from a wheel, that of ``PERDIX_CONF`` or the working folder."""
    (container,) = pod_of(file)["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    conf = variables.get("PERDIX_CONF") or f"{container['workingDir']}/conf"
    (mounted,) = (mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "jobs")
    assert mounted == f"{conf}/jobs"


def test_the_metrics_are_found_under_the_names_that_others_ask_for():
    labels = pod_of("controller.yaml")["metadata"]["labels"]
    (service,) = (manifest for manifest in manifests("controller.yaml") if manifest["kind"] == "Service")
    assert service["spec"]["selector"].items() <= labels.items()
    (port,) = service["spec"]["ports"]
    place = f"http://{service['metadata']['name']}.{service['metadata']['namespace']}.svc:{port['port']}/metrics"
    assert place in (DEPLOY.parent / "flink-autoscaler" / "flinkdeployment.yaml").read_text()
    (label,) = labels
    meta = f"__meta_kubernetes_pod_label_{re.sub('[^a-z]', '_', label)}"
    assert meta in (DEPLOY.parent / "prometheus" / "scrape.yaml").read_text()


def test_a_store_of_both_is_named_in_both():
    assert all(
        "# - name: PERDIX_STATE_URL" in (DEPLOY / file).read_text() for file in ("controller.yaml", "training.yaml")
    )

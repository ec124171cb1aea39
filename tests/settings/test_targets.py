"""Each kind of target has its own keys, and a wrong one is told with its line."""

import pytest

from perdix.settings.stream_job import load_stream_job
from perdix.settings.targets import (
    AdvisorySettings,
    FlinkSettings,
    KubernetesSettings,
    Rescales,
    TargetSettings,
    TwinSettings,
    rescales,
)
from perdix.settings.yaml_files import SettingsError


def job_with(tmp_path, target):
    path = tmp_path / "orders.yaml"
    path.write_text("mode: act\ntarget:\n" + "".join(f"  {line}\n" for line in target.splitlines()))
    return load_stream_job(path)


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("{}", AdvisorySettings()),
        ("kind: advisory", AdvisorySettings()),
        ("kind: twin\nurl: http://127.0.0.1:1", TwinSettings(url="http://127.0.0.1:1")),
        ("kind: flink\nurl: http://127.0.0.1:1", FlinkSettings(url="http://127.0.0.1:1")),
        ("kind: kubernetes\nname: orders", KubernetesSettings(name="orders")),
    ],
)
def test_the_kind_says_which_target_is_meant(tmp_path, target, meant):
    assert job_with(tmp_path, target).target == meant


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("kind: flonk\nurl: http://h", r"orders\.yaml:3: unknown kind 'flonk' of 'target'; did you mean 'flink'\?$"),
        ("kind: spark", r"orders\.yaml:3: unknown kind 'spark' of 'target'; known: advisory, twin, flink, kubernetes$"),
        ("kind: [flink]", r"orders\.yaml:3: unknown kind \['flink'\] of 'target'; did you mean 'flink'\?$"),
        ("kind: flink", r"orders\.yaml:2: 'target.url' is missing"),
        ("kind: flink\nurl: http://h/#/overview", r"orders\.yaml:4: 'target.url': end it before '#' or '\?': what"),
        ("kind: flink\nurl: http://h/?job=1", r"orders\.yaml:4: 'target.url': end it before '#' or '\?': what"),
        ("kind: flink\nurl: http://h\nchekpoint: false", r"orders\.yaml:5: .* did you mean 'checkpoint'\?"),
        ("kind: flink\nurl: http://h\nname: orders", r"orders\.yaml:5: .* did you mean 'job_name'\?"),
        (
            "kind: kubernetes\nname: Orders",
            r"orders\.yaml:4: 'target.name': write it as in URLs",
        ),
        (
            "kind: kubernetes\nname: x\nresource: Deployment",
            r"orders\.yaml:5: 'target.resource': .* as in URLs, .*: deploy",
        ),
        ("kind: kubernetes\nname: x\napi_version: v1", r"orders\.yaml:5: 'target.api_version': .* group: apps/v1 "),
        ("url: http://h", r"orders\.yaml:3: unknown key 'target.url'; known keys: kind"),
        ("kind: kubernetes\nname: x\nresource: pods\nready: true", r"orders\.yaml:2: 'target': 'ready' is for"),
        ("kind: advisory\nurl: http://h", r"orders\.yaml:4: unknown key 'target.url'; known keys: kind"),
    ],
)
def test_a_wrong_key_is_told_with_its_line_and_mend(tmp_path, target, told):
    with pytest.raises(SettingsError, match=told):
        job_with(tmp_path, target)


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (FlinkSettings(url="http://127.0.0.1:1"), Rescales(in_place=True, checkpoint=True)),
        (FlinkSettings(url="http://127.0.0.1:1", checkpoint=False), Rescales(in_place=True)),
        (TwinSettings(url="http://127.0.0.1:1", in_place=True), Rescales(in_place=True, checkpoint=True)),
        (TwinSettings(url="http://127.0.0.1:1"), Rescales()),
        (KubernetesSettings(name="orders"), Rescales()),
        (AdvisorySettings(), Rescales()),
    ],
)
def test_a_target_says_how_it_rescales(target: TargetSettings, found: Rescales) -> None:
    assert rescales(target) == found

"""An API server, or what stands in front of it, can neither hold the loop nor fill its memory."""

import gzip
import json
import time
from contextlib import closing

import pytest

import perdix.targets.kubernetes.limits as limits
from perdix.settings.targets import KubernetesSettings
from perdix.targets.contract import Running, TargetError
from perdix.targets.kubernetes.target import KubernetesTarget
from perdix.telemetry.http_client import MIB
from tests.telemetry.wire_server import DRIPS, Wire, answer_of

SCALE = {"kind": "Scale", "spec": {"replicas": 3}, "status": {"replicas": 3}}


def read(wire, folder):
    cluster = {"name": "c", "cluster": {"server": wire.url}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    text = {"current-context": "c", "clusters": [cluster], "contexts": [context], "users": users}
    (folder / "config").write_text(json.dumps(text))
    settings = KubernetesSettings(kubeconfig=folder / "config", namespace="prod", name="orders")
    with closing(wire), KubernetesTarget(settings, "orders") as target:
        return target.read()


@pytest.mark.parametrize("part", DRIPS)
def test_a_server_that_drips_is_left_when_the_time_for_the_whole_call_is_over(part, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "TOTAL_S", 0.3)
    began_s = time.monotonic()
    with pytest.raises(TargetError, match="no answer") as failed:
        read(Wire(*DRIPS[part], pause_s=0.02), tmp_path)
    assert failed.value.retriable
    assert time.monotonic() - began_s < 3.0, "each byte alone came in time"


@pytest.mark.parametrize("status", [b"200 OK", b"500 Broken"])
def test_a_bomb_is_unpacked_no_further_than_an_answer_may_grow(status, tmp_path):
    with pytest.raises(TargetError, match="more than 8 MiB") as failed:
        read(Wire(answer_of(gzip.compress(bytes(50 * MIB)), "gzip", status)), tmp_path)
    assert failed.value.retriable


def test_a_body_packed_twice_is_not_unpacked_at_all(tmp_path):
    with pytest.raises(TargetError, match="packed as"):
        read(Wire(answer_of(gzip.compress(gzip.compress(bytes(MIB))), "gzip, gzip")), tmp_path)


def test_a_packed_answer_that_keeps_to_the_limits_is_read(tmp_path):
    packed = answer_of(gzip.compress(json.dumps(SCALE).encode()), "gzip")
    assert read(Wire(packed), tmp_path) == Running(3, 3, settled=True)

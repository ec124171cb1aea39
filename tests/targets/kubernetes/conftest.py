"""A fake API server, and nothing of whoever runs the tests."""

import pytest

from tests.targets.kubernetes_api import kubernetes_target


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Neither the proxies nor the clusters of whoever runs the tests."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nobody"))


@pytest.fixture
def cluster(tmp_path):
    """Target, server, and the one resource that it scales, at 2."""
    with kubernetes_target(tmp_path) as (target, server):
        yield target, server, next(iter(server.resources.values()))

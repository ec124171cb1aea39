"""Prometheus: how it is started, and what the testbed asks it."""

from __future__ import annotations

from collections import Counter

import httpx

from testbed.layout import Layout
from testbed.settings import HOST, Testbed

TIMEOUT_S = 5.0
RETENTION = "30d"


def command(layout: Layout, testbed: Testbed) -> list[str]:
    """Return the command of Prometheus. Its admin interface is open: snapshots are how a run's data are kept."""
    return [
        "prometheus",
        f"--config.file={layout.conf / 'prometheus.yml'}",
        f"--storage.tsdb.path={layout.prometheus_data}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address={HOST}:{testbed.ports.prometheus}",
        "--web.enable-admin-api",
        "--log.level=warn",
    ]


def ready(testbed: Testbed) -> bool:
    """Say whether it answers queries."""
    try:
        return httpx.get(f"{testbed.prometheus_url}/-/ready", timeout=TIMEOUT_S, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def targets_up(testbed: Testbed) -> dict[str, int]:
    """Return how many targets of each scrape job answered at the last scrape.

    Raises ``HTTPError`` when Prometheus does not answer.
    """
    address = f"{testbed.prometheus_url}/api/v1/targets"
    answer = httpx.get(address, params={"state": "active"}, timeout=TIMEOUT_S, trust_env=False)
    answer.raise_for_status()
    targets = answer.json()["data"]["activeTargets"]
    return dict(Counter(str(target["scrapePool"]) for target in targets if target["health"] == "up"))

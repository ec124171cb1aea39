"""Lets a worker fail that runs the job of a testbed, and starts it again: ``python -m tests.e2e.fail_worker STATE``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from testbed.cluster import Cluster
from testbed.layout import Layout
from tests.e2e.testbed_rig import working

SEEN_S = 3.0  # in which the cluster sees that it is gone


def main(state: Path) -> None:
    layout = Layout(state)
    testbed = layout.recall()
    assert testbed is not None
    cluster = Cluster(layout, testbed)
    worker = working(testbed)[0]
    os.kill(cluster.known_running(worker), signal.SIGKILL)
    time.sleep(SEEN_S)
    cluster.start([worker])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

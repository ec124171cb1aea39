"""A real Spark master, over its own protocol, in processes of their own. Run by ``make e2e``."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from perdix.settings.home import Home
from perdix.telemetry.spark.session import prepare_environment


@pytest.mark.e2e
def test_a_real_cluster_without_workers_is_distinguished_from_a_slow_one(tmp_path):
    home = Home(tmp_path / "home").make()
    java = prepare_environment(home, "spark://")
    program = (
        "import sys; from pathlib import Path; from perdix.settings.home import Home\n"
        "from perdix.telemetry.spark import cluster, session\n"
        "session.require_tasks = lambda spark: cluster.require_tasks(spark, within_s=1.0)\n"
        "session.spark_session(Home(Path(sys.argv[1])), sys.argv[2])\n"
    )
    import pyspark  # noqa: PLC0415 - half a second that other tests need not pay

    jars = f"{pyspark.__path__[0]}/jars/*"
    command = [f"{java.home}/bin/java", "-Xmx256m", "-cp", jars, "org.apache.spark.deploy.master.Master"]
    with subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"], stderr=subprocess.PIPE, text=True
    ) as master:
        try:
            url = next(line.split()[-1] for line in master.stderr if "Starting Spark master at" in line)
            threading.Thread(target=master.stderr.read, daemon=True).start()
            done = subprocess.run(
                [sys.executable, "-c", program, str(home.root), url],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        finally:
            master.terminate()
    assert f"ClusterError: Spark at {url} ran no task within 1 s: no executor has registered" in done.stderr
    assert "spark.driver.host" in done.stderr

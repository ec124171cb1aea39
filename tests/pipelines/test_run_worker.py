"""Runs that the UI, a schedule or a sensor starts live in processes whose main module has no name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdix.settings.home import PROJECT

pytestmark = pytest.mark.slow


def test_great_expectations_can_be_imported_in_the_process_of_a_run() -> None:
    # A command's main module has neither file nor specification, as that of a process which multiprocessing spawned.
    code = (
        "import sys; assert sys.modules['__main__'].__spec__ is None;"
        "import perdix.pipelines.training_location;"
        "import great_expectations; print('still alive')"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "still alive"), ended.stderr

"""What perdix does with exports of real jobs: a champion, or a sentence why there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e


def perdix(home: Path, *arguments: str) -> str:
    """Return what a command prints, its lines as one."""
    environment = {**os.environ, "PERDIX_HOME": str(home), "COLUMNS": "200"}
    command = [Path(sys.executable).with_name("perdix"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    return " ".join(done.stdout.split())


@pytest.mark.shared
@pytest.mark.parametrize(
    ("job", "files", "ends"),
    [
        ("ramp", ["figures/cpu_1.csv", "figures/throughput_1.csv", "figures/workload_1.csv"],
         "no champion for ramp: 21 minutes of workload are too few to judge a forecast of 15 minutes; ingest 38"),
        ("sine", ["testing/sine_cpu_p2.csv", "testing/sine_throughput_p2.csv"], "(champion version 1)"),
    ],
)  # fmt: skip
def test_real_exports_end_with_a_champion_or_with_a_sentence_why_not(
    job: str, files: list[str], ends: str, shared_data: Path, tmp_path: Path
) -> None:
    perdix(tmp_path, "ingest", *(str(shared_data / "metrics" / file) for file in files), "--job", job)
    trained = perdix(tmp_path, "train", "--job", job)
    assert "version 0" not in trained
    assert ends in perdix(tmp_path, "forecast", job)

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from perdix.twin.serve import main

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_until_a_signal_and_ends_clean(number):
    command = [sys.executable, "-m", "perdix.twin.serve", "--hours", "0.5", "--job", "wordcount"]
    process = subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        line = process.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", line)[0]
        assert "wordcount" in line
        answer = httpx.get(f"{url}/api/v1/query", params={"query": 'uptime_s{job="wordcount"}'}, timeout=10).json()
        assert float(answer["data"]["result"][0]["value"][1]) > 0
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert errors == ""


def test_a_wrong_twin_is_named_with_its_line(tmp_path, capsys):
    (tmp_path / "x.yaml").write_text("workers:\n  capacity_per_s: -1\nworkload: {shape: sine, peak_per_s: 5}\n")
    assert main(["--conf", str(tmp_path)]) == 1
    assert re.search(r"x\.yaml:2: 'workers\.capacity_per_s'", capsys.readouterr().err)


def test_an_empty_folder_says_what_to_add(tmp_path, capsys):
    assert main(["--conf", str(tmp_path)]) == 1
    assert "add <name>.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--port", "99999"),
        ("--port", "-1"),
        ("--hours", "inf"),
        ("--hours", "nan"),
        ("--hours", "-1"),
        ("--hours", "1e9"),
        ("--scrape-interval", "nan"),
        ("--scrape-interval", "0"),
        ("--seed", "-1"),
        ("--seed", "1.5"),
    ],
)
def test_an_option_that_cannot_be_is_named_with_its_bounds(option, value, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--job", "wordcount", f"{option}={value}"])
    assert ended.value.code == 2
    assert re.search(rf"{option}: '{value}' is not from \d+ to \d+", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ("{'1:30': {cpu_cores: 1, memory_mb: 512, price_per_h: 0.1, per_s: 9}}", "size '1:30': use letters"),
        (
            "{a: {cpu_cores: 1, memory_mb: 512, price_per_h: 0.1, per_s: 9}, "
            "b: {cpu_cores: 1, memory_mb: 512, price_per_h: 0.2, per_s: 9}}",
            "two sizes have the same cores and memory",
        ),
    ],
)
def test_sizes_that_no_job_can_have_are_refused_with_their_line(tmp_path, capsys, sizes, words):
    file = f"workers:\n  capacity_per_s: 9\n  sizes: {sizes}\nworkload: {{shape: sine, peak_per_s: 5}}\n"
    (tmp_path / "x.yaml").write_text(file)
    assert main(["--conf", str(tmp_path), "--job", "x", "--hours", "0"]) == 1
    said = capsys.readouterr().err
    assert "x.yaml:3" in said
    assert words in said

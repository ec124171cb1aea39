"""What a job file says of profiling: commands as words, with places for numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdix.settings.stream_job import load_stream_job
from perdix.settings.yaml_files import SettingsError


def written(folder: Path, text: str) -> Path:
    path = folder / "orders.yaml"
    path.write_text(text)
    return path


def test_a_command_is_a_text_or_a_list_of_words(tmp_path: Path) -> None:
    text = """
profiling:
  load: 'load-generator --topic "all orders" --per-s {per_s}'
  fail: [kubectl, delete, pod, orders-taskmanager-1-1]
  resize: ["resize.sh", "{cpu_cores}", "{memory_mb}"]
  sizes: {cpu: {least: 0.5, most: 2, unit: 0.5}, memory: {least: 512, most: 2048, unit: 512}}
  most_per_s: 20000
"""
    found = load_stream_job(written(tmp_path, text)).profiling
    assert found is not None
    assert found.load == ("load-generator", "--topic", "all orders", "--per-s", "{per_s}")
    assert found.fail == ("kubectl", "delete", "pod", "orders-taskmanager-1-1")
    assert found.restore is None
    assert found.sizes is not None
    assert found.sizes.size(found.sizes.largest) == (2.0, 2048.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{load: load.sh}", "{per_s} stands nowhere in it"),
        ("{load: 'load.sh {per_s}', resize: 'resize.sh {cpu_cores}'}", "{memory_mb} stands nowhere in it"),
        ("{load: 'load.sh \"{per_s}'}", "No closing quotation; or write the command as a list of words"),
        ("{load: ''}", "load"),
        ("{load: [1, 2]}", "load"),
        ("{load: ['', '{per_s}']}", "names no program"),
        ("{load: './load.sh {per_s}'}", "'./load.sh' depends on the folder that perdix is started in; write its whole"),
        ("{load: 'x {per_s}', fail: bin/fail.sh}", "'bin/fail.sh' depends on the folder"),
        ("{load: '~/load.sh {per_s}'}", "write its whole path, or a name that PATH finds"),
        (
            "{load: 'x {per_s}', sizes: {cpu: {least: 1, most: 1.0e+300, unit: 1.0e-9}, "
            "memory: {least: 1, most: 1, unit: 1}}}",
            "make the unit larger than 1e-09",
        ),
        ("{load: 'load.sh {per_s}', most_per_s: 0}", "most_per_s"),
        ("{}", "load"),
    ],
)
def test_what_cannot_be_run_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_stream_job(written(tmp_path, f"profiling: {text}\n"))
    assert words in str(caught.value)
    assert "orders.yaml" in str(caught.value)

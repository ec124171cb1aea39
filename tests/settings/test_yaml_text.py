"""Whatever lies where a settings file should is told in one sentence, soon, and with its place."""

import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdix.settings.stream_job import load_stream_job
from perdix.settings.yaml_text import MOST_BYTES, MOST_DEPTH, SettingsError, read_yaml

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{now}: &{now} [{', '.join([f'*{before}'] * 9)}]\n" for before, now in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.yaml"


def refusal(path: Path) -> str:
    began_s = time.perf_counter()
    with pytest.raises(SettingsError) as error:
        load_stream_job(path)
    assert time.perf_counter() - began_s < 20.0
    assert str(error.value).startswith(str(path))
    return str(error.value)


def test_a_folder_is_no_file(path: Path) -> None:
    path.mkdir()
    assert "not a file but a folder" in refusal(path)


def test_a_loop_of_links_is_named(path: Path) -> None:
    path.symlink_to(path)
    assert "symbolic links" in refusal(path)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    assert "a pipe" in refusal(path)


def test_a_socket_and_a_device_are_no_files(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        assert "cannot be read" in refusal(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "a device" in refusal(path)


def test_a_file_that_may_not_be_read_is_named(path: Path) -> None:
    path.write_text("mode: act\n", encoding="utf-8")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    assert "Permission denied" in refusal(path)


def test_a_file_of_gigabytes_is_not_read_to_its_end(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(8 << 30)
    assert f"more than {MOST_BYTES:,} bytes" in refusal(path)


def test_aliases_that_unfold_to_hundreds_of_millions_of_values_are_refused_at_their_line(path: Path) -> None:
    path.write_text(f"{BOMB}mode: *i\n", encoding="utf-8")
    assert refusal(path).startswith(f"{path}:5: not YAML: more than 10,000 values")


@pytest.mark.parametrize("text", ["mode: &a [*a]\n", "&a mode: *a\n? &b [*b]\n: 1\n", "a: &a {b: &a [*a]}\n"])
def test_an_alias_within_what_it_names_is_refused(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    assert "stands within what it names" in refusal(path)


def test_aliases_as_people_use_them_are_read(path: Path) -> None:
    path.write_text("objectives: &base {recovery_time_s: 300}\nbounds: {<<: {minimum: 2}}\n", encoding="utf-8")
    assert load_stream_job(path).bounds.minimum == 2


@pytest.mark.parametrize("bracket", ["[", "{", "- ", "? "])
def test_a_thousand_levels_are_refused(path: Path, bracket: str) -> None:
    path.write_text(bracket * 1_000, encoding="utf-8")
    assert f"more than {MOST_DEPTH} levels deep" in refusal(path)


@pytest.mark.parametrize(
    "text",
    [
        "mode: [/]\n",
        "mode: '[/]'\n",
        'mode: "\\ud800"\n',
        "mode: !!binary '['\n",
        f"mode: {'9' * 5_000}\n",
        "mode: !!int x\n",
        "[a]: b\n",
        "? {a: b}\n: c\n",
        "!!set {mode}\n",
        "mode: !!omap [a, b]\n",
        "bounds: 2026-01-31 25:00:00\n",
    ],
)
def test_odd_values_are_that_files_fault(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    refusal(path)


def test_of_many_wrong_keys_the_first_are_named_and_the_rest_counted(path: Path) -> None:
    path.write_text("".join(f"key{number}: 1\n" for number in range(100)), encoding="utf-8")
    told = refusal(path).splitlines()
    assert len(told) == 21
    assert told[-1] == f"{path}: and 80 more"


def test_what_stands_there_is_told_in_part(path: Path) -> None:
    path.write_text(f"mode: {'x' * 100_000}\n", encoding="utf-8")
    assert len(refusal(path)) < 500


def test_a_date_that_cannot_be_is_named_with_its_line(path: Path) -> None:
    path.write_text("mode: act\npaused_until: 2026-02-30\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"x\.yaml:2: .*write a date as 2026-01-31"):
        read_yaml(path)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[2026-11-27T08:00:00Z, 2026-11-31T08:00:00Z]", "day is out of range for month; write"),
        ("2026-12-01T25:00:00Z", "hour must be in 0..23; write a date as 2026-01-31, a moment as 2026-01-31T06:00:00Z"),
        ("9" * 5_000, "Exceeds the limit (4300 digits)"),
        ("!!float often", "could not convert string to float: 'often'"),
    ],
)
def test_a_value_that_cannot_be_is_reported_with_its_line(path: Path, value: str, said: str) -> None:
    path.write_text(f"from: 2026-02-28\nat: {value}\n")
    assert f"x.yaml:2: {said}" in refusal(path)


WHOLE = """\
engine: flink
prometheus: {url: 'URL', selector: {job: x}, token_env: TOKEN}
bounds: &b {minimum: 1, maximum: 8}
sizes:
  small: {cpu_cores: 1, memory_mb: 1024, price_per_h: 0.1}
target: {kind: flink, url: "http://127.0.0.1:8081"}
paused_until: 2026-01-31T06:00:00Z
"""
NOISE = (
    "[", "{", "]", "}", ": ", "- ", "&b ", "*b", "!!int ", "!!binary ", "!!set ", "!!python/object:os.system ",
    "<<: *b\n", "? ", "| ", "'", '"', "\\ud800", "\x00", "\ud800", "\n", "\t", "#", "%YAML 1.1\n", "---\n", "~",
    ".nan", "9" * 5_000, "0x", "2026-13-45", "[/]", "- " * 100, "{a: " * 60, "kind: ", "@", "\r", "\u2028",
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(NOISE), st.integers(0, 30)), max_size=4))
def test_whatever_a_file_holds_it_is_a_job_or_one_error_without_its_password(path: Path, steps: list) -> None:
    text = WHOLE
    for place, noise, replaced in steps:
        at = int(place * len(text))
        text = text[:at] + noise + text[at + replaced :]
    text = text.replace("URL", "http://me:s3cr3t@127.0.0.1:9090")
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    told = ""
    try:
        load_stream_job(path)
    except SettingsError as error:
        told = str(error)
    assert "s3cr3t" not in told

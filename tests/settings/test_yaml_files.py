"""An operator's typo is reported with file, line and fix."""

import re
from pathlib import Path

import pytest

from perdix.settings.product import load_product_settings
from perdix.settings.stream_job import Bounds, StreamJob, load_stream_job
from perdix.settings.yaml_files import SettingsError, read_yaml


def job_file(folder: Path, text: str, name: str = "wordcount") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", ["{}\n", "", "# nothing but a comment\n"])
def test_an_empty_file_is_a_whole_job(tmp_path: Path, text: str) -> None:
    job = load_stream_job(job_file(tmp_path, text))
    assert (job.name, job.mode, job.target.kind) == ("wordcount", "advise", "advisory")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("engine: flink\nbound: {minimum: 1}\n", 2, "did you mean 'bounds'?"),
        ("engine: flink\nbounds:\n  minimum: 1\n  maxmum: 3\n", 4, "did you mean 'maximum'?"),
        ("objectives:\n  recovery_time_s: -5\n", 2, "greater than 0"),
        ("objectives:\n  recovery_time_s: 1.0e+300\n", 2, "less than or equal to 86400"),
        (f"source_partitions: {10**32}\n", 1, "less than or equal to 1000000"),
        ("bounds:\n  minimum: 9\n  maximum: 3\n", 1, "swap or widen"),
        ("\n\nmode: go\n", 3, "'advise' or 'act'"),
        ("name: other\n", 1, "rename the file"),
        ("target: {kind: twin}\n", 1, "'target.url' is missing"),
        ("paused_until: 2026-01-31T06:00:00\n", 1, "06:00:00Z (found 2026-01-31T06:00:00)"),
        ("paused_until: 9999-12-31T23:59:59-12:00\n", 1, "after the year 9000"),
        ("prometheus:\n  url: http://p\n  scrape_interval_s: 1.0e+300\n", 3, "less than or equal to 300"),
        ("prometheus:\n  url: http://p\n  scrape_interval_s: 1.0e-5\n", 3, "greater than or equal to 0.1"),
        ("prometheus: http://p:9090\n", 1, "expected a mapping; write its keys below it"),
        ("policy: daedalus\n", 1, "expected a mapping; write its keys below it"),
        ("target: kubernetes\n", 1, "expected a mapping; write its keys below it, with 'kind' as one of advisory"),
        ("target:\n", 1, "expected a mapping; write its keys below it, with 'kind' as one of advisory"),
        ("bounds: {min: 1}\n", 1, "did you mean 'minimum'?"),
        ("objectives: {planned_recovery_s: 60}\n", 1, "unknown key 'objectives.planned_recovery_s'; known keys: check"),
        ("prometheus:\n  url: localhost:9090\n", 2, "expected an address; write it as http://host:9090"),
        ("prometheus: {url: http://p, token_file: [a]}\n", 1, "expected the path of a file"),
        ("events:\n- {factor: 2}\n", 1, "expected a mapping; write its keys below it"),
        ("prometheus:\n  url: 127.0.0.1:9090\n", 2, "write it as http://host:9090"),
        ("prometheus:\n  url: prom\n", 2, "write it as http://host:9090"),
        ("prometheus: {url: http://p, selector: {job: 5}}\n", 1, "put it in quotes (found 5)"),
        ("prometheus:\n  url: http://p\n  selector: {app.io/name: ads}\n", 3, "'app_io_name'"),
        ("objectives: {latency_p95_ms: 5s}\n", 1, "write it without a unit (found '5s')"),
        ("bounds: {maximum: many}\n", 1, "expected a number"),
        ("paused_until: tomorrow\n", 1, "write it as 2026-01-31T06:00:00Z"),
        ("engine: [flink\n", 2, "not YAML"),
        ("- engine\n", 1, "expected settings, not a list; write them as 'key: value'"),
        ("engine\n", 1, "expected settings, not a text; write them as 'key: value'"),
        ("5\n", 1, "expected settings, not a value; write them as 'key: value'"),
    ],
)
def test_a_wrong_setting_names_file_line_and_mend(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = job_file(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        load_stream_job(path)
    assert words in str(error.value)
    if "rename" not in words:
        assert f"{path}:{line}:" in str(error.value)
    else:
        assert str(path) in str(error.value)


def test_the_page_of_the_job_file_has_every_key() -> None:
    page = (Path(__file__).parents[2] / "conf" / "jobs" / "README.md").read_text(encoding="utf-8")
    unnamed = [key for key in StreamJob.model_fields if key != "name" and not re.search(rf"^(# )?{key}:", page, re.M)]
    assert unnamed == []


def test_all_wrong_keys_are_named_at_once(tmp_path: Path) -> None:
    path = job_file(tmp_path, "engin: flink\nmode: go\n")
    with pytest.raises(SettingsError) as error:
        load_stream_job(path)
    assert len(str(error.value).splitlines()) == 2


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"mode: \xff\n")
    with pytest.raises(SettingsError, match="not UTF-8 at byte 6"):
        read_yaml(path)


def test_the_committed_product_settings_are_the_defaults() -> None:
    committed = load_product_settings(Path(__file__).parents[2] / "conf" / "perdix.yaml")
    assert committed == load_product_settings(Path("absent.yaml"))


def test_bounds_clamp() -> None:
    bounds = Bounds(minimum=2, maximum=5)
    assert [bounds.clamp(n) for n in (0, 2, 4, 9)] == [2, 2, 4, 5]

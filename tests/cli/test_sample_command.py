"""``perdix sample`` as a user calls it: the document, the table, the picture, and errors in plain words."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded
from perdix.cli.sample import _show
from perdix.models.sampling.rows import newest_samples
from perdix.settings.home import Home

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"


def documented() -> set[str]:
    row = re.search(r"^\| `perdix\.sample/1` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    return set(re.findall(r"`(\w+)`", row[1]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
def test_an_operator_is_sampled_and_its_samples_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    drawn = tmp_path / "co2.png"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries' own
        result = CliRunner().invoke(app, ["sample", "co2", "--seed", "3", "--picture", str(drawn), "--json"])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    assert found.pop("schema") == "perdix.sample/1"
    assert set(found) == documented()
    kept = newest_samples(Home(tmp_path / "home").operator_samples, "co2")
    assert kept is not None
    assert found["file"] == str(kept[0])
    assert len(found["samples"]) == len(kept[1].samples)
    assert max(sample["per_s"] for sample in found["samples"]) == pytest.approx(14_700, rel=0.06)
    assert {row["why"] for row in found["failed"]} == {
        f"out of memory: killed at {row['memory_mb']:g} MB" for row in found["failed"]
    }
    assert drawn.read_bytes().startswith(b"\x89PNG")
    _show(found)
    said = capsys.readouterr().out
    assert f"co2, dsa: {len(found['samples'])} samples" in " ".join(said.split())
    assert "performance no longer grows" in said


def test_what_was_not_given_back_is_said_and_is_no_success(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    left = "what ran before could not be restored: no answer; restore it by hand"
    found: dict[str, Any] = dict.fromkeys(documented()) | {"operator": "orders", "left": left, "notes": [left]}
    found |= {"core_h": 1.0, "samples": [], "failed": [], "ended_because": "all", "file": "f"}
    monkeypatch.setattr("perdix.cli.sample._sampled", lambda *_, **__: found)
    for as_json in ((), ("--json",)):
        said = CliRunner().invoke(app, ["sample", "orders", "--live", *as_json])
        assert said.exit_code == 1
        assert said.stderr == f"{left}\n"
        assert as_json or left not in " ".join(said.stdout.split()), "it is said once"
    found["left"] = ""
    assert CliRunner().invoke(app, ["sample", "orders", "--live"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["co9"], "did you mean 'co2'?"),
        (["co1", "--method", "bisect"], "there is no sampling method 'bisect'"),
        (["co1", "--job", "../co1"], "is no name of a stream job"),
        (["co1", "--picture", "/no/such/folder/co1.png"], "make it, or write elsewhere"),
        (["co1", "--picture", "/dev/" + 300 * "a"], "cannot be written: File name too long; write elsewhere"),
        (["nosuch", "--live"], "there is no stream job 'nosuch'; known: "),
        (["nosuch", "--live", "--job", "other"], "--job other: with --live the job itself is sampled, so leave it out"),
    ],
)
def test_what_a_user_gets_wrong_is_said_before_anything_is_begun(
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    assert run_guarded(lambda: app(["sample", *arguments], standalone_mode=False), known_errors) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert "Traceback" not in said
    assert not (tmp_path / "home" / "dagster").exists(), "no stream job of that name is left behind"

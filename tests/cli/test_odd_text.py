"""Text from outside is printed as it is: brackets are no markup, and nothing of it moves the cursor."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perdix.cli import output
from perdix.cli.loop import MOST_NEWS, Log
from perdix.cli.main import app
from perdix.cli.output import UserError, console, run_guarded, styled, surviving_a_full_disk, table
from perdix.control.fleet_report import FleetReport
from perdix.control.state.journal import Status
from perdix.control.tick_io import TickReport

ODD = "[/] [bold]x[/bold] :smile: \x1b[2J half a pair \ud800"
SHOWN = r"[/] [bold]x[/bold] :smile: \x1b[2J half a pair \ud800"


def test_a_text_a_cell_a_note_and_an_error_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console.print(ODD, soft_wrap=True)
    console.print(styled("note", "yellow"), ODD, soft_wrap=True)
    table("title [/]", ["job [/]", "why"], [["ads", ODD]])

    def fails() -> None:
        raise UserError(ODD)

    assert run_guarded(fails, lambda: (UserError,)) == 2
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == SHOWN
    assert said.out.splitlines()[1] == f"note {SHOWN}"
    assert "title [/]" in said.out
    assert "job [/]" in said.out
    assert said.out.count("[bold]x[/bold]") == 3
    assert SHOWN in " ".join(said.err.split())


@pytest.mark.parametrize("width", [60, 200])
def test_a_sentence_is_not_squeezed_into_the_rest_of_a_narrow_line(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_width", width)
    monkeypatch.setattr(console, "_height", 50)
    why = "Paused: by an operator until 2026-11-29 19:58:24 UTC (load test)."
    columns = ["job", "status", "mode", "workers", "WAPE 1 min", "15 min", "why"]
    table("stream jobs", columns, [["ads", "paused", "advise", "12", "1.8 %", "-", why], ["words", *"-" * 5, ""]])
    said = capsys.readouterr().out
    assert "words: " not in said, "no line of nothing"
    assert set(why.split()) <= set(said.split())
    assert "workers" in said
    assert max(map(len, said.splitlines())) <= width


def test_numbers_stay_in_their_column_however_long_its_name_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_width", 80)
    monkeypatch.setattr(console, "_height", 50)
    columns = ["at", "mean", "p50", "p90", "p95", "what is the highest until then"]
    table("workload", columns, [["2026-06-01 08:00:01Z", 77_885.0, 77_937.0, 78_862.0, 79_171.0, 79_380.0]])
    said = capsys.readouterr().out
    assert "highest" in said
    assert "08:00:01Z: 79,380" not in said


def run_perdix(home: Path, *arguments: str, encoding: str) -> subprocess.CompletedProcess[bytes]:
    environment = {
        **os.environ,
        "PERDIX_HOME": str(home / ".perdix"),
        "PERDIX_CONF": str(home / "conf"),
        "PYTHONIOENCODING": encoding,
        "COLUMNS": "200",
    }
    return subprocess.run(
        [sys.executable, "-m", "perdix.cli.main", *arguments],
        env=environment,
        capture_output=True,
        check=False,
        timeout=120,
    )


def test_a_tick_on_a_home_full_of_odd_files_serves_the_others_and_its_exit_code_tells_of_the_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = tmp_path / "conf" / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "good.yaml").write_text("mode: advise\n", encoding="utf-8")
    (jobs / "markup.yaml").write_text("mode: '[/]'\n", encoding="utf-8")
    (jobs / "folder.yaml").mkdir()
    (jobs / os.fsdecode(b"caf\xe9.yaml")).write_text("mode: act\n", encoding="utf-8")
    (tmp_path / ".perdix" / "heartbeat.json").mkdir(parents=True)
    done = run_perdix(tmp_path, "tick", encoding="ascii")
    assert done.returncode == 1, done.stderr
    said = done.stdout.decode("ascii")
    for name in ("good", "markup", "folder", r"caf\xe9"):
        assert name in said
    assert "FAILED: heartbeat" in said
    assert "found '[/]'" in done.stderr.decode("ascii")
    (tmp_path / ".perdix" / "heartbeat.json").rmdir()
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / ".perdix"))
    monkeypatch.setenv("PERDIX_CONF", str(tmp_path / "conf"))
    healed = CliRunner().invoke(app, ["tick", "--json"])
    document = json.loads(healed.stdout)
    assert (healed.exit_code, document["faults"]) == (0, [])
    assert document["statuses"]["broken"] == 3


def test_a_tick_with_much_news_says_how_much_more_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    blind = {f"job-{k:02}": TickReport("any", Status.BLIND, f"Blind: {k}.") for k in range(MOST_NEWS + 5)}
    log = Log(as_json=False)
    for _ in range(2):
        log.tick(FleetReport(blind, started_s=0.0, finished_s=1.0))
    lines = capsys.readouterr().out.splitlines()
    assert sum("(blind)" in line for line in lines) == MOST_NEWS
    assert lines.count("  and 5 more: perdix jobs") == 1


def test_a_full_disk_under_standard_output_does_not_end_the_loop_and_a_closed_pipe_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refusing(io.StringIO):
        error = errno.ENOSPC

        def write(self, text: str) -> int:
            raise OSError(self.error, os.strerror(self.error))

    refusing = Refusing()
    monkeypatch.setattr(output.sys, "stdout", refusing)
    with surviving_a_full_disk():
        output.emit_line("perdix.controller/1", {})
    refusing.error = errno.EPIPE
    with pytest.raises(BrokenPipeError), surviving_a_full_disk():
        output.emit_line("perdix.controller/1", {})


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "standard output: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/srv/home/landing/x"), "/srv/home/landing/x: Permission"),
    ],
)
def test_a_file_that_cannot_be_used_is_no_defect_of_perdix(
    error: OSError, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.delenv("PERDIX_DEBUG", raising=False)
    assert run_guarded(fails, lambda: (UserError,)) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert words in text
    assert "defect" not in text

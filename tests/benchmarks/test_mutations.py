"""What is damaged is read with every line counted, and a reader that loses some is found."""

import json
from pathlib import Path

from benchmarks.mutations import main, mutations
from perdix.telemetry.exports.reading import ExportReading


def test_a_reader_that_drops_what_it_cannot_read_is_found(tmp_path: Path, monkeypatch):
    assert mutations(60, 7, tmp_path).failures == []
    monkeypatch.setattr(ExportReading, "_quarantine", lambda *_: None)
    found = mutations(60, 7, tmp_path).failures
    assert any("lines" in failure.problem for failure in found)


def test_the_result_is_said_in_json(capsys):
    assert main(["--count", "24", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["count"], found["failures"]) == (24, [])
    assert sum(found["formats"].values()) == 24

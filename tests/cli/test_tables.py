"""A table for people."""

from __future__ import annotations

import pytest

from perdix.cli.output import console, table


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_no_number_and_no_short_name_is_broken_however_narrow_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_width", width)
    row = ["consumer_lag_records", 1_234_567, "2,345,678", 0.0392, "0.777", "missing, not needed"]
    table("lags", ["metric", "series", "newest", "low", "high", "verdict"], [row])
    printed = capsys.readouterr().out
    for text in ("consumer_lag_records", "1,234,567", "2,345,678", "0.0392", "0.777"):
        assert text in printed

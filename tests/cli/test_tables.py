"""A table for people."""

from __future__ import annotations

import pytest

from perdix.cli.output import console, number, table


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


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0.0392, 3, "0.0392"),
        (-0.5, 2, "-0.5"),
        (180.4, 2, "180"),  # it read: 877 ± 1.8e+02
        (-180.4, 2, "-180"),
        (99.7, 2, "100"),
        (999.7, 3, "1,000"),
        (999.2, 3, "999"),
        (11_333.4, 4, "11,333"),  # it read: 1.133e+04 USD per h
        (5_486.0, 4, "5,486"),
    ],
)
def test_a_number_of_more_digits_than_are_shown_is_written_out(value: float, digits: int, shown: str) -> None:
    assert number(value, digits) == shown

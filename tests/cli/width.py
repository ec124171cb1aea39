"""How wide the consoles are: what a line says must not depend on the width that some test before had."""

from __future__ import annotations

import pytest

from perdix.cli import output

WIDE = 400


def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be wrapped until the test ends; ``COLUMNS`` is read once only, when a console is made."""
    for console in (output.console, output.complaints):
        monkeypatch.setattr(console, "_width", WIDE)
        monkeypatch.setattr(console, "_height", 50)

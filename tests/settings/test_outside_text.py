"""Text from outside can be stored and shown, and plain text stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.settings.outside_text import printable, storable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("half a pair \ud800 of UTF-16", r"half a pair \ud800 of UTF-16"),
        (b"tm-\xff".decode("utf-8", "surrogateescape"), r"tm-\xff"),
        ("\x1b[2J clears the screen", r"\x1b[2J clears the screen"),
        ("one line\rover another", r"one line\x0dover another"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("NUL\x00", r"NUL\x00"),
        ("two\nlines,\ta tab, ü, 漢, 😀 and [/]", "two\nlines,\ta tab, ü, 漢, 😀 and [/]"),
    ],
)
def test_what_no_terminal_takes_becomes_visible(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(codec=None)))
def test_whatever_comes_can_be_stored_and_is_left_alone_the_second_time(text: str) -> None:
    for clean in (storable, printable):
        once = clean(text)
        assert "\x00" not in once
        once.encode("utf-8")  # raises where it cannot
        assert clean(once) == once


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_text_that_can_be_stored_is_not_changed(text: str) -> None:
    assert storable(text) == text

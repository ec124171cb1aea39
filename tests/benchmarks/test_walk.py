"""The page for new engineers names what is on the stack when a target is asked, and it is not far."""

from pathlib import Path

from benchmarks.walk import to_request

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "architecture.md"


def test_a_tick_is_few_calls_from_its_request_and_the_page_has_each() -> None:
    calls, page = to_request(), PAGE.read_text(encoding="utf-8")
    assert 5 < len(calls) <= 25
    assert f"{len(calls)} calls in {len({file for file, _ in calls})} files" in page
    rows = {line.split("|")[1].strip(" `"): line for line in page.splitlines() if line.startswith("| `")}
    assert [call for call in calls if f"`{call[1]}`" not in rows.get(call[0], "")] == []

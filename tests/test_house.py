"""What keeps the house readable, held by the test command: rooms instead of prefixes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOUSE = ("perdix", "assets", "models", "pipelines", "benchmarks", "testbed")


def test_no_three_siblings_share_a_prefix() -> None:
    """Three modules that begin with one word are a package that nobody made."""
    found = []
    for folder in sorted({file.parent for top in HOUSE for file in (ROOT / top).rglob("*.py")}):
        words = Counter(file.stem.split("_")[0] for file in folder.glob("*.py") if file.stem != "__init__")
        found += [f"{folder.relative_to(ROOT)}: {word}_*" for word, count in words.items() if count >= 3]
    assert found == []


def test_every_package_says_what_belongs_in_it() -> None:
    packages = [file for top in HOUSE for file in (ROOT / top).rglob("__init__.py")]
    assert packages
    assert [str(file.relative_to(ROOT)) for file in packages if not file.read_text(encoding="utf-8").strip()] == []

"""What keeps the house readable, held by the test command: rooms instead of prefixes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
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


def bodies(file: Path) -> Iterator[tuple[str, int]]:
    """Name and lines of each function of a module, beside its parameters and its docstring."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0]
            yield node.name, (node.end_lineno or 0) - first.lineno + 1


def test_no_function_does_more_than_sixty_lines() -> None:
    files = [file for top in HOUSE for file in (ROOT / top).rglob("*.py")]
    assert [f"{file.relative_to(ROOT)}: {name}" for file in files for name, lines in bodies(file) if lines > 60] == []


def programs(file: Path) -> Iterator[str]:
    """Imports of perdix in a module's texts: programs that other processes run, which no checker of types reads."""
    text = file.read_text(encoding="utf-8")
    if not re.search(r"""["'].*(from|import) perdix""", text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"from perdix[\w.]* import [\w, ]+|import perdix[\w.]*\w", node.value)


def works(program: str) -> bool:
    try:
        exec(program, {})
    except ImportError:
        return False
    return True


def test_programs_in_texts_import_what_exists() -> None:
    """A program of an end-to-end test named modules that had moved, and nothing read it before it ran."""
    files = [file for top in (*HOUSE, "tests") for file in (ROOT / top).rglob("*.py")]
    asked = [(file, program) for file in files for program in programs(file)]
    assert len(asked) > 5
    assert [f"{file.relative_to(ROOT)}: {program}" for file, program in asked if not works(program)] == []


def test_nothing_that_is_looped_over_or_given_is_called_one() -> None:
    """``for one in rows`` leaves a reader to guess; ``for row in rows`` does not. Likewise ``lambda one: one.name``."""
    found = []
    for file in (file for top in (*HOUSE, "tests") for file in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.For | ast.comprehension):
                names = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
                found += [f"{file.relative_to(ROOT)}:{node.target.lineno}"] * ("one" in names)
            elif isinstance(node, ast.arg) and node.arg == "one":
                found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert found == []

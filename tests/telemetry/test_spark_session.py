"""What a session is started with."""

from __future__ import annotations

import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

from perdix.settings.home import Home
from perdix.telemetry.spark.session import spark_conf


def test_only_a_local_session_that_ends_soon_is_started_for_seconds(tmp_path):
    def options(master: str, *, short_lived: bool) -> str:
        made = spark_conf(master, Home(tmp_path).make(), short_lived=short_lived)
        return made["spark.driver.extraJavaOptions"]

    assert "-XX:TieredStopAtLevel=1" in options("local[*]", short_lived=True)
    assert "log4j2" in options("local[*]", short_lived=True)
    assert "TieredStopAtLevel" not in options("local[*]", short_lived=False)
    assert "TieredStopAtLevel" not in options("spark://m:7077", short_lived=True)


def test_a_home_with_spaces_stays_one_word_for_java(tmp_path):
    """Spark's launcher splits the options as a shell does."""
    made = spark_conf("local[*]", Home(tmp_path / "Ada's own project").make())
    (word,) = shlex.split(made["spark.driver.extraJavaOptions"])
    place = unquote(urlsplit(word.partition("=")[2]).path)
    assert Path(place).read_text(encoding="utf-8").startswith("# Written by perdix")

"""Fixtures of every package's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from settings.home import Home
from telemetry.spark_session import spark_session


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Measured data beside the project; the test is skipped where it is absent."""
    folder = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no measured data beside the project")
    return folder.resolve()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One Spark session for the whole test run: starting it takes ten seconds."""
    home = Home(tmp_path_factory.mktemp("spark-home")).make()
    session = spark_session(home, "local[2]", {"spark.driver.memory": "1g"})
    yield session
    session.stop()

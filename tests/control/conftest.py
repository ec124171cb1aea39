"""A fresh state store per test: SQLite always, PostgreSQL too where ``PERDIX_TEST_POSTGRES_URL`` names a server."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.storm.disk import own_schema
from perdix.control.state.store import StateStore

POSTGRES = os.environ.get("PERDIX_TEST_POSTGRES_URL")


@pytest.fixture(params=["sqlite", "postgresql"] if POSTGRES else ["sqlite"])
def state_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database (on PostgreSQL: of an empty schema, dropped afterwards)."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'made on first use' / 'state.db'}"
        return
    assert POSTGRES
    with own_schema(POSTGRES) as url:
        yield url


@pytest.fixture
def store(state_url: str) -> Iterator[StateStore]:
    """An empty state store."""
    opened = StateStore(state_url)
    yield opened
    opened.close()

"""A fresh state store per test: SQLite always, PostgreSQL too where ``PERDIX_TEST_POSTGRES_URL`` names a server."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from perdix.control.state.store import StateStore

POSTGRES = os.environ.get("PERDIX_TEST_POSTGRES_URL")


@pytest.fixture(params=["sqlite", "postgresql"] if POSTGRES else ["sqlite"])
def state_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database (on PostgreSQL: of an empty schema, dropped afterwards)."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'made on first use' / 'state.db'}"
        return
    assert POSTGRES
    schema = f"perdix_{uuid.uuid4().hex}"
    engine = sa.create_engine(POSTGRES, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.schema.CreateSchema(schema))
    try:
        url = sa.make_url(POSTGRES).update_query_dict({"options": f"-csearch_path={schema}"})
        yield url.render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(sa.schema.DropSchema(schema, cascade=True))
        engine.dispose()


@pytest.fixture
def store(state_url: str) -> Iterator[StateStore]:
    """An empty state store."""
    opened = StateStore(state_url)
    yield opened
    opened.close()

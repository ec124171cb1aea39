"""A PostgreSQL that freezes, is slow or never answers costs seconds, not the loop.

The server of ``PERDIX_TEST_POSTGRES_URL`` stands behind a proxy on loopback that freezes when it is told to: its
connections stay open, and nothing comes back any more.
"""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from benchmarks.storm.disk import own_schema
from perdix.control.state.postgresql import Limits, engine_of
from perdix.control.state.schema import StateError
from perdix.control.state.store import StateStore
from tests.control.conftest import POSTGRES

needs_server = pytest.mark.skipif(not POSTGRES, reason="PERDIX_TEST_POSTGRES_URL names no server")
QUICK = Limits(connect_s=2, statement_s=0.4, answer_s=0.8)


class Proxy:
    """Between client and server, one thread per direction of each connection."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._thawed = threading.Event()
        self._thawed.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def close(self) -> None:
        self.thaw()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._open += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                self._thawed.wait()
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for connection in (source, sink):
                connection.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    assert POSTGRES
    url = sa.make_url(POSTGRES)
    made = Proxy(url.host or "127.0.0.1", url.port or 5432)
    yield made
    made.close()


def through(proxy: Proxy) -> sa.URL:
    assert POSTGRES
    return sa.make_url(POSTGRES).set(host="127.0.0.1", port=proxy.port)


@needs_server
def test_a_server_that_freezes_costs_one_answer_and_serves_again_once_it_thaws(proxy: Proxy) -> None:
    engine = engine_of(through(proxy), QUICK)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    proxy.freeze()
    began_s = time.monotonic()
    with pytest.raises(sa.exc.OperationalError, match=r"no answer within|connection timeout"):
        engine.connect()  # which asks whether the kept connection is alive
    assert time.monotonic() - began_s < 6.0
    proxy.thaw()
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()


@needs_server
def test_a_server_that_freezes_in_the_middle_of_a_transaction_costs_one_answer(proxy: Proxy) -> None:
    engine = engine_of(through(proxy), QUICK)
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT 1"))
        proxy.freeze()
        began_s = time.monotonic()
        with pytest.raises(sa.exc.OperationalError, match="no answer within"):
            connection.execute(sa.text("SELECT 2"))
    assert time.monotonic() - began_s < 3.0
    engine.dispose()


@needs_server
def test_a_statement_that_takes_too_long_is_ended_by_the_server_and_its_connection_stays(proxy: Proxy) -> None:
    engine = engine_of(through(proxy), QUICK)
    with engine.connect() as connection:
        with pytest.raises(sa.exc.OperationalError, match="statement timeout"):
            connection.execute(sa.text("SELECT pg_sleep(5)"))
        connection.rollback()
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()


def test_a_server_that_accepts_and_never_says_a_word_is_no_store() -> None:
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began_s = time.monotonic()
        url = f"postgresql+psycopg://me@127.0.0.1:{silent.getsockname()[1]}/perdix?connect_timeout=2"
        with pytest.raises(StateError, match="PERDIX_STATE_URL"):
            StateStore(url)
        assert time.monotonic() - began_s < 6.0


@needs_server
def test_a_schema_that_somebody_holds_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that leaves a connection open ended never, and nothing said where."""
    assert POSTGRES
    monkeypatch.setattr("benchmarks.storm.disk.CLOSES_S", 1)
    schema = own_schema(POSTGRES)
    engine = sa.create_engine(schema.__enter__())
    with engine.connect() as held:
        held.execute(sa.text("CREATE TABLE left_open (id int)"))
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            schema.__exit__(None, None, None)
    engine.dispose()

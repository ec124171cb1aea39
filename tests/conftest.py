"""Fixtures of every package's tests."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa

from perdix.settings.home import Home
from perdix.telemetry.spark.session import spark_session
from tests.telemetry.wire_server import Wire, answer_of

# No deadline per example, and none for making them: other work on the same cores would decide whether a test passes.
# The same examples each time, so that a change is judged by what it changed; `make explore` tries new ones, and more.
_CALM: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("same", derandomize=True, max_examples=40, **_CALM)
hypothesis.settings.register_profile("explore", derandomize=False, max_examples=200, print_blob=True, **_CALM)
hypothesis.settings.load_profile("same")


@sa.event.listens_for(sa.engine.Engine, "connect")
def _wait_for_no_disk(connection: Any, _record: Any) -> None:
    """Let commits of Dagster and MLflow wait for no disk: no test cuts the power. perdix' own state does it its way."""
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.Error):  # of a file that is no database: who opened it is to find out
            connection.execute("PRAGMA synchronous = OFF")


_MEMORY, _ROOM = Path("/dev/shm"), 2 * 2**30  # bytes: several times what a run leaves there


def _is_fit(folder: Path) -> bool:
    """Whether tests may work in a folder: it is ours to write to, has room, and programs in it may be run."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    place = os.statvfs(folder)
    return place.f_bavail * place.f_frsize >= _ROOM and not place.f_flag & os.ST_NOEXEC


if _is_fit(_MEMORY):  # where pytest makes its folders: a new state store takes twice as long on a disk as in memory
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def pytest_configure(config: pytest.Config) -> None:
    """Let processes look started as ``python -m pytest`` in the foreground is.

    pyspark.sql.connect ends a process whose main module has neither file nor specification, and that of a worker of
    ``make test`` has none.
    """
    if hasattr(config, "workerinput"):
        sys.modules["__main__"].__spec__ = find_spec("pytest.__main__")
    # A shell lets its background jobs ignore Ctrl-C. Dagster treats SIGTERM likewise, and what tests start inherits it:
    # then each process that is asked to end is waited for.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def in_a_terminal() -> Iterator[None]:
    """Let a closed terminal end what runs, as it does unless nohup started it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, and in none of it later: the tests go faster by a tenth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _still_frozen() -> Iterator[None]:
    """Let replays in this process freeze and thaw nothing: afterwards all would be searched again."""
    idle = SimpleNamespace(freeze=lambda: None, unfreeze=lambda: None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("perdix.replay.side_by_side.gc", idle)
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker of ``make test``: files with Spark tests first, then those with slow ones, lest one begins last."""
    if hasattr(config, "workerinput"):
        spark, slow = ({item.path for item in items if item.get_closest_marker(name)} for name in ("spark", "slow"))
        items.sort(key=lambda item: (item.path not in spark, item.path not in slow))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let what a test logged be sent to another process, odd text included: half a pair of surrogates has no bytes."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep a file in one worker (its fixtures are made once), and all files with Spark tests in the same (one JVM).

    By their text, because markers do not reach the scheduler: ``--dist loadgroup`` of pytest-xdist 3.8 groups nothing
    under pytest 9.2.
    """
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - plain pytest runs without it

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", maxsplit=1)[0]
            return "spark" if _starts_spark(config.rootpath / file) else file

    return ByFile(config, log)


@functools.cache
def _starts_spark(file: Path) -> bool:
    return "pytest.mark.spark" in file.read_text()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Measured data beside the project; the test is skipped where it is absent."""
    folder = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no measured data beside the project")
    return folder.resolve()


@pytest.fixture(scope="session")
def home_at(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Home]:
    """Make a home in a folder, with MLflow's tables: making these takes seconds, copying them nothing."""
    from perdix.models.registry import tracking  # noqa: PLC0415 - a second of import that most tests need not pay

    empty = tmp_path_factory.mktemp("mlflow") / "empty.db"
    tracking.client(f"sqlite:///{empty}")

    def made(folder: Path) -> Home:
        home = Home(folder).make()
        shutil.copy(empty, home.root / "mlflow.db")
        return home

    return made


@pytest.fixture
def proxy_without_mlflow() -> Iterator[str]:
    """Address of a proxy that has lost the MLflow behind it: it answers whatever is asked with a 404 of its own."""
    wire = Wire(answer_of(b"404 page not found", status=b"404 Not Found"))
    yield wire.url
    wire.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One Spark session for the whole test run: starting it takes ten seconds."""
    home = Home(tmp_path_factory.mktemp("spark-home")).make()
    session = spark_session(home, "local[2]", {"spark.driver.memory": "1g"}, short_lived=True)
    yield session
    session.stop()

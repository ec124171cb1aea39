"""``perdix dev`` as a child that leaves nobody behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from perdix.settings.home import HOME_VARIABLE, PROJECT

STARTS_S = 600.0  # half a minute where nothing else runs
ENDS_S = 120.0
_OTHERS = ("PERDIX_CONF", "PERDIX_STATE_URL", "MLFLOW_TRACKING_URI", "DAGSTER_HOME")  # would lead out of the home


@dataclass(frozen=True)
class DevServers:
    """Where the servers listen.

    Attributes
    ----------
    hours
        How much past the twin has.
    experiments
        Fleet model -> the page of its trainings that is printed.
    """

    dagster: str
    mlflow: str
    jobs: tuple[str, ...]
    hours: float
    experiments: Mapping[str, str]


@contextmanager
def dev_servers(
    home: Path, hours: float, *, program: Path | None = None, folder: Path = PROJECT
) -> Iterator[DevServers]:
    """Run ``perdix dev`` in a folder, on free ports with an empty home, and end it as Ctrl-C does.

    Raises
    ------
    AssertionError
        When it does not start, and when a process outlives it; that process is ended, too.
    """
    home.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    command = [str(program or Path(sys.executable).with_name("perdix")), "dev", "--hours", str(hours), "--json"]
    said, complaints = home / "dev.json", home / "dev.log"
    with said.open("wb") as out, complaints.open("wb") as err:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, HOME_VARIABLE: str(home)},
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        document = _document(child, said, complaints)
        urls = document["urls"]
        yield DevServers(urls["dagster"], urls["mlflow"], tuple(document["jobs"]), hours, document["experiments"])
    finally:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        outlived = _processes_of(home)
        for pid in outlived:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not outlived, f"outlived perdix dev: {outlived}"


def _document(child: subprocess.Popen[bytes], said: Path, complaints: Path) -> dict[str, object]:
    """Return what ``perdix dev`` says once all of its servers answer."""
    deadline = time.monotonic() + STARTS_S
    while time.monotonic() < deadline:
        assert child.poll() is None, f"perdix dev ended with {child.returncode}: {complaints.read_text()[-3000:]}"
        with suppress(json.JSONDecodeError):
            return json.loads(said.read_text())
        time.sleep(0.5)
    raise AssertionError(f"perdix dev did not start within {STARTS_S:.0f} s: {complaints.read_text()[-3000:]}")


def _processes_of(home: Path) -> dict[int, str]:
    """Return the processes that live in this home, by their environment: pid -> command."""
    mark = f"{HOME_VARIABLE}={home}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    return found

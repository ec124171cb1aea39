"""A twin behind real HTTP in the machine's own time, and a controller in a process of its own that looks at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from perdix.control.clock import WallClock
from perdix.settings.home import PROJECT
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin
from perdix.twin.prometheus_face import PrometheusFace
from perdix.twin.workloads import arrivals_from
from tests.control.rig import HIGH, constant, parameters

Found = TypeVar("Found")


@contextmanager
def twin_face() -> Iterator[PrometheusFace]:
    """Serve the twin ``orders``: two workers, a load of a quarter of what is high, half an hour of past."""
    clock = WallClock()
    start_s = int(clock.now_s()) - 1_800
    made = parameters().model_copy(update={"name": "orders"})
    twin = JobTwin(made, 3, start_s=start_s, scale_out=2, arrivals=arrivals_from(constant(HIGH / 4), start_s))
    with PrometheusFace(LivingTwin({"orders": twin}, clock, scraping=Scraping(interval_s=5.0))) as face:
        yield face


@contextmanager
def controller(home: Path, where: Mapping[str, str]) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Let ``perdix controller`` run meanwhile, and kill it; yields what returns the documents of its ticks so far.

    ``where``: variables of its environment beside the home's.
    """
    log, complaints = home.parent / "controller.jsonl", home.parent / "controller.err"
    command = [sys.executable, "-m", "perdix.cli.main", "controller", "--interval", "2", "--json"]
    with log.open("w") as out, complaints.open("w") as err:
        environment = {**os.environ, "PERDIX_HOME": str(home), **where}
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=out, stderr=err)
        try:
            yield lambda: [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
            assert process.poll() is None, complaints.read_text()[-2_000:]
        finally:
            process.kill()
            process.wait()


def until(looked: Callable[[], Found], seconds: float, what: str) -> Found:
    """Look until something is there, and return it."""
    began_s = time.monotonic()
    while not (found := looked()):
        assert time.monotonic() - began_s < seconds, f"{what} did not come within {seconds:.0f} s"
        time.sleep(0.3)
    return found

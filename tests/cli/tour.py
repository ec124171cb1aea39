"""The README's tour: its commands as printed, and what each must print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from perdix.cli.processes import free_port

PROJECT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Promise:
    """What a command prints (``said``), and whether it is tried by ``make e2e`` only because it takes long."""

    said: str
    slow: bool = False


# Command without its comment -> what it must print. A command that is not here fails the test.
PROMISED = {
    "python -m perdix.twin.serve --job ads --port 9099 --hours 8 &": Promise("ads at http://127.0.0.1:9099"),
    "perdix ingest conf/examples/exports --job ads": Promise("15,580 read = 15,278 kept + 302 masked + 0 quarantined"),
    "perdix capacity ads --cpu-below 0.7": Promise("how it is known"),
    "perdix train --job ads": Promise("perdix-forecast version 1", slow=True),
    "perdix forecast ads": Promise("(champion version 1)", slow=True),
    "perdix scan http://127.0.0.1:9099 --prices aws-ec2-us-east-1 --html savings.html": Promise("1 of 1 jobs judged"),
    "cp conf/examples/ads.yaml conf/jobs/": Promise(""),
    "perdix ingest --from-prometheus --job ads --days 1": Promise("next: perdix train"),
    "perdix tick": Promise("1 advise"),
    "perdix jobs": Promise("ads │ advise │ advise"),
    "perdix explain ads": Promise("by perdix, advice only"),
    "perdix rescales": Promise("in 24 h: "),
    'perdix pause ads --for 6h --why "load test"': Promise("ads is paused until"),
    "perdix controller --ticks 2 --interval 5": Promise("1 paused"),
    "perdix metrics --once": Promise('perdix_desired_scale_out{stream_job="ads"}'),
    "perdix doctor": Promise("prometheus http://127.0.0.1:9099: answers", slow=True),
    "perdix replay --workload conf/examples/workload.csv --peak-utilisation 0.75 --policy perdix,hpa-80,static-12"
    " --hours 2": Promise("x clairvoyant bound", slow=True),
    "perdix replay --workload ads --policy daedalus,flink-autoscaler,hpa-80:target_cpu=0.6 --failures 2 --hours 2"
    " --json replay.json": Promise("replay.json", slow=True),
    "perdix profile ysb": Promise("highest rate", slow=True),
    "perdix replay --workload ysb --policy phoebe,twres,static-24 --hours 2 --recovery-time 180": Promise(
        "profiling before, worker-h", slow=True
    ),
    "perdix sample co1 --picture co1.png": Promise("picture: co1.png", slow=True),
    "perdix replay --twin enrich --policy qescalor,cba-medium --hours 1": Promise("cba-medium", slow=True),
    "perdix replay --workload ads --policy visp,hpa-80 --prices azure-east-us --hours 2": Promise(
        "host-hours paid", slow=True
    ),
    "perdix prices aws-ec2-us-east-1 --worker-cpu 1 --worker-memory 4096 --workers 12": Promise("is cheapest"),
    "perdix replay operators nexmark-q5 --policy ds2,dhalion": Promise("dhalion", slow=True),
    "perdix replay hosts manufacturing --pattern stepwise --policy btu:unit_min=60,threshold": Promise(
        "threshold", slow=True
    ),
    "perdix ds2 --topology conf/examples/ds2/topology.csv --rates conf/examples/ds2/rates"
    " --sources conf/examples/ds2/source-rates.csv": Promise("parallelism (last of 3 epochs)"),
}


def tour(readme: str | None = None) -> list[str]:
    """Return the commands of the tour's fenced blocks, in order, without their comments."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8") if readme is None else readme
    section = text.split("\n## A five-minute tour\n", 1)[1].split("\n## ", 1)[0]
    return [command for block in FENCED.findall(section) for command in _commands(block)]


def _commands(block: str) -> Iterator[str]:
    for line in block.splitlines():
        command = re.sub(r"\s+# .*$", "", line).strip()
        if command:
            yield command


def words(command: str) -> list[str]:
    """Return the words of a command as a shell would."""
    return shlex.split(command.removesuffix("&"))


@dataclass(frozen=True)
class Clone:
    """What the tour needs of a fresh clone, with a home of its own; the simulator listens at a port that is free."""

    folder: Path
    environment: Mapping[str, str]
    port: int
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def here(self, text: str) -> str:
        """Return a command, or what it prints, with the port that was free."""
        return text.replace("9099", str(self.port))

    def shell(self, command: str) -> str:
        """Run a command in a shell as it is printed, and return what it printed."""
        environment = {**os.environ, **self.environment}
        if command.endswith("&"):
            return self._started(self.here(command), environment)
        done = subprocess.run(
            ["bash", "-c", self.here(command)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1_200,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return " ".join((done.stdout + done.stderr).split())

    def _started(self, command: str, environment: Mapping[str, str]) -> str:
        log = self.folder / "background.log"
        with log.open("wb") as stream:
            child = subprocess.Popen(words(command), cwd=self.folder, env=environment, stdout=stream, stderr=stream)
        self.running.append(child)
        until = time.monotonic() + 240
        while not log.read_bytes() and child.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        return log.read_text().replace(str(self.port), "9099")


@contextmanager
def clone_of(folder: Path) -> Iterator[Clone]:
    """Copy what a fresh clone holds, and end what ran in the background."""
    port = free_port(9099)
    shutil.copytree(PROJECT / "conf", folder / "conf")
    job = folder / "conf" / "examples" / "ads.yaml"
    job.write_text(job.read_text().replace("9099", str(port)))
    programs = folder / "bin"
    programs.mkdir()
    (programs / "perdix").write_text(
        f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c 'from perdix.cli.main import main; main()' \"$@\"\n"
    )
    (programs / "perdix").chmod(0o755)
    made = Clone(
        folder,
        {
            "PERDIX_HOME": str(folder / ".perdix"),
            "PERDIX_CONF": str(folder / "conf"),
            "PYTHONPATH": str(PROJECT),
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "200",
        },
        port,
    )
    try:
        yield made
    finally:
        for child in made.running:
            child.send_signal(signal.SIGTERM)
        for child in made.running:
            child.wait(30)

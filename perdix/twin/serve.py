"""``python -m perdix.twin.serve``: the twins of ``conf/twins`` on the machine's clock, until Ctrl-C or SIGTERM."""

import argparse
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from perdix.settings.yaml_files import SettingsError
from perdix.twin.emission import Scraping
from perdix.twin.living import revive
from perdix.twin.parameters import TwinParameters, load_demo_twins, load_twin
from perdix.twin.prometheus_face import PrometheusFace


class MachineClock:
    """The machine's clock: this module is the edge at which the twin meets it."""

    def now_s(self) -> float:
        """Return epoch seconds (UTC)."""
        return time.time()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        jobs = _jobs(options.job, options.conf)
        scraping = Scraping(options.scrape_interval)
        living = revive(jobs, MachineClock(), seed=options.seed, hours=options.hours, scraping=scraping)
        face = PrometheusFace(living, host=options.host, port=options.port)
    except (SettingsError, OSError, ValueError) as error:
        print(f"twin: {error}", file=sys.stderr)  # noqa: T201 - a command speaks to its user
        return 1
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with face:
        print(f"twin: {', '.join(living.names())} at {face.url} (Ctrl-C ends it)", flush=True)  # noqa: T201
        while not stop.wait(5.0):
            living.advance()  # so that hours without a visitor do not pile up for the next one
    return 0


def _jobs(names: Sequence[str], folder: Path | None) -> dict[str, TwinParameters]:
    jobs = {name: load_twin(name, folder) for name in names} if names else load_demo_twins(folder)
    if not jobs:
        raise SettingsError(f"{folder or 'conf/twins'}: no twin is described here; add <name>.yaml")
    return jobs


def _within(least: int, most: int, kind: Callable[[str], float] = int) -> Callable[[str], float]:
    """Return what reads a number from ``least`` to ``most``."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not from {least} to {most}")
        return value

    return read


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perdix.twin.serve", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    parser.add_argument("--port", type=_within(0, 65_535), default=0, help="port to listen on (default: a free one)")
    parser.add_argument(
        "--hours", type=_within(0, 336, float), default=6.0, help="hours of history before now (default: 6)"
    )
    parser.add_argument(
        "--seed", type=_within(0, 2**32), default=7, help="the same seed gives the same twins (default: 7)"
    )
    parser.add_argument(
        "--scrape-interval", type=_within(1, 3_600, float), default=5.0, help="seconds between scrapes (default: 5)"
    )
    parser.add_argument(
        "--job", action="append", default=[], help="a twin of conf/twins; repeat for more (default: those of the demo)"
    )
    parser.add_argument("--conf", type=Path, default=None, help="folder of twins instead of conf/twins")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Jobs that nobody tuned to, under every policy, against the best fixed size of each.

Run ``make zoo SEED=11 JOBS=40 JSON=zoo.json``, or ``python -m benchmarks.zoo --seed 11 --jobs 40``. A second call goes
on where the first was broken off. ``--job 17 --policy daedalus`` plays that one job and draws its course. How to read
it: docs/zoo.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from benchmarks.measured import DATA
from benchmarks.zoo.campaign import Campaign
from benchmarks.zoo.contenders import contender_of, usual_policies
from benchmarks.zoo.document import document
from benchmarks.zoo.single import play_single
from benchmarks.zoo.text import show
from perdix.cli.output import complaints, console
from perdix.cli.replay.job_text import progress_bar
from perdix.replay.frontier import FRONTIER
from perdix.settings.home import Home
from perdix.settings.yaml_files import SettingsError
from perdix.twin.regimes import load_regime

MANY_WORKERS = 1_000  # more than any job has: a label is checked before its job is known
LEAST_HOURS, MOST_HOURS = 0.1, 720.0
FRONTIER_HOURS = 24.0  # of 60 workers: half a gigabyte


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    policies = asked.policy.split(",") if asked.policy else list(usual_policies())
    wrong = _wrong(asked, policies)
    if wrong:
        complaints.print(wrong, highlight=False, soft_wrap=True)
        return 2
    folder = Path(asked.folder) if asked.folder else Home.from_environment().root / "zoo"
    jobs = range(asked.jobs) if asked.job is None else [asked.job]
    campaign = Campaign(asked.seed, jobs, policies, asked.hours, folder, Path(asked.data), asked.regime)
    if asked.job is not None:
        return play_single(campaign)
    try:
        with progress_bar(campaign.left() * 3600.0 * asked.hours) as tell:
            rows = campaign.run(processes=asked.processes, on_progress=tell)
    except KeyboardInterrupt:
        complaints.print(f"interrupted; the same command goes on ({campaign.left()} replays are left)", highlight=False)
        return 130
    found = document(campaign, rows)
    if asked.json:
        Path(asked.json).write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))
    show(found)
    if asked.json:
        console.print(f"figures: {asked.json}", highlight=False)
    return 1 if found["failed"] else 0


def _wrong(asked: argparse.Namespace, policies: Sequence[str]) -> str:
    """Return what cannot be, found out before hours of work and not after; empty when all is well."""
    try:
        for policy in policies:
            contender_of(policy, MANY_WORKERS)
        if asked.regime is not None:
            load_regime(asked.regime)
    except SettingsError as error:
        return str(error)
    if asked.jobs < 1 or asked.seed < 0 or (asked.job or 0) < 0:
        return "--seed and --job are counted from 0, --jobs from 1"
    if not LEAST_HOURS <= asked.hours <= MOST_HOURS:
        return f"--hours must be from {LEAST_HOURS:g} to {MOST_HOURS:g}, found {asked.hours:g}"
    if FRONTIER in policies and asked.hours > FRONTIER_HOURS:
        return f"the {FRONTIER} is worked out for up to {FRONTIER_HOURS:g} hours: leave it out, or ask for fewer"
    if asked.json:
        try:
            Path(asked.json).open("a").close()
        except OSError as error:
            return f"--json {asked.json}: cannot be written ({error.strerror}); name another file"
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--jobs", type=int, default=40, help="jobs 0 to JOBS - 1 of the seed")
    parser.add_argument("--job", type=int, default=None, help="only this one, with its course")
    parser.add_argument("--policy", "--policies", default=None, help=f"default {','.join(usual_policies())}")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--regime", default=None, help="what rescales cost (conf/regimes); by default as drawn")
    parser.add_argument("--json", default=None, help="file for the figures")
    parser.add_argument("--folder", default=None, help="of results and pictures; default PERDIX_HOME/zoo")
    parser.add_argument("--data", default=str(DATA), help="folder of real traces")
    parser.add_argument("--processes", type=int, default=None, help="at a time; default as many as cores")
    return parser


if __name__ == "__main__":
    sys.exit(main())

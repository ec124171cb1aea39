"""The demo's comparison, begun at other hours of the day: how often a job is above its error budget.

Run ``python -m benchmarks.demo_hours --seed 11 --every-h 2``. ``perdix demo`` begins when it is called, so that its
figures go with the time of day; here each of its jobs is played for as many hours from every second hour on, without
the champions that the demo trains before.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import fmean

from benchmarks.harness import markdown
from perdix.cli.demo.comparison import HOURS, PERDIX, SETTLE_S
from perdix.replay.case import START_S, Case
from perdix.replay.contenders import contender
from perdix.replay.outcome import Outcome
from perdix.replay.run import play
from perdix.twin.job import JobTwin
from perdix.twin.parameters import load_demo_twins
from perdix.twin.tending import tend

HOUR_S, DAY_S, PAST_H = 3_600, 86_400, 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--every-h", type=int, default=2)
    asked = parser.parse_args()
    twins, midnight_s = load_demo_twins(), START_S - START_S % DAY_S
    begins = [midnight_s + HOUR_S * hour for hour in range(0, 24, asked.every_h)]
    with ProcessPoolExecutor() as pool:
        markdown(
            _row(name, list(pool.map(_played, [name] * len(begins), begins, [asked.seed + number] * len(begins))))
            for number, name in enumerate(twins)
        )
    return 0


def _played(name: str, begin_s: int, seed: int) -> Outcome:
    parameters = load_demo_twins()[name]
    twin = JobTwin(parameters, seed, start_s=begin_s)
    tend(twin, PAST_H * HOUR_S - SETTLE_S)
    twin.step(SETTLE_S)
    return play(Case(contender(PERDIX), name, parameters, seed, HOURS), twin=twin).outcome


def _row(name: str, outcomes: Sequence[Outcome]) -> dict[str, str]:
    late = [outcome.share_above_objective for outcome in outcomes]
    above = sum(outcome.share_above_objective > outcome.error_budget for outcome in outcomes)
    return {
        "job": name,
        "late, mean": f"{fmean(late):.1%}",
        "at most": f"{max(late):.1%}",
        "above its budget": f"{above} of {len(late)}",
        "workers": f"{fmean(outcome.average_workers for outcome in outcomes):.2f}",
    }


if __name__ == "__main__":
    raise SystemExit(main())

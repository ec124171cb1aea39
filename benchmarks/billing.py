"""What policies cost when hosts are billed per second, minute, 10 or 30 minutes, or hour, by when hosts are given back.

Run ``python -m benchmarks.billing [--workload wordcount] [--policies LIST] [--seeds 3] [--hours 4] [--prices NAME]
[--instance-type m6i.large] [--json]``. Each policy is replayed once per seed; what is deployed is then billed in every
way, at the same price per hour, so that only the billing differs. At the end: how long a course of 24 h takes to bill.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.harness import Row, complain, grouped, markdown, options, seconds, seeds_of, spread, write_json
from perdix.models.billing.bill import Bill, Demand, bill
from perdix.models.billing.leases import Release
from perdix.models.billing.packing import Resources
from perdix.replay.asked import twin_and_trace
from perdix.replay.campaign import Campaign, Setup, run_campaign
from perdix.replay.contenders import contenders
from perdix.replay.part import part_of
from perdix.replay.pricing import Pricing, priced
from perdix.settings.prices import Billing, PriceList, load_prices
from perdix.settings.stream_job import Bounds

POLICIES = "daedalus,hpa-80:tick_s=60,flink-autoscaler:tick_s=60,static-12"
BILLINGS: Mapping[str, Billing] = {
    "second": Billing(unit_s=1, minimum_s=60),
    "minute": Billing(unit_s=60),
    "10 min": Billing(unit_s=600),
    "30 min": Billing(unit_s=1_800),
    "hour": Billing(unit_s=3_600),
}
RELEASES: Mapping[str, Release] = {
    "at once": Release("at-once"),
    "after 10 min": Release("at-once", 600.0),
    "end of unit": Release("end-of-unit"),
}
WORKER = Resources(1.0, 2048.0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__, seeds=3)
    parser.add_argument("--workload", default="wordcount")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--prices", default="aws-ec2-us-east-1")
    parser.add_argument("--instance-type", default="m6i.large")
    parser.add_argument("--processes", type=int, default=None)
    asked = parser.parse_args(arguments)
    prices = load_prices(asked.prices)
    prices.check_type(asked.instance_type)
    campaign = _campaign(asked)
    complain(campaign.failed)
    rows = list(_rows(campaign, prices, asked.instance_type))
    times = list(_times(prices))
    if asked.json:
        write_json({"rows": rows, "times": times})
        return 0
    least = priced(campaign.played, campaign.clairvoyants, Pricing(prices, WORKER, asked.instance_type)).at_least
    print(
        f"{campaign.setup.trace.name}, {asked.hours:g} h, {asked.seeds} seeds, {prices.name} {asked.instance_type}, "
        f"{WORKER} per worker\ncost in {prices.currency} (mean ± sd), share for cores that no worker had, leases; "
        f"nobody gets below {np.mean(list(least.values())):.2f}\n"
    )
    lines = grouped(rows, lambda row: (row["policy"], row["billed_per"])).values()
    cell = "{cost:.2f} ± {cost_sd:.2f}, {wasted_share:.0%}, {leases:.0f}"
    markdown(
        {"policy": line[0]["policy"], "billed per": line[0]["billed_per"]}
        | {row["released"]: cell.format(**row) for row in line}
        for line in lines
    )
    print("\nmilliseconds of processor time to bill a course of 24 h on one instance type (best of 5)")
    for timed in times:
        print(f"  {timed['course']}: " + ", ".join(f"{name} {timed[name]:.1f}" for name in RELEASES))
    return 0


def _campaign(asked: argparse.Namespace) -> Campaign:
    parameters, trace = twin_and_trace(asked.workload, None, round(3600 * asked.hours))
    trace, _ = part_of(trace, asked.hours)
    bounds = Bounds(minimum=1, maximum=parameters.workers.maximum)
    setup = Setup(
        contenders(asked.policies, bounds),
        trace,
        parameters,
        bounds,
        seeds=tuple(seeds_of(asked)),
        hours=asked.hours,
        peak_utilisation=trace.peak_utilisation,
        noise=trace.noise,
        slow_noise=trace.slow_noise,
    )
    return run_campaign(setup, processes=asked.processes)


def _rows(campaign: Campaign, prices: PriceList, instance_type: str) -> Iterator[Row]:
    policies = list(dict.fromkeys(replay.outcome.policy for replay in campaign.played))
    for policy in [*policies, "clairvoyant"]:
        for per, billing in BILLINGS.items():
            billed_so = prices.model_copy(update={"billing": billing})
            for released, release in RELEASES.items():
                found = priced(
                    campaign.played, campaign.clairvoyants, Pricing(billed_so, WORKER, instance_type, release)
                )
                bills = (
                    list(found.clairvoyants.values())
                    if policy == "clairvoyant"
                    else [charge.outcome.bill for charge in found.played if charge.outcome.policy == policy]
                )
                yield _row(policy, per, released, [charge for charge in bills if charge is not None])


def _row(policy: str, per: str, released: str, bills: Sequence[Bill]) -> Row:
    """Return a policy (or the plan of the clairvoyant) by one billing and one rule: means over seeds."""
    costs = [charge.cost for charge in bills]
    return {
        "policy": policy,
        "billed_per": per,
        "released": released,
        **spread("cost", costs),
        "wasted_share": float(sum(charge.wasted_cost for charge in bills) / sum(costs)),
        "leases": float(np.mean([charge.leases for charge in bills])),
    }


def _times(prices: PriceList) -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(1)
    courses = {
        "a rescale every five minutes, up to 12 workers": np.repeat(rng.integers(1, 13, 288), 300),
        "a rescale every minute, up to 100 workers": np.repeat(rng.integers(1, 101, 1_440), 60),
        "another number every second, up to 12 workers": rng.integers(1, 13, 86_400),
    }
    instance_type = next(iter(prices.instance_types))
    for name, workers in courses.items():
        found: dict[str, object] = {"course": name}
        for rule, release in RELEASES.items():
            work = partial(_billed, workers, prices, instance_type, release)
            found[rule] = 1000.0 * min(seconds(work, time.process_time) for _ in range(5))
        yield found


def _billed(workers: np.ndarray, prices: PriceList, instance_type: str, release: Release) -> None:
    bill(Demand.of_workers(workers, WORKER), prices, instance_type, release)


if __name__ == "__main__":
    sys.exit(main())

"""Profile a job: deployments at rising rates, each until it no longer keeps up (Phoebe, 3.3).

They run side by side, as the paper has it, where that can be; else one after the other.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import repeat

from perdix.models.profiling.profile import KEEPS_UP, Profile, ProfilePoint, valid_deployments
from perdix.models.profiling.tmax import LEAST_PER_S, HighestRates
from perdix.policies.wording import workers
from perdix.profiling.deployment import Deployment, DeploymentError, Deployments, Measured
from perdix.profiling.plan import Plan
from perdix.telemetry import metrics

LEFT_UNDONE = 0.01  # of the rate: a consumer lag that grows by more is work that is left undone
FAR_BELOW = 0.5  # of what others lead to expect: on twins, who was slow while it kept up was full to 0.85 and more


@dataclass(frozen=True)
class Progress:
    """How far a profiling is."""

    # step, rate_per_s: number of the rate (from 1), and the rate
    step: int
    rate_per_s: float
    # running, ended: scale-outs that still take part, and those whose highest rate is known
    running: tuple[int, ...]
    ended: tuple[int, ...]

    def __str__(self) -> str:
        found = ", ".join(map(str, self.ended)) or "none"
        on = workers(self.running[0]) if len(self.running) == 1 else f"{len(self.running)} deployments"
        return f"rate {self.step}: {self.rate_per_s:,.0f}/s on {on} (ended: {found})"


@dataclass
class _Run:
    """One deployment's course."""

    deployment: Deployment
    began_s: float
    points: list[ProfilePoint] = field(default_factory=list)
    downtime_s: float | None = None
    ended_s: float | None = None
    notes: list[str] = field(default_factory=list)
    kept_up: bool = False  # whether it ended for its latency alone

    @property
    def scale_out(self) -> int:
        return self.deployment.scale_out

    @property
    def size(self) -> str:
        return workers(self.scale_out)

    @property
    def worker_s(self) -> float:
        return self.scale_out * ((self.ended_s or self.deployment.now_s) - self.began_s)


def profile(
    job: str,
    plan: Plan,
    deployments: Deployments,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    on_left: Callable[[str], None] | None = None,
) -> Profile:
    """Run the plan; every deployment is deleted at its end and all is left as it was, whatever happens.

    A deployment that cannot be made, driven or measured is dropped with a note, and the others go on.

    Raises ``DeploymentError`` when not one deployment could be measured.

    ``on_left``: given at once, in words, what could not be restored, as an interrupt leaves no profile that has notes.
    """
    notes: list[str] = []
    refused: dict[str, list[int]] = {}  # why -> scale-outs that could not be deployed
    runs: list[_Run] = []
    one_by_one = [(scale_out,) for scale_out in plan.scale_outs]
    with ExitStack() as ends:
        ends.callback(restore, deployments.restore, DeploymentError, notes, on_left)
        for together in [plan.scale_outs] if deployments.side_by_side else one_by_one:
            for scale_out in together:
                run = _deployed(deployments, scale_out, refused)
                if run is not None:
                    ends.callback(_end, run)
                    runs.append(run)
            _drive(runs, plan, on_progress)
    refusals = [
        f"{', '.join([*map(str, some[:-1]), workers(some[-1])])} could not be deployed: {why}"
        for why, some in refused.items()
    ]
    highest = _highest_rates(runs)
    return _profile_of(job, runs, highest, [*refusals, *notes, *(note for run in runs for note in run.notes)])


def _drive(runs: Sequence[_Run], plan: Plan, on_progress: Callable[[Progress], None] | None) -> None:
    """Raise the rate step by step until no deployment keeps up any more."""
    with ThreadPoolExecutor(max(len(runs), 1), thread_name_prefix="profiling") as pool:
        for step in range(plan.most_steps):
            active = [run for run in runs if run.ended_s is None]
            if not active:
                break
            if on_progress is not None:
                ended = tuple(run.scale_out for run in runs if run.ended_s is not None)
                on_progress(Progress(step + 1, plan.rate_per_s(step), tuple(r.scale_out for r in active), ended))
            spread = pool.map if len(active) > 1 else map  # in this thread, an interrupt ends the waiting, too
            measured = spread(_measured, active, repeat(plan), repeat(step))
            _judged(active, dict(zip((run.scale_out for run in active), measured, strict=True)), plan, step)
    for run in runs:
        if run.ended_s is None:
            highest = plan.rate_per_s(plan.most_steps - 1)
            run.notes.append(f"{run.size} kept up with every rate up to {highest:,.0f}/s; raise --step")
        _end(run)


def _deployed(deployments: Deployments, scale_out: int, refused: dict[str, list[int]]) -> _Run | None:
    try:
        deployment = deployments.deploy(scale_out)
    except DeploymentError as error:
        refused.setdefault(str(error), []).append(scale_out)
        return None
    return _Run(deployment, deployment.now_s)


def _measured(run: _Run, plan: Plan, step: int) -> Measured | None:
    """Drive one deployment at one rate; ``None`` where that failed, which ends it."""
    if step == 1 and plan.fail:  # by now it is known to work
        _fail(run, plan.fail_s)
    try:
        return run.deployment.measure(plan.rate_per_s(step), plan.settle_s, plan.measure_s)
    except DeploymentError as error:
        run.notes.append(f"{run.size} at {plan.rate_per_s(step):,.0f}/s: {error}")
        return None


def _fail(run: _Run, within_s: int) -> None:
    try:
        run.downtime_s = run.deployment.fail(within_s)
    except DeploymentError as error:
        run.notes.append(f"{run.size} could not be made to fail: {error}")
        return
    if run.downtime_s is None:
        run.notes.append(f"{run.size} did not come back within {within_s} s of a failure")


def _judged(active: Sequence[_Run], measured: Mapping[int, Measured | None], plan: Plan, step: int) -> None:
    """Enter what was measured, and end the deployments that no longer keep up."""
    rate_per_s = plan.rate_per_s(step)
    known = {n: figures for n, figures in measured.items() if figures is not None}
    verdicts = valid_deployments(
        {n: point.latency_ms for n, point in known.items()},
        rate_per_s,
        [point for run in active for point in run.points],
        throughputs_per_s={n: point.throughput_per_s for n, point in known.items()},
    )
    for run in active:
        one = measured[run.scale_out]
        if one is None:
            _end(run)
            continue
        if not (math.isfinite(one.throughput_per_s) and one.throughput_per_s > 0.0):
            run.notes.append(f"{run.size} at {rate_per_s:,.0f}/s showed no throughput")
            _end(run)
            continue
        if math.isnan(one.latency_ms) and not run.points:
            run.notes.append(
                f"{run.size} at {rate_per_s:,.0f}/s showed no latency ({metrics.LATENCY.name}); "
                "perdix doctor names the fix"
            )
            _end(run)
            continue
        behind = one.lag_growth_per_s > LEFT_UNDONE * rate_per_s
        valid = bool(verdicts.get(run.scale_out, False)) and not behind
        run.points.append(ProfilePoint(run.scale_out, rate_per_s, one.throughput_per_s, one.latency_ms, valid))
        if not valid:
            run.kept_up = not behind and one.throughput_per_s >= KEEPS_UP * rate_per_s
            _end(run)


def _end(run: _Run) -> None:
    if run.ended_s is not None:
        return
    run.ended_s = run.deployment.now_s
    try:
        run.deployment.delete()
    except DeploymentError as error:
        run.notes.append(f"{run.size} could not be deleted: {error}; delete the deployment by hand")


def restore(
    back: Callable[[], None], problem: type[Exception], notes: list[str], on_left: Callable[[str], None] | None
) -> None:
    """Call ``back``; where it raises ``problem``, note what is left to be done by hand, and tell it at once."""
    try:
        back()
    except problem as error:
        notes.append(f"what ran before could not be restored: {error}; restore it by hand")
        if on_left is not None:
            on_left(notes[-1])


def _profile_of(job: str, runs: Sequence[_Run], highest: Mapping[int, float], notes: Sequence[str]) -> Profile:
    points = tuple(point for run in runs for point in run.points)
    if not points:
        raise DeploymentError(f"no deployment of {job} could be measured: {'; '.join(notes) or 'none was planned'}")
    return Profile(
        job,
        points,
        highest,
        sum(run.worker_s for run in runs),
        min(run.began_s for run in runs),
        max(run.ended_s or run.began_s for run in runs),
        tuple(run.downtime_s for run in runs if run.downtime_s is not None),
        tuple(notes),
    )


def _highest_rates(runs: Sequence[_Run]) -> dict[int, float]:
    """Return T_max by scale-out, records/s, without those whose lower bound is far below what others lead to expect.

    One slow measurement, as by a pause of the garbage collector, says nothing of what a deployment takes; nor does one
    other deployment.
    """
    found = {run.scale_out: highest for run in runs if (highest := _highest_per_s(run)) is not None}
    odd = set()
    for run in runs:
        others = {n: per_s for n, per_s in found.items() if n != run.scale_out and per_s >= LEAST_PER_S}
        if not run.kept_up or len(others) < 2:
            continue
        if found[run.scale_out] < FAR_BELOW * float(HighestRates.fit(others).per_s(run.scale_out)):
            odd.add(run.scale_out)
            run.notes.append(
                f"{run.size} at {run.points[-1].rate_per_s:,.0f}/s were slow, but kept up with far less "
                "than others lead to expect: their highest rate is not known; profile them again"
            )
    return {n: per_s for n, per_s in found.items() if n not in odd}


def _highest_per_s(run: _Run) -> float | None:
    """Return T_max of a deployment that was driven beyond it: what it worked off when it no longer kept up.

    The paper takes the last rate that was held, which is up to a step too low; its program measures once more from the
    earliest offset, which costs another seven minutes. Of a deployment that was dropped for its latency while
    it kept up, this is a lower bound.
    """
    if not run.points or run.points[-1].valid:
        return None
    return max(point.throughput_per_s for point in run.points)

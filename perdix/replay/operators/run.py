"""One replay of an operator-level policy against a dataflow's twin: look, decide, rescale, and what came of it."""

import time
from collections.abc import Mapping
from typing import Any

from perdix.policies.contract import Reason
from perdix.policies.dataflow.asking import decided
from perdix.policies.dataflow.contract import DataflowPolicy, DataflowSituation
from perdix.replay.operators.case import DataflowCase
from perdix.replay.operators.outcome import Asked, DataflowCourse, DataflowOutcome, DataflowPlayed, phases_of, summed_up
from perdix.replay.side_by_side import Tell
from perdix.twin.dataflow.job import DataflowTwin

MOST_PROBLEMS = 20  # that are reported; a policy that fails fails often


def play(case: DataflowCase, tell: Tell | None = None, *, policy: DataflowPolicy | None = None) -> DataflowPlayed:
    """Play one policy on one dataflow.

    A policy is not asked while the dataflow stands still, since no metrics come then, nor at the very end. One that
    fails, or answers what cannot be, is held at what runs for that look.

    ``tell``: called after each look with the simulated seconds that have passed.
    ``policy``: by default the one that the case names.
    """
    began_s = time.perf_counter()
    policy = policy or case.contender.build()
    twin = DataflowTwin(case.parameters, case.seed)
    start = twin.parallelism
    asked: list[Asked] = []
    problems: list[str] = []
    memory: Mapping[str, Any] = {}
    while twin.now_s < case.seconds:
        since_s = twin.now_s
        twin.step(min(case.interval_s, case.seconds - twin.now_s))
        if tell is not None:
            tell(float(twin.now_s))
        if not twin.settled or twin.started_s >= twin.now_s or twin.now_s >= case.seconds:
            continue
        situation = situation_of(twin, since_s, memory)
        decision = decided(policy, situation)
        if decision.reason is Reason.HOLD_INVALID:
            problems.append(f"at {situation.now_s:g} s: {decision.sentence}")
        memory = decision.memory
        changed = bool(decision.changes(situation)) and twin.rescale(decision.parallelism, f"look-{len(asked)}")
        asked.append(Asked(twin.now_s, dict(decision.parallelism), changed, decision.reason.value, decision.sentence))
    course = DataflowCourse(twin.graph.names, twin.graph.sources, twin.ledger.between(0))
    phases = phases_of(case.parameters, course, twin.rescales, start)
    outcome = DataflowOutcome(
        case.contender.label,
        case.parameters.name,
        case.seed,
        case.seconds,
        start,
        phases,
        **summed_up(case.parameters, course, phases),
        decisions=tuple(asked),
        problems=tuple(problems[:MOST_PROBLEMS]),
        wall_s=time.perf_counter() - began_s,
    )
    return DataflowPlayed(outcome, course)


def situation_of(twin: DataflowTwin, since_s: int, memory: Mapping[str, Any]) -> DataflowSituation:
    """Return what a policy may know of a twin that runs, when it was asked last at ``since_s``."""
    since_s = max(since_s, twin.started_s)
    since_rescale_s = float(twin.now_s - twin.started_s) if twin.rescales else float("inf")
    return DataflowSituation(
        float(twin.now_s),
        twin.graph,
        twin.parallelism,
        twin.windows(since_s),
        twin.offered_per_s(since_s),
        twin.lag_records,
        twin.parameters.slots,
        slots_shared=twin.parameters.sharing,
        since_rescale_s=since_rescale_s,
        memory=memory,
    )

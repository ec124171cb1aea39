"""Replays on one dataflow: who takes part, one replay (look, decide, rescale), and many of them side by side."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from perdix.policies.contract import Reason
from perdix.policies.dataflow.asking import decided
from perdix.policies.dataflow.build import DATAFLOW_POLICIES, build_dataflow_policy
from perdix.policies.dataflow.contract import DataflowPolicy, DataflowSituation
from perdix.replay.contenders import TICK
from perdix.replay.labels import split_label, split_labels, whole
from perdix.replay.operators.outcome import (
    Asked,
    DataflowCourse,
    DataflowOutcome,
    DataflowPlayed,
    phases_of,
    scalable,
    summed_up,
)
from perdix.replay.side_by_side import Ended, OnProgress, Tell, play_all
from perdix.settings.yaml_files import SettingsError
from perdix.twin.dataflow.job import DataflowTwin
from perdix.twin.dataflow.parameters import DataflowParameters


@dataclass(frozen=True)
class DataflowContender:
    """A policy as it takes part."""

    label: str  # as the user wrote it; unique within a campaign
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    interval_s: int | None = None  # seconds between its looks; ``None``: as the dataflow's file says

    def build(self) -> DataflowPolicy:
        """Return the policy."""
        return build_dataflow_policy(self.policy, dict(self.options))


@dataclass(frozen=True)
class DataflowCase:
    """One policy on one dataflow with one seed. Picklable: it may be played in another process."""

    contender: DataflowContender
    parameters: DataflowParameters
    seed: int
    seconds: int  # length

    @property
    def interval_s(self) -> int:
        """Seconds between looks."""
        return self.contender.interval_s or self.parameters.interval_s


def dataflow_contenders(text: str) -> tuple[DataflowContender, ...]:
    """Return the contenders of a comma-separated list, for example ``ds2:activation=5,dhalion:tick_s=60``.

    Options of a policy follow colons, ``tick_s`` among them; ``static:flatmap=10:count=20`` takes operators.

    Raises ``SettingsError``, naming the contender and the nearest that is known, or one that is there twice.
    """
    return tuple(_contender(label) for label in split_labels(text, DATAFLOW_POLICIES))


def _contender(label: str) -> DataflowContender:
    name, options = split_label(label, DATAFLOW_POLICIES, "a dataflow")
    interval_s = whole(label, options, TICK, "seconds")
    if name == "static":
        options = {"parallelism": options}
    try:
        build_dataflow_policy(name, dict(options), (TICK,))
    except (SettingsError, ValidationError) as error:
        raise SettingsError(f"policy '{label}': {error}") from None
    return DataflowContender(label, name, options, interval_s)


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


@dataclass(frozen=True)
class DataflowSetup:
    """What is to be replayed."""

    contenders: tuple[DataflowContender, ...]
    parameters: DataflowParameters
    seeds: tuple[int, ...] = (1,)
    seconds: int | None = None  # length of each replay; ``None``: that of the dataflow's file

    def __post_init__(self) -> None:
        if self.length_s <= max((case.interval_s for case in self.cases()), default=0):  # none is made at the end
            raise SettingsError(f"{self.length_s} s do not cover one look of a policy; give more hours")
        if not scalable(self.parameters):
            raise SettingsError(
                f"'{self.parameters.name}': no operator may be scaled; set scalable: true of one in its file"
            )
        for contender in self.contenders:
            try:
                self.parameters.with_start(contender.options.get("parallelism", {}))
            except ValueError as error:
                raise SettingsError(f"policy '{contender.label}': {error}") from None

    @property
    def length_s(self) -> int:
        """Length of each replay."""
        return self.parameters.duration_s if self.seconds is None else self.seconds

    @property
    def simulated_s(self) -> float:
        """Sum of all seconds that are replayed."""
        return float(len(self.cases()) * self.length_s)

    def cases(self) -> tuple[DataflowCase, ...]:
        """Return a case per seed and contender; for one seed all meet the same luck."""
        return tuple(
            DataflowCase(contender, self.parameters, seed, self.length_s)
            for seed in self.seeds
            for contender in self.contenders
        )


DataflowCampaign = Ended[DataflowSetup, DataflowPlayed]


def run_dataflow_campaign(
    setup: DataflowSetup, *, processes: int | None = None, on_progress: OnProgress | None = None
) -> DataflowCampaign:
    """Play every contender with every seed; as :func:`~perdix.replay.side_by_side.play_all`."""
    return play_all(setup, play, lambda case: case.contender.label, processes=processes, on_progress=on_progress)

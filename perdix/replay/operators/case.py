"""One replay of operator-level policies: who takes part, and on which dataflow with which seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from perdix.policies.dataflow.build import DATAFLOW_POLICIES, build_dataflow_policy
from perdix.policies.dataflow.contract import DataflowPolicy
from perdix.replay.contenders import TICK
from perdix.replay.labels import split_label, split_labels, whole
from perdix.settings.yaml_files import SettingsError
from perdix.twin.dataflow.parameters import DataflowParameters

DEFAULT_POLICIES = "ds2,dhalion,flink-autoscaler"


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

"""One replay of operator-level policies: who takes part, and on which dataflow with which seed."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from policies.dataflow.build import DATAFLOW_POLICIES, build_dataflow_policy
from policies.dataflow.contract import DataflowPolicy
from replay.contenders import LABEL, TICK
from settings.yaml_files import SettingsError
from twin.dataflow.parameters import DataflowParameters

DEFAULT_POLICIES = "ds2,dhalion,flink-autoscaler"


@dataclass(frozen=True)
class DataflowContender:
    """A policy as it takes part.

    Attributes
    ----------
    label
        As the user wrote it; unique within a campaign.
    interval_s
        Seconds between its looks; ``None``: as the dataflow's file says.
    """

    label: str
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    interval_s: int | None = None

    def build(self) -> DataflowPolicy:
        """Return the policy."""
        return build_dataflow_policy(self.policy, dict(self.options))


@dataclass(frozen=True)
class DataflowCase:
    """One policy on one dataflow with one seed. Picklable: it may be played in another process.

    Attributes
    ----------
    seconds
        Length; by default that of the dataflow's file.
    """

    contender: DataflowContender
    parameters: DataflowParameters
    seed: int = 1
    seconds: int | None = None

    @property
    def length_s(self) -> int:
        """Length of the replay."""
        return self.parameters.duration_s if self.seconds is None else self.seconds

    @property
    def interval_s(self) -> int:
        """Seconds between looks."""
        return self.contender.interval_s or self.parameters.interval_s


def dataflow_contenders(text: str) -> tuple[DataflowContender, ...]:
    """Return the contenders of a comma-separated list, for example ``ds2:activation=5,dhalion:tick_s=60``.

    Options of a policy follow colons, ``tick_s`` among them; ``static:flatmap=10:count=20`` takes operators.

    Raises
    ------
    ~settings.yaml_files.SettingsError
        Naming the contender and the nearest that is known, or one that is there twice.
    """
    labels = [label.strip() for label in text.split(",") if label.strip()]
    if not labels:
        raise SettingsError(f"no policy is named; known: {', '.join(DATAFLOW_POLICIES)}")
    names = [re.sub(r"\W+", "-", label) for label in labels]
    twice = [label for label, name in zip(labels, names, strict=True) if names.count(name) > 1]
    if twice:
        raise SettingsError(f"policy {twice[0]}: given twice; every policy takes part once, under a name of its own")
    return tuple(_contender(label) for label in labels)


def _contender(label: str) -> DataflowContender:
    name, *pairs = label.split(":")
    if name not in DATAFLOW_POLICIES:
        close = difflib.get_close_matches(name, DATAFLOW_POLICIES, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(DATAFLOW_POLICIES)}"
        raise SettingsError(f"unknown policy '{name}' for a dataflow; {hint}")
    if not LABEL.fullmatch(label):
        raise SettingsError(f"policy '{label}': letters, digits and . _ : = + - only, because files are named by it")
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals or not value:
            raise SettingsError(f"policy '{label}': option '{pair}' has no value; write {key or 'option'}=VALUE")
        options[key] = _scalar(value)
    interval_s = options.pop(TICK, None)
    if interval_s is not None and (isinstance(interval_s, bool) or not isinstance(interval_s, int) or interval_s < 1):
        raise SettingsError(f"policy '{label}': {TICK} must be whole seconds from 1 on, found {interval_s!r}")
    if name == "static":
        options = {"parallelism": options}
    try:
        build_dataflow_policy(name, dict(options))
    except (SettingsError, ValidationError) as error:
        raise SettingsError(f"policy '{label}': {error}") from None
    return DataflowContender(label, name, options, interval_s)


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

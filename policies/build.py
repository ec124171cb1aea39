"""From a policy's name and options to the policy."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from policies.contract import Policy
from policies.daedalus import Daedalus, DaedalusOptions
from policies.flink_autoscaler.options import FlinkAutoscalerOptions
from policies.flink_autoscaler.policy import FlinkAutoscaler
from policies.global_ds2 import GlobalDs2, GlobalDs2Options
from policies.hpa import Hpa, HpaOptions
from policies.static import Static, StaticOptions
from settings.stream_job import PolicySettings, Strict
from settings.yaml_files import SettingsError

POLICIES: Mapping[str, tuple[type[Strict], Callable[[Any], Policy]]] = {
    "daedalus": (DaedalusOptions, Daedalus),
    "ds2-global": (GlobalDs2Options, GlobalDs2),
    "flink-autoscaler": (FlinkAutoscalerOptions, FlinkAutoscaler),
    "hpa": (HpaOptions, Hpa),
    "static": (StaticOptions, Static),
}


def build_policy(name: str, options: Mapping[str, Any] | None = None) -> Policy:
    """Return the policy ``name`` with ``options``; what it must hold comes with each situation.

    Raises
    ------
    SettingsError
        Naming what is not known or not allowed, and the nearest that is.
    """
    if name not in POLICIES:
        raise SettingsError(f"unknown policy '{name}'; {_nearest(name, list(POLICIES))}")
    model, make = POLICIES[name]
    try:
        return make(model.model_validate(dict(options or {})))
    except ValidationError as error:
        lines = [_explain(name, model, item) for item in error.errors()]
        raise SettingsError("\n".join(lines)) from None


def check_policy(settings: PolicySettings) -> None:
    """Raise ``SettingsError`` when there is no such policy, or it has no such options: for reading job files."""
    build_policy(settings.name, settings.options)


def _explain(policy: str, model: type[Strict], item: Any) -> str:
    option = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"policy '{policy}': unknown option '{option}'; {_nearest(option, list(model.model_fields))}"
    return f"policy '{policy}': option '{option}': {item['msg']} (found {item['input']!r})"


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(sorted(known))}"

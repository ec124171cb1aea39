"""From a policy's name and options to the policy that sizes operators."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from perdix.policies.building import made_of
from perdix.policies.dataflow.contract import DataflowPolicy
from perdix.policies.dataflow.dhalion import Dhalion, DhalionOptions
from perdix.policies.dataflow.ds2.options import Ds2Options
from perdix.policies.dataflow.ds2.policy import Ds2
from perdix.policies.dataflow.flink_autoscaler import FlinkAutoscaler
from perdix.policies.dataflow.static import Static, StaticOptions
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.settings.strict import Strict

DATAFLOW_POLICIES: Mapping[str, tuple[type[Strict], Callable[[Any], DataflowPolicy]]] = {
    "dhalion": (DhalionOptions, Dhalion),
    "ds2": (Ds2Options, Ds2),
    "flink-autoscaler": (FlinkAutoscalerOptions, FlinkAutoscaler),
    "static": (StaticOptions, Static),
}

# Takes a name, its options, and those beside them as :func:`~perdix.policies.building.made_of`
build_dataflow_policy = partial(made_of, DATAFLOW_POLICIES)

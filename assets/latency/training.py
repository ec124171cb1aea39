"""Learn latency and T_max from the newest profile of each job; one that was never profiled fails alone."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import dagster as dg

from perdix.assets.resources import Spark, Workspace
from perdix.assets.training.factory import Key, Model
from perdix.assets.training.record import Gate, data_of_files, with_pictures_of_families


def _train(key: Key) -> Mapping[str, Any]:
    from perdix.assets.latency.tasks import train_latency  # a second of statistics that other runs need not wait for

    return train_latency(key)


def _learns(_: dg.AssetExecutionContext, workspace: Workspace, __: Spark) -> Callable[[str], Key]:
    profiles = str(workspace.paths().profiles)
    return lambda _: {"profiles": profiles}


def _gate(model: Model, workspace: Workspace) -> Gate:
    from perdix.models.profiling.rows import COLUMNS

    return Gate(
        model.registered,
        model.score,
        partial(data_of_files, name="profile", folder=workspace.paths().profiles, columns=COLUMNS),
        parameters={"seed": workspace.settings().training.seed},
    )


LATENCY = Model(
    name="latency",
    registered="perdix-latency",
    score="balanced_error",  # mean share of overloads missed and of normal points taken for them, lower is better
    deps=[dg.AssetKey("profiles")],  # what measures
    judged="judged on points and scale-outs left out",
    task=_train,
    learns=_learns,
    gate=_gate,
    more=partial(with_pictures_of_families, prefix="latency_surface_"),
    spark=False,
)

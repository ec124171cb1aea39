"""The two models that learn from measurements: latency from a profile, and what workers of each size process.

A job that was never profiled, or sampled, fails alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg

from perdix.assets.performance.tasks import train_performance
from perdix.assets.resources import Spark, Workspace
from perdix.assets.training.factory import Key, Model
from perdix.assets.training.record import Gate, Trained, data_of_files, with_pictures_of_families

if TYPE_CHECKING:
    from perdix.models.registry import Candidate, Publication


def _train_latency(key: Key) -> Mapping[str, Any]:
    from perdix.assets.latency.tasks import train_latency  # a second of statistics that other runs need not wait for

    return train_latency(key)


def _of_profiles(_: dg.AssetExecutionContext, workspace: Workspace, __: Spark) -> Callable[[str], Key]:
    profiles = str(workspace.paths().profiles)
    return lambda _: {"profiles": profiles}


def _profile_gate(model: Model, workspace: Workspace) -> Gate:
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
    task=_train_latency,
    learns=_of_profiles,
    gate=_profile_gate,
    more=partial(with_pictures_of_families, prefix="latency_surface_"),
    spark=False,
)


def _of_samples(_: dg.AssetExecutionContext, workspace: Workspace, __: Spark) -> Callable[[str], Key]:
    samples, repeats = str(workspace.paths().operator_samples), workspace.settings().training.performance_repeats
    return lambda _: {"samples": samples, "repeats": repeats}


def _samples_gate(model: Model, workspace: Workspace) -> Gate:
    from perdix.models.sampling.rows import COLUMNS

    settings = workspace.settings().training
    return Gate(
        model.registered,
        model.score,
        partial(data_of_files, name="samples", folder=workspace.paths().operator_samples, columns=COLUMNS),
        parameters={"seed": settings.seed, "repeats": settings.performance_repeats},
    )


def with_chosen_parameters(publication: "Publication", trained: Sequence[Trained]) -> "Publication":
    """Return the publication with what the grid search chose in the run of each family; ``varies`` between jobs."""

    def of(candidate: "Candidate") -> dict[str, Any]:
        chosen = [
            job_trained.candidate(candidate.family).get("parameters", {})
            for job_trained in trained
            if job_trained.usable
        ]
        names = dict.fromkeys(name for parameters in chosen for name in parameters)
        values = {name: {str(parameters.get(name)) for parameters in chosen} for name in names}
        return {name: found.pop() if len(found) == 1 else "varies" for name, found in values.items()}

    candidates = [
        replace(candidate, parameters={**candidate.parameters, **of(candidate)}) for candidate in publication.candidates
    ]
    return replace(publication, candidates=candidates)


PERFORMANCE = Model(
    name="performance",
    registered="perdix-performance",
    score="relative_rmse",  # RMSE on samples left out as a share of their mean, lower is better
    deps=[dg.AssetKey("operator_samples")],  # what is sampled
    judged="judged by grid search and repeated cross-validation",
    task=train_performance,
    learns=_of_samples,
    gate=_samples_gate,
    more=lambda publication, trained: with_pictures_of_families(
        with_chosen_parameters(publication, trained), trained, "performance_"
    ),
)

"""Learn what workers of each size process from the newest samples of each job; one never sampled fails alone."""

from collections.abc import Callable, Sequence
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


def _learns(_: dg.AssetExecutionContext, workspace: Workspace, __: Spark) -> Callable[[str], Key]:
    samples, repeats = str(workspace.paths().operator_samples), workspace.settings().training.performance_repeats
    return lambda _: {"samples": samples, "repeats": repeats}


def _gate(model: Model, workspace: Workspace) -> Gate:
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
    learns=_learns,
    gate=_gate,
    more=lambda publication, trained: with_pictures_of_families(
        with_chosen_parameters(publication, trained), trained, "performance_"
    ),
)

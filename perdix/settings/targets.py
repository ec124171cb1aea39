"""What of a stream job is scaled, and where: one kind per module of ``perdix/targets/``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, AnyHttpUrl, Discriminator, Field, Tag, model_validator

from perdix.settings.access import HttpAccess, ServerUrl
from perdix.settings.strict import Strict

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VERSION = re.compile(r"[a-z0-9.-]+/v[a-z0-9]+")


def _named(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            "write it as in URLs, in small letters, digits, '-' and '.': deployments, wordcount-taskmanager"
        )
    return text


def _grouped(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise ValueError("write it with its group: apps/v1")
    return text


Named = Annotated[str, AfterValidator(_named)]


class Rescales(NamedTuple):
    """How a target rescales a job."""

    in_place: bool = False  # whether the job's processes go on
    checkpoint: bool = False  # whether a checkpoint is made first, so that little is done again


class AdvisorySettings(Strict):
    """Nothing is scaled; what perdix would do is recorded and published."""

    kind: Literal["advisory"] = "advisory"


class TwinSettings(Strict):
    """A job of the digital twin that serves at ``url``.

    ``in_place``: whether it stands for a job that Flink rescales in place, with a checkpoint for each rescale.
    """

    kind: Literal["twin"] = "twin"
    url: AnyHttpUrl
    in_place: bool = False


class FlinkSettings(HttpAccess):
    """A job of a Flink cluster with the adaptive scheduler, scaled through the JobManager's REST API.

    ``job_name``: the job's name in Flink; the stream job's name when left out. A name outlives that a job is submitted
    again, an id does not.
    ``checkpoint``: whether a checkpoint is triggered with each rescale: Flink waits for one, and what came after it is
    read again.
    ``checkpoint_wait_s``: for which a tick waits at most, for that checkpoint or for Flink's cooldown.
    """

    kind: Literal["flink"] = "flink"
    url: ServerUrl
    job_name: str | None = None
    checkpoint: bool = True
    checkpoint_wait_s: Annotated[float, Field(ge=0, le=60)] = 10.0


class KubernetesSettings(Strict):
    """A resource with the ``scale`` subresource: a Deployment, a StatefulSet, or any custom resource that has one.

    ``api_version``, ``resource``: group and version, and the plural as in URLs: ``apps/v1`` and ``deployments``, or
    ``flink.apache.org/v1beta1`` and ``flinkdeployments``.
    ``namespace``, ``name``: of the one resource.
    ``kubeconfig``, ``context``: how the cluster is reached; left out, the pod's own service account, else the user's
    kubeconfig.
    ``ready``: count pods that are ready instead of pods that exist (Deployments and StatefulSets only). It asks for the
    right to ``get`` the resource itself.
    """

    kind: Literal["kubernetes"] = "kubernetes"
    api_version: Annotated[str, AfterValidator(_grouped)] = "apps/v1"
    resource: Named = "deployments"
    namespace: Named = "default"
    name: Named
    kubeconfig: Path | None = None
    context: str | None = None
    ready: bool = False

    @model_validator(mode="after")
    def _countable(self) -> KubernetesSettings:
        if self.ready and not (self.api_version == "apps/v1" and self.resource in {"deployments", "statefulsets"}):
            raise ValueError("'ready' is for deployments and statefulsets of apps/v1; others tell nothing of it")
        return self


def _kind(given: Any) -> Any:
    """Return which kind is meant; a target that names none is advisory."""
    return given.get("kind", "advisory") if isinstance(given, dict) else getattr(given, "kind", None)


TargetSettings = Annotated[
    Annotated[AdvisorySettings, Tag("advisory")]
    | Annotated[TwinSettings, Tag("twin")]
    | Annotated[FlinkSettings, Tag("flink")]
    | Annotated[KubernetesSettings, Tag("kubernetes")],
    Discriminator(
        _kind,
        custom_error_type="unknown_kind",
        custom_error_message="expected a mapping; write its keys below it, with 'kind' as one of {known}",
        custom_error_context={"known": "advisory, twin, flink, kubernetes"},
    ),
]


def rescales(target: TargetSettings) -> Rescales:
    """Return how a target rescales a job, as far as its settings say."""
    match target:
        case FlinkSettings(checkpoint=checkpoint):
            return Rescales(in_place=True, checkpoint=checkpoint)
        case TwinSettings(in_place=in_place):
            return Rescales(in_place=in_place, checkpoint=in_place)
    return Rescales()

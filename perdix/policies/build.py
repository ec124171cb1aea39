"""From a policy's name and options to the policy."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from perdix.policies.building import made_of
from perdix.policies.contract import Policy
from perdix.policies.daedalus import Daedalus
from perdix.policies.daedalus_options import DaedalusOptions
from perdix.policies.flink_autoscaler.options import FlinkAutoscalerOptions
from perdix.policies.flink_autoscaler.policy import FlinkAutoscaler
from perdix.policies.global_ds2 import GlobalDs2, GlobalDs2Options
from perdix.policies.hpa import Hpa, HpaOptions
from perdix.policies.phoebe import Phoebe, PhoebeOptions
from perdix.policies.planning.policy import Perdix, PerdixOptions
from perdix.policies.qescalor import Cba, CbaOptions, QEScalor, QEScalorOptions
from perdix.policies.static import Static, StaticOptions
from perdix.policies.twres import Twres, TwresOptions
from perdix.policies.visp.options import VispOptions
from perdix.policies.visp.policy import Visp
from perdix.settings.plain_error import SettingsError
from perdix.settings.stream_job import StreamJob
from perdix.settings.strict import Strict

POLICIES: Mapping[str, tuple[type[Strict], Callable[[Any], Policy]]] = {
    "cba": (CbaOptions, Cba),
    "daedalus": (DaedalusOptions, Daedalus),
    "ds2-global": (GlobalDs2Options, GlobalDs2),
    "flink-autoscaler": (FlinkAutoscalerOptions, FlinkAutoscaler),
    "hpa": (HpaOptions, Hpa),
    "perdix": (PerdixOptions, Perdix),
    "phoebe": (PhoebeOptions, Phoebe),
    "qescalor": (QEScalorOptions, QEScalor),
    "static": (StaticOptions, Static),
    "twres": (TwresOptions, Twres),
    "visp": (VispOptions, Visp),
}

# Takes a name, its options, and those beside them as :func:`~perdix.policies.building.made_of`
build_policy = partial(made_of, POLICIES)


def check_policy(job: StreamJob) -> None:
    """Raise ``SettingsError`` when a job's policy is not known, has no such options, or cannot act on its target."""
    policy, kind = build_policy(job.policy.name, job.policy.options), job.target.kind
    if isinstance(policy, QEScalor) and job.mode == "act" and kind in {"flink", "kubernetes"}:
        raise SettingsError(
            f"policy '{policy.name}' chooses among sizes of workers, and those of a target of kind '{kind}' are all "
            "alike; choose another policy, or write mode: advise"
        )

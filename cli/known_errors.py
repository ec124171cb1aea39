"""The errors that a user can mend: shown as one sentence, without a stack trace."""

from __future__ import annotations

from cli.output import UserError
from settings.yaml_files import SettingsError


def known_errors() -> tuple[type[Exception], ...]:
    """Return the error types whose message names the place and the mend."""
    from control.state_schema import StateError
    from models.registry import RegistryError
    from targets.contract import TargetError
    from telemetry.java import NoJava
    from telemetry.lake import LakeError
    from telemetry.prometheus_answers import PrometheusError
    from telemetry.spark_cluster import ClusterError

    of_services = (StateError, RegistryError, TargetError, PrometheusError, ClusterError)
    return (UserError, SettingsError, NoJava, LakeError, *of_services)

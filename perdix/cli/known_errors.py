"""The errors that a user can fix: shown as one sentence, without a stack trace."""

from perdix.cli.output import UserError
from perdix.settings.yaml_files import SettingsError


def known_errors() -> tuple[type[Exception], ...]:
    """Return the error types whose message names the place and the fix."""
    from perdix.control.state.schema import StateError
    from perdix.models.registry import RegistryError
    from perdix.targets.contract import TargetError
    from perdix.telemetry.java import NoJava
    from perdix.telemetry.lake import LakeError
    from perdix.telemetry.prometheus_answers import PrometheusError
    from perdix.telemetry.spark.cluster import ClusterError

    of_services = (StateError, RegistryError, TargetError, PrometheusError, ClusterError)
    return (UserError, SettingsError, NoJava, LakeError, *of_services)

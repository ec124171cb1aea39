"""What can go wrong with the registry, as types that the loop can act on."""

from perdix.settings.plain_error import PlainError


class RegistryError(PlainError):
    """The registry refused what was asked. The message says what and why."""


class RegistryUnavailable(RegistryError):  # noqa: N818  a state, not a mistake
    """MLflow or its artifact store cannot be reached now: keep the last good champion and try again later."""


class NoDatabase(RegistryUnavailable):
    """The file of MLflow's database is not there: no training has made it yet, or it is away."""


class StoreAway(RegistryUnavailable):
    """An artifact store cannot be read now: other models may have others."""


class TableGone(StoreAway):
    """A version is known, and its fleet table is not where it was kept: asking again does not help."""


class NotRegistered(RegistryError):  # noqa: N818  a state, not a mistake
    """There is no such model, version or alias."""


class FleetCorrupt(RegistryError):  # noqa: N818
    """A fleet table is not what was published: wrong digest, not Parquet, or columns are missing."""

"""Both code locations as one, for tools that look at a single module, such as ``dg list defs``; nothing runs here."""

import dagster as dg

from perdix.assets.resources import Workspace
from perdix.pipelines.control_location import build_control_defs
from perdix.pipelines.training_location import build_training_defs


def both() -> dg.Definitions:
    """Merge them over one workspace."""
    workspace = Workspace()
    return dg.Definitions.merge(build_control_defs(workspace), build_training_defs(workspace))


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions that Dagster loads."""
    return both()

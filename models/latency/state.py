"""A latency model from its JSON state, whichever family it is of."""

from collections.abc import Mapping
from typing import Any

from perdix.models.latency import boosting, utilisation
from perdix.models.latency.boosting import PublishedLatency
from perdix.models.latency.contract import LatencyModel
from perdix.models.latency.utilisation import UtilisationLatency


def latency_from_state(state: Mapping[str, Any]) -> LatencyModel:
    """Return the model of a state. Raises ``ValueError`` when the state is of no known format, or is not whole."""
    made = state.get("format") if isinstance(state, Mapping) else None
    if made == utilisation.STATE_FORMAT:
        return UtilisationLatency.from_state(state)
    if made == boosting.STATE_FORMAT:
        return PublishedLatency.from_state(state)
    known = f"{utilisation.STATE_FORMAT}, {boosting.STATE_FORMAT}"
    raise ValueError(f"not the state of a latency model: format is {made!r}, known are {known}; train the job anew")

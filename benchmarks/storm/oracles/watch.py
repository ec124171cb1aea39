"""All oracles of one episode."""

from benchmarks.storm.oracles.ends import Ends
from benchmarks.storm.oracles.requests import Requests
from benchmarks.storm.oracles.ticks import Ticks


class Watch(Requests, Ticks, Ends):
    """Judges requests as they arrive, each tick and look as it ends, and the episode."""

"""What each process of a crew opens that serves real jobs; apart from the tests, because the processes import it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from perdix.control.champions import GivenChampions
from perdix.control.live import Targets
from perdix.control.read_ahead import Hanging, ReadAhead
from perdix.control.sources import LiveSource
from perdix.control.state.store import StateStore
from perdix.control.tick_io import TickIO


@contextmanager
def opened(url: str) -> Iterator[TickIO]:
    with closing(StateStore(url)) as store, closing(LiveSource()) as source, closing(Targets()) as targets:
        yield TickIO(source, store, GivenChampions(), targets, ahead=ReadAhead(source, Hanging()))

"""Lines of an export, a block at a time: bounded, with places, of a whole file or of a slice of it."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby

from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.records import Limits, Quarantined, excerpt


@dataclass(frozen=True)
class Lines:
    """Whole lines: ``data`` without the last newline; the first one is ``line`` at ``offset``."""

    data: bytes
    offset: int
    line: int | None

    def split(self) -> list[bytes]:
        """Return the lines without the carriage return at their ends, and the mark of UTF-8 before the first."""
        lines = (self.data if self.offset else self.data.removeprefix(BOM_UTF8)).split(b"\n")
        return [line.rstrip(b"\r") for line in lines] if b"\r" in self.data else lines

    def place(self, index: int) -> tuple[int | None, int]:
        """Return line number and byte offset of the ``index``-th line."""
        return (None if self.line is None else self.line + index), self.offset + self._starts[index]

    @cached_property
    def _starts(self) -> list[int]:
        lengths = (len(line) + 1 for line in self.data.split(b"\n"))
        return list(accumulate(lengths, initial=0))


def line_blocks(content: Content, limits: Limits) -> Iterator[Lines | Quarantined]:
    """Yield the lines that begin in the content's slice, a block at a time.

    Quarantined are lines over the bound, and the unfinished one before damage: half a number is a wrong number.
    """
    walk = _Walk(content, limits.line_bytes)
    walk.find_start()
    while not walk.finished and (block := content.read()):
        yield from walk.feed(block)
    if not walk.finished:
        yield from walk.close()


class _Walk:
    """The state of one pass over lines."""

    def __init__(self, content: Content, limit: int) -> None:
        self.content = content
        self.limit = limit
        self.offset = content.start  # of the first byte of `held`
        self.line: int | None = 1 if content.start == 0 else None
        self.held: list[bytes] = []
        self.held_bytes = 0
        self.skipping = False
        self.excerpt = ""
        self.finished = False

    def find_start(self) -> None:
        """In a slice that starts inside the file, pass over the line that the slice before it reads."""
        if self.content.start == 0:
            return
        self.offset -= 1
        while block := self.content.read():
            at = block.find(b"\n")
            if at >= 0:
                self.offset += at + 1
                self.content.push_back(block[at + 1 :])
                break
            self.offset += len(block)
        self._stop_at_end()

    def feed(self, block: bytes) -> Iterator[Lines | Quarantined]:
        last = block.rfind(b"\n")
        if last < 0:
            self._hold(block)
            return
        if self.skipping:
            first = block.find(b"\n")
            yield self._long(first)
            block, last = block[first + 1 :], last - first - 1
            if last < 0:
                self._hold(block)
                return
        data = b"".join([*self.held, block[:last]])
        yield from self._lines(data)
        self.held, self.held_bytes = [], 0
        if not self.finished:
            self._hold(block[last + 1 :])

    def close(self) -> Iterator[Lines | Quarantined]:
        data = b"".join(self.held)
        if self.skipping:
            yield self._long(0)
        elif self.content.damage:
            yield Quarantined(self.content.damage.reason, self.line, self.offset, excerpt(data))
        elif data:
            yield from self._lines(data)

    def _lines(self, data: bytes) -> Iterator[Lines | Quarantined]:
        end = self.content.end
        if end is not None and self.offset + len(data) + 1 >= end:  # keep the lines that begin before the end
            reach = data.find(b"\n", max(0, end - self.offset - 1))
            data = data if reach < 0 else data[:reach]
            self.finished = True
        if len(data) <= self.limit:
            yield self._taken(data)
        else:
            yield from self._one_by_one(data)
        self._stop_at_end()

    def _one_by_one(self, data: bytes) -> Iterator[Lines | Quarantined]:
        for is_long, group in groupby(data.split(b"\n"), key=lambda line: len(line) > self.limit):
            if not is_long:
                yield self._taken(b"\n".join(group))
                continue
            for line in group:
                self.held_bytes, self.excerpt = len(line), excerpt(line)
                yield self._long(0)

    def _taken(self, data: bytes) -> Lines:
        taken = Lines(data, self.offset, self.line)
        self.offset += len(data) + 1
        if self.line is not None:
            self.line += data.count(b"\n") + 1
        return taken

    def _hold(self, block: bytes) -> None:
        if not block:
            return
        if not self.skipping:
            self.held.append(block)
        self.held_bytes += len(block)
        if self.held_bytes > self.limit and not self.skipping:
            self.excerpt = excerpt(b"".join(self.held[:1]))
            self.held, self.skipping = [], True

    def _long(self, rest: int) -> Quarantined:
        length = self.held_bytes + rest
        reason = f"a line over the bound: '{length}' bytes; export shorter ranges"
        found = Quarantined(reason, self.line, self.offset, self.excerpt)
        self.offset += length + 1
        self.line = None if self.line is None else self.line + 1
        self.held, self.held_bytes, self.skipping = [], 0, False
        self._stop_at_end()
        return found

    def _stop_at_end(self) -> None:
        if self.content.end is not None and self.offset >= self.content.end:
            self.finished = True

"""The bytes of one export: plain or gzip (by content), in one pass, hashed, no more in memory than asked for."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

GZIP_MAGIC = b"\x1f\x8b"
BLOCK_BYTES = 4 << 20
_SALVAGE_STEP = 256
_GZIP_WINDOW = 31  # zlib: expect a gzip header and check the CRC


@dataclass(frozen=True)
class Damage:
    """The compressed content ended or broke at ``byte_offset`` of the decompressed content."""

    byte_offset: int
    reason: str


class Content:
    """Reads ``path`` once from ``start`` to ``end`` (plain files only; the whole file by default).

    ``damage``: set once the end of what could be decompressed is reached.
    ``compressed``: whether the content is gzip.
    """

    def __init__(self, path: Path, start: int = 0, end: int | None = None) -> None:
        self._stream = path.open("rb")
        self._hash = hashlib.sha256()
        self.path = path
        self.start = start
        self.end = end
        self.damage: Damage | None = None
        self._peeked = b""
        self.compressed = self._stream.read(2) == GZIP_MAGIC and start == 0
        self._position = max(0, start - 1)  # one byte early: a line begins in this slice if a newline ends the last
        self._stream.seek(self._position)
        self._gzip: zlib._Decompress | None = zlib.decompressobj(_GZIP_WINDOW) if self.compressed else None
        self._pending = b""
        self._given = 0

    def __enter__(self) -> Content:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def peek(self, size: int) -> bytes:
        """Return up to ``size`` first bytes without consuming them."""
        while len(self._peeked) < size:
            more = self._next(size - len(self._peeked))
            if not more:
                break
            self._peeked += more
        return self._peeked[:size]

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        """Return up to ``size`` bytes, fewer at will; empty only at the end."""
        if self._peeked:
            block, self._peeked = self._peeked[:size], self._peeked[size:]
            return block
        return self._next(size)

    def push_back(self, block: bytes) -> None:
        """Let the next read return ``block`` first."""
        self._peeked = block + self._peeked

    def read_whole(self, limit: int) -> bytes | None:
        """Return everything that is left; ``None`` when that is more than ``limit`` bytes."""
        blocks, size = [], 0
        while limit >= 0 and (block := self.read()):
            size += len(block)
            if size > limit:
                return None
            blocks.append(block)
        return b"".join(blocks) if limit >= 0 else None

    def digest(self) -> str:
        """Return the SHA-256 of the stored bytes (of the slice), reading what was left over."""
        while self._raw(BLOCK_BYTES):
            pass
        return self._hash.hexdigest()

    def _raw(self, size: int) -> bytes:
        block = self._stream.read(size)
        first = max(0, self.start - self._position)
        last = len(block) if self.end is None else max(0, self.end - self._position)
        self._hash.update(block[first:last])
        self._position += len(block)
        return block

    def _next(self, size: int) -> bytes:
        if self._gzip is None:
            return self._raw(size)
        block = self._inflate(size)
        self._given += len(block)
        return block

    def _inflate(self, size: int) -> bytes:
        while self.damage is None:
            assert self._gzip is not None
            if self._gzip.eof:
                self._pending = self._gzip.unused_data or self._pending
                self._pending = (self._pending or self._raw(BLOCK_BYTES)).lstrip(b"\0")  # some tools pad with zeros
                if not self._pending:
                    return b""
                self._gzip = zlib.decompressobj(_GZIP_WINDOW)
            self._pending = self._gzip.unconsumed_tail or self._pending or self._raw(BLOCK_BYTES)
            if not self._pending:
                block = self._gzip.flush()
                self.damage = Damage(
                    self._given + len(block), "the gzip ends early (a truncated copy?); copy the file again"
                )
                return block
            pending, self._pending = self._pending, b""
            before = self._gzip.copy()
            try:
                block = self._gzip.decompress(pending, size)
            except zlib.error as error:
                block = _salvage(before, pending)
                self.damage = Damage(self._given + len(block), f"the gzip is damaged ({error}); copy the file again")
                return block
            if block:
                return block
        return b""


def _salvage(gzip: zlib._Decompress, pending: bytes) -> bytes:
    """Return what comes before the place where decompressing ``pending`` fails."""
    blocks = []
    try:
        for at in range(0, len(pending), _SALVAGE_STEP):
            blocks.append(gzip.decompress(pending[at : at + _SALVAGE_STEP]))
    except zlib.error:
        pass
    return b"".join(blocks)

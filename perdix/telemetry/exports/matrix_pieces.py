"""Cut a ``query_range`` document at the starts of its series, holding one series in memory.

``{"metric":{`` cannot stand inside a JSON string (its quotes would be escaped), and a label's value is never an object,
so each match begins a series. What lies between two matches is one series, damaged or not.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.records import Limits, Quarantined, Remark, excerpt

START = re.compile(rb'\{\s*"metric"\s*:\s*\{')
_END_OF_SERIES = re.compile(rb"\]\s*\]\s*\}")
_TAIL = re.compile(rb"\s*\]\s*(?:\}|,\s*\"|$)")
_ERROR = re.compile(rb'(?:\{\s*"status"\s*:\s*"error"|(?i:<!doctype|<html))[^{}]*')
_PARTIAL = re.compile(rb'"isPartial"\s*:\s*true|"warnings"\s*:\s*\[\s*"(?P<said>(?:[^"\\]|\\.)*)"')
_NOTHING = re.compile(rb"\s*$")
_OVERLAP_BYTES = 64  # no start of a series is longer than this, whatever its white space
_HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class Piece:
    """One series as text; ``cut`` when the document ends inside it."""

    data: bytes
    offset: int
    cut: bool = False


@dataclass(frozen=True)
class Head:
    """What stands before the first series; ``rest`` begins with it, and is empty when there is none."""

    data: bytes
    rest: bytes


def read_head(content: Content) -> Head:
    """Read up to the first series, or the first megabyte when there is none in it."""
    buffer = b""
    while block := content.read():
        buffer += block
        if found := START.search(buffer):
            return Head(buffer[: found.start()], buffer[found.start() :])
        if len(buffer) > _HEAD_BYTES:
            break
    return Head(buffer, b"")


def pieces(head: Head, content: Content, limits: Limits) -> Iterator[Piece | Quarantined | Remark]:
    """Yield every series after ``head``; one over ``limits.line_bytes`` is passed over and quarantined.

    Answers may follow each other in one file; those that are errors are quarantined, those in part remarked on.
    """
    yield from around(head.data, 0)
    bare = b"[" not in head.data  # series after series, as ``jq -c '.data.result[]'`` prints them
    buffer, base = head.rest, len(head.data)  # buffer[0] is byte `base` of the document
    begin, scan = 0, 1  # the series at hand begins at buffer[begin]; no start of another before buffer[scan]
    skipped: tuple[int, str] | None = None  # offset and beginning of a series that became too long to hold
    while True:
        if following := START.search(buffer, scan):
            end = following.start()
            if skipped:
                yield _too_long(*skipped, base + end, limits)
            else:
                data = buffer[begin:end].rstrip(b", \t\r\n")
                piece = Piece(data, base + begin)
                if data.endswith(b"["):  # another answer begins
                    piece = without_tail(piece)
                    yield from around(data[len(piece.data) :], base + begin + len(piece.data))
                yield _bounded(piece, limits)
            begin, scan, skipped = end, end + 1, None
            continue
        if skipped or len(buffer) - begin > limits.line_bytes:
            skipped = skipped or (base + begin, excerpt(buffer[begin : begin + 200]))
            begin = max(begin, len(buffer) - _OVERLAP_BYTES)
        scan = max(0 if skipped else 1, len(buffer) - begin - _OVERLAP_BYTES)
        base, buffer, begin = base + begin, buffer[begin:], 0
        block = content.read()
        if not block:
            break
        buffer += block
    if skipped:
        yield _too_long(*skipped, base + len(buffer), limits)
        return
    last = without_tail(Piece(buffer, base), bare)
    yield _bounded(last, limits)
    yield from around(buffer[len(last.data) :], base + len(last.data))


def around(between: bytes, offset: int) -> Iterator[Quarantined | Remark]:
    """Yield the answers that are errors, and the warnings, of what stands between series."""
    for found in _ERROR.finditer(between):
        reason = "one of the answers is an error; fix its query and export again"
        yield Quarantined(reason, byte_offset=offset + found.start(), excerpt=excerpt(found[0]))
    for found in _PARTIAL.finditer(between):
        said = f": {excerpt(found['said'])}" if found["said"] else ""
        yield Remark(f"the server warned that its answer may lack series or samples{said}; export it again")


def _bounded(piece: Piece, limits: Limits) -> Piece | Quarantined:
    if len(piece.data) <= limits.line_bytes:
        return piece
    return _too_long(piece.offset, excerpt(piece.data), piece.offset + len(piece.data), limits)


def _too_long(offset: int, beginning: str, end: int, limits: Limits) -> Quarantined:
    reason = f"a series of more than {limits.line_bytes} bytes; export a shorter range ('{end - offset}' bytes)"
    return Quarantined(reason, byte_offset=offset, excerpt=beginning)


def without_tail(last: Piece, bare: bool = False) -> Piece:
    """Return the last series without the brackets that close the document; ``cut`` when they are not there.

    With ``bare``, series stand by themselves and nothing needs to close them.
    """
    tail = _NOTHING if bare else _TAIL
    found = _END_OF_SERIES.search(last.data)
    if found and tail.match(last.data, found.end()):
        return Piece(last.data[: found.end()], last.offset)
    try:  # an unusual series, for example one with histograms
        text = last.data.decode("utf-8", "surrogateescape")
        _, length = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return Piece(last.data, last.offset, cut=True)
    end = len(text[:length].encode("utf-8", "surrogateescape"))
    return Piece(last.data[:end], last.offset, cut=not tail.match(last.data, end))

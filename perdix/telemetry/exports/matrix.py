"""Prometheus ``query_range`` JSON (a matrix), also the result of ``query`` over a range, and ``promtool query range``.

The samples of compact JSON, ``[[1,"2"],[3,"4"]]``, become lines of CSV by replacing byte sequences and are parsed by
Arrow; measured on 1.3 M samples this takes a fifth of the time of a JSON parser and its million small lists. Whatever
does not pass that way strictly (white space, odd values, damage) is read by the JSON parser, sample by sample.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perdix.telemetry.exports.content import Content
from perdix.telemetry.exports.json_text import labels_of, loads
from perdix.telemetry.exports.matrix_pieces import Head, Piece, around, pieces, read_head
from perdix.telemetry.exports.numbers import pairs, samples, seconds_to_ms
from perdix.telemetry.exports.records import Limits, Quarantined, RawSeries, Remark, excerpt

_VALUES = re.compile(rb'"values"\s*:\s*\[')
_BATCH_BYTES = 2 << 20
_EXPORT = "export with /api/v1/query_range, or save records as CSV or Parquet with the columns ts, metric and value"
_NOT_A_MATRIX = {
    "vector": "the result is an instant vector, one moment only; export with query_range",
    "scalar": "the result is a scalar; export a series with query_range",
    "string": "the result is a string; export a series with query_range",
    "streams": "these are log lines of Loki, not metrics",
}


@dataclass(frozen=True)
class _Compact:
    """A series in the usual compact form: ``body`` is ``1,"2"],[3,"4``."""

    name: str
    labels: dict[str, str]
    body: bytes
    piece: Piece


class MatrixReader:
    """Reads one document; iterate once."""

    def __init__(self, content: Content, limits: Limits) -> None:
        self.content = content
        self.limits = limits
        self._repaired = 0
        self._batch: list[_Compact] = []
        self._batch_bytes = 0

    def read(self) -> Iterator[RawSeries | Quarantined | Remark]:
        """Yield the series in the order of the document, then what is to be said of the whole."""
        head = read_head(self.content)
        if not head.rest:
            yield from self._whole(head)
            return
        cut = False
        for piece in pieces(head, self.content, self.limits):
            if isinstance(piece, Piece):
                cut = piece.cut
                yield from self._series(piece)
            else:
                yield piece
        yield from self._flush()
        if self.content.damage and not cut:
            yield Quarantined(self.content.damage.reason, byte_offset=self.content.damage.byte_offset)
        if self._repaired:
            yield Remark(f"{self._repaired} series have labels that are not UTF-8; their bytes are shown as \\xNN")

    # ------------------------------------------------------------------ one series

    def _series(self, piece: Piece) -> Iterator[RawSeries | Quarantined]:
        compact = None if piece.cut else _compact(piece)
        if compact is None:
            yield from self._flush()
            yield from self._careful(piece)
            return
        self._batch.append(compact)
        self._batch_bytes += len(compact.body)
        if self._batch_bytes > _BATCH_BYTES:
            yield from self._flush()

    def _flush(self) -> Iterator[RawSeries | Quarantined]:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch:
            return
        counts = [compact.body.count(b'"],[') + 1 for compact in batch]
        columns = _parse(b'"],['.join(compact.body for compact in batch), sum(counts))
        if columns is None:
            for compact in batch:
                yield from self._careful(compact.piece)
            return
        times_ms, values = columns
        end = 0
        for compact, count in zip(batch, counts, strict=True):
            start, end = end, end + count
            yield RawSeries(compact.name, compact.labels, times_ms[start:end], values[start:end])

    def _careful(self, piece: Piece) -> Iterator[RawSeries | Quarantined]:
        """Read one series with the JSON parser."""
        data, end = (_complete_part(piece.data)) if piece.cut else (piece.data, len(piece.data))
        try:
            element, repaired = loads(data)
        except ValueError as error:
            yield Quarantined(f"a series that is not JSON: '{error}'", None, piece.offset, excerpt(piece.data))
        else:
            self._repaired += repaired
            yield from read_element(element, piece.offset)
            if piece.cut:
                yield self._ends_early(piece, end)

    def _ends_early(self, piece: Piece, end: int) -> Quarantined:
        damage = self.content.damage
        reason = damage.reason if damage else "the document ends early (a truncated download?); export it again"
        return Quarantined(reason, byte_offset=piece.offset + end, excerpt=excerpt(piece.data[end:]))

    # ------------------------------------------------------------------ documents without the usual series

    def _whole(self, head: Head) -> Iterator[RawSeries | Quarantined | Remark]:
        rest = self.content.read_whole(self.limits.document_bytes - len(head.data))
        place = (None, 0, excerpt(head.data))
        if rest is None:
            yield Quarantined(
                f"a JSON document of more than {self.limits.document_bytes} bytes that does not begin like a"
                " query_range result; export shorter ranges",
                *place,
            )
            return
        try:
            document, _ = loads((head.data + rest).removeprefix(BOM_UTF8))
        except ValueError as error:
            damage = self.content.damage
            yield Quarantined(damage.reason if damage else f"not JSON: '{error}'; {_EXPORT}", *place)
            return
        problem, elements = _elements(document)
        if problem:
            yield Quarantined(problem, *place)
        elif not elements:
            yield from around(head.data, 0)
            yield Remark("the query matched no series")
        for element in elements:
            yield from read_element(element, 0)


def _compact(piece: Piece) -> _Compact | None:
    """Return the series when it is written in the usual way; ``None`` sends it to the JSON parser."""
    data = piece.data
    found = _VALUES.search(data)
    if not found or not data.endswith(b'"]]}') or data[found.end() : found.end() + 1] != b"[":
        return None
    header = data[: found.start()].rstrip()
    body = data[found.end() + 1 : -4]
    if not header.endswith(b",") or b" " in body or b"\n" in body or b"\t" in body or b"\r" in body:
        return None
    try:
        element, repaired = loads(header[:-1] + b"}")
    except ValueError:
        return None
    named = labels_of(element.get("metric"))
    if repaired or named is None or len(element) != 1:
        return None
    return _Compact(*named, body, piece)


def _parse(body: bytes, count: int) -> tuple[Any, Any] | None:
    """Parse ``1,"2"],[3,"4`` into times and values; ``None`` unless every sample is as it must be."""
    columns = pairs(body.replace(b'"],[', b"\n").replace(b',"+', b',"').replace(b',"', b","), "time", "value", count)
    times_ms = None if columns is None else seconds_to_ms(columns["time"])
    return None if columns is None or times_ms is None else (times_ms, columns["value"])


def _complete_part(data: bytes) -> tuple[bytes, int]:
    """Return the series closed after its last whole sample, and where that ends in ``data``."""
    found = _VALUES.search(data)
    end = data.rfind(b"]") + 1
    if not found or end <= found.end():
        return data, len(data)
    closed = data[:end]
    whole = re.search(rb"\]\s*\]\s*$", closed[found.end() - 1 :]) is not None
    return closed + (b"}" if whole else b"]}"), end


def _elements(document: Any) -> tuple[str, list[Any]]:
    """Return what is wrong with a document as a query result (empty when nothing), and its series."""
    if isinstance(document, list):
        series = (element for element in document if isinstance(element, dict) and labels_of(element.get("metric")))
        if not document or any(series):
            return "", document
    if not isinstance(document, dict):
        return f"JSON, but not a Prometheus query result; {_EXPORT}", []
    if document.get("status") == "error":
        said = f"{document.get('errorType', 'error')}: {document.get('error', 'no reason given')}"
        return f"Prometheus answered with an error: '{said[:300]}'; fix the query and export again", []
    data = document.get("data", document)
    result = data.get("result") if isinstance(data, dict) else None
    kind = data.get("resultType") if isinstance(data, dict) else None
    if kind in _NOT_A_MATRIX:
        return _NOT_A_MATRIX[kind], []
    if not isinstance(result, list):
        return f"JSON, but not a Prometheus query result (no data.result); {_EXPORT}", []
    return "", result


def read_element(element: Any, offset: int) -> Iterator[RawSeries | Quarantined]:
    """Yield the samples of one parsed series, and a quarantined row for each that is none."""
    metric = element.get("metric") if isinstance(element, dict) else None
    place = (None, offset, excerpt(str(metric or element)[:200].encode("utf-8", "backslashreplace")))
    named = labels_of(metric)
    if named is None:
        yield Quarantined("an entry of the result without its 'metric' labels", *place)
        return
    if histograms := element.get("histograms"):
        count = len(histograms) if isinstance(histograms, list) else 1
        yield Quarantined("native histograms are not read; export a quantile of them", *place, count)
    pairs = element.get("values")
    if not isinstance(pairs, list):
        if "value" in element:
            yield Quarantined(_NOT_A_MATRIX["vector"], *place)
        elif not histograms:
            yield Quarantined("a series without 'values'", *place)
        return
    shaped = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    if odd := len(pairs) - len(shaped):
        yield Quarantined("samples that are not [time, value]", *place, odd)
    times_ms, values, bad = samples([pair[0] for pair in shaped], [pair[1] for pair in shaped], 1000.0)
    if len(values):
        yield RawSeries(*named, times_ms, values)
    for index, reason in bad:
        yield Quarantined(f"{reason} (sample {index + 1} of {len(pairs)})", *place)

"""Which format a file has, detected from its first bytes; and when none fits, what it is and how to fix it."""

import re
from codecs import BOM_UTF8
from enum import StrEnum

from perdix.telemetry.exports.csv_table import parse_header
from perdix.telemetry.exports.label_text import parse_series
from perdix.telemetry.exports.numbers import number
from perdix.telemetry.exports.parquet_table import MAGIC

SNIFF_BYTES = 64 << 10
_LOOKED_AT = 20
_VICTORIA = re.compile(rb'\{\s*"metric"\s*:\s*\{.*"values"\s*:')
_MATRIX_ELEMENT = re.compile(rb'"values"\s*:\s*\[\s*\[')
_DUMP = re.compile(rb'\{\s*(?:[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*"|"(?:[^"\\]|\\.)*"\s*[,}=])')
_FOREIGN = {
    b"PK\x03\x04": "a zip archive, or a workbook of Excel; unpack it, or save it as CSV UTF-8",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it first (gzip is read as it is)",
    b"BZh": "compressed with bzip2; unpack it first (gzip is read as it is)",
    b"\xfd7zXZ": "compressed with xz; unpack it first (gzip is read as it is)",
    b"\x1f\x8b": "gzip inside gzip; unpack it once",
    b"\xff\xfe": "UTF-16 text (PowerShell's '>' writes it); save it as UTF-8",
    b"\xfe\xff": "UTF-16 text (PowerShell's '>' writes it); save it as UTF-8",
}
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


class Format(StrEnum):
    """The formats that are read."""

    QUERY_RANGE = "query_range"
    VICTORIAMETRICS = "victoriametrics"
    OPENMETRICS = "openmetrics"
    CSV = "csv"
    PARQUET = "parquet"


SPLITTABLE = frozenset({Format.VICTORIAMETRICS, Format.OPENMETRICS})
"""Formats whose plain files may be read in slices."""


def detect(head: bytes) -> Format | str:
    """Return the format of a file that begins with ``head`` (decompressed), or why it has none.

    Some lines are looked at, not only the first: that one may be the damaged one.
    """
    if head.startswith(MAGIC):
        return Format.PARQUET
    text = head.removeprefix(BOM_UTF8).lstrip()
    if problem := foreign(head):
        return problem
    lines = [line for line in text.split(b"\n", _LOOKED_AT) if line.strip()][:_LOOKED_AT]
    if any(_VICTORIA.match(line) and not _MATRIX_ELEMENT.search(line) for line in lines):
        return Format.VICTORIAMETRICS
    if any(_DUMP.match(line) for line in lines):
        return Format.OPENMETRICS
    if text.startswith((b"{", b"[")) and not any(_is_sample(line) for line in lines[1:]):
        return Format.QUERY_RANGE
    return _lines(lines)


def foreign(head: bytes) -> str:
    """Return why a file that begins with ``head`` is neither an export nor a table; empty when it may be one."""
    text = head.removeprefix(BOM_UTF8).lstrip()
    if not text:
        return "the file holds nothing but white space" if head else "the file is empty"
    for magic, reason in _FOREIGN.items():
        if head.startswith(magic):
            return reason
    if text.startswith(b"<"):
        return "an HTML or XML page (a login or error page was saved?); export again and look at the answer"
    first = text.partition(b"\n")[0]  # zeros further on may be what a crash left of the last block
    return "binary content of no known format; export it as CSV or Parquet" if _CONTROL.search(first[:4096]) else ""


def _lines(lines: list[bytes]) -> Format | str:
    if lines[0].startswith((b"#group,", b"#datatype,")):
        return "annotated CSV of InfluxDB; save it with the columns ts, metric and value, and without the lines with #"
    if parse_header(*[*lines[lines[0].startswith(b"sep=") :], b""][:2]):
        return Format.CSV
    for line in lines:
        if line.startswith((b"# HELP ", b"# TYPE ", b"# UNIT ", b"# EOF")) or _is_sample(line):
            return Format.OPENMETRICS
    return (
        "none of the known formats (query_range JSON, VictoriaMetrics JSON lines, OpenMetrics text, Parquet, CSV that"
        " begins with its titles, one of them time, ts, timestamp, date or datetime)"
    )


def _is_sample(line: bytes) -> bool:
    text = line.decode("utf-8", "replace")
    parsed = parse_series(text)
    if parsed is None:
        return False
    fields = text[parsed[2] :].split()
    return 1 <= len(fields) <= 2 and number(fields[0]) is not None

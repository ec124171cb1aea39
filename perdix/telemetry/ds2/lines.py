"""Files, lines and columns of the original DS2 program's formats, and what is said of a line that cannot be read."""

import csv
import gzip
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdix.settings.stream_job import MOST_WORKERS

MOST_BYTES = 256 * 2**20  # of one file: DS2's logs are small, and everything is held in memory
GZIP = b"\x1f\x8b"


class Ds2FileError(ValueError):
    """A file as a whole cannot be used; the message names it and the fix."""


@dataclass(frozen=True)
class SetAside:
    """A line (0: the whole file) that was not read, and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def files_of(path: Path, aside: list[SetAside]) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Yield the name and the lines of each file of a folder or an archive, or of the file itself."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and not file.name.startswith("."):
                try:
                    yield str(file.relative_to(path)), lines_of(file)
                except Ds2FileError as error:
                    aside.append(SetAside(str(file.relative_to(path)), 0, str(error)))
        return
    if not path.is_file():
        raise Ds2FileError(f"{path}: no such file or folder; name one")
    if not tarfile.is_tarfile(path):
        yield path.name, lines_of(path)
        return
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if not member.isfile() or Path(member.name).name.startswith("."):
                    continue
                if member.size > MOST_BYTES:
                    aside.append(SetAside(member.name, 0, f"{member.size} bytes are more than {MOST_BYTES}; split it"))
                    continue
                stream = archive.extractfile(member)
                yield member.name, _split(stream.read() if stream else b"")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        aside.append(SetAside(path.name, 0, f"the archive ends early or is damaged ({error}); pack it again"))


def lines_of(path: Path) -> list[tuple[int, str]]:
    """Return numbered lines without comments and empty ones; the file may be gzipped.

    Raises ``Ds2FileError`` when the file cannot be read, or is too long.
    """
    try:
        with path.open("rb") as stream:
            packed = stream.peek(2)[:2] == GZIP
            data = (gzip.GzipFile(fileobj=stream) if packed else stream).read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise Ds2FileError(f"{path}: cannot be read ({why}); name another file") from None
    if len(data) > MOST_BYTES:
        raise Ds2FileError(f"{path}: more than {MOST_BYTES} bytes; split it")
    return _split(data)


def _split(data: bytes) -> list[tuple[int, str]]:
    text = data.decode("utf-8-sig", errors="replace")
    numbered = ((number, line.strip()) for number, line in enumerate(text.split("\n"), start=1))
    return [(number, line) for number, line in numbered if line and not line.startswith("#")]


def columns_of(line: str) -> list[str]:
    """Return the columns of a line; the program writes no quotes, but a table that was edited may have some."""
    columns = next(csv.reader([line]), [""]) if '"' in line else line.split(",")
    return [column.strip() for column in columns]


def is_header(text: str, first: str) -> bool:
    """Whether a line names columns: what should be a number is a word."""
    words = ("epoch", "operator_id", "source_operator")
    return number_of(text) is None and first.lower().startswith(words)


def number_of(text: str) -> float | None:
    """Return the number that a column holds, NaN and infinite ones too; ``None`` where it holds none."""
    try:
        return float(text)
    except ValueError:
        return None


def whole_of(text: str) -> int | None:
    """Return the whole number that a column holds, or ``None``."""
    try:
        return int(text)
    except ValueError:
        return None


def instances_of(text: str) -> int | None:
    """Return the number of instances that a column holds, 1 to ``MOST_WORKERS``, or ``None``."""
    count = whole_of(text)
    return count if count is not None and 1 <= count <= MOST_WORKERS else None


def first_of(aside: Sequence[SetAside]) -> str:
    """Return the first thing that was set aside, to be reported where nothing could be read."""
    return f" ({aside[0]})" if aside else ""

"""Whether damaged exports are read without a traceback, and every sample of them is counted.

Run ``python -m benchmarks.mutations [--count 10000] [--seed 1] [--json]``, or ``make mutations``. Small exports of
every format are damaged at random: bytes flipped, put in, left out or repeated, bytes that are not UTF-8, halves of
UTF-16 pairs, control characters, numbers that are none, files cut short, gzip broken. Each is read and staged as an
ingest's task does it. A traceback, a count that does not add up, fewer samples than lines where a line has one at
least, or a staged file with other rows than were counted is a failure; each is printed with the number that makes it
again, and the exit status is then 1.
"""

from __future__ import annotations

import gzip
import random
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.export_forms import ALL_FORMS, write_exports
from benchmarks.harness import options, write_json
from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.exports.records import Limits
from perdix.telemetry.queries import SeriesMap, load_series_map
from perdix.telemetry.series import Series
from perdix.telemetry.staged_export import ExportPart, Receipt, stage_part

COUNT = 10_000
START_MS = 1_700_000_000_000
LIMITS = Limits(line_bytes=20_000, document_bytes=200_000, quarantine_rows=20)
NOISE = (
    b"\xff", b"\xfe\xff", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"\\udfff", b"\x00", b"\x1b[2J", b"\r", b"\n", b"\t",
    b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b" ", b"#", b"=", b"NaN", b"+Inf", b"1e999", b"-", b"9" * 40,
    b"\xe2\x80\xae", b"\xef\xbb\xbf", b"[" * 2_000, b'{"a":' * 2_000, b"]]}", b'"values":[[', b" # {} 1 1", b"null",
)  # fmt: skip
GZIP = b"\x1f\x8b"
HAVE_LINES = ("openmetrics", "victoriametrics")  # of a table's, a line may have empty cells only
Step = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Failure:
    """A mutation that was not read as it must be; ``number`` makes it again."""

    number: int
    file: str
    problem: str


@dataclass
class Result:
    """What came of all mutations."""

    count: int
    seconds: float = 0.0
    tracebacks: int = 0
    failures: list[Failure] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)
    samples: Counter[str] = field(default_factory=Counter)


def mutations(count: int, seed: int, folder: Path) -> Result:
    """Damage and stage ``count`` exports under ``folder``."""
    series_map = load_series_map()
    originals = list(_originals(folder / "originals"))
    result, began_s = Result(count), time.perf_counter()
    for number in range(seed * 1_000_000, seed * 1_000_000 + count):
        chance = random.Random(number)
        name, content = originals[number % len(originals)]
        path = folder / "export"
        path.write_bytes(_mutated(content, chance))
        file = chance.choice((name, name, f"{name}\udcff", f"[/]{name}", f"{name}\n"))
        _judge(number, path, file, series_map, result)
    result.seconds = round(time.perf_counter() - began_s, 1)
    return result


def _judge(number: int, path: Path, file: str, series_map: SeriesMap, result: Result) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as staging:
        try:
            receipt = stage_part(ExportPart(str(path), file, "export"), Path(staging), series_map, Hint(), LIMITS)
            problem = "; ".join([*_wrong(receipt), *_lost(path.read_bytes(), receipt)])
        except Exception:  # exactly what is looked for
            result.tracebacks += 1
            problem = traceback.format_exc()
        else:
            result.formats[receipt.format] += 1
            counts = {"kept": receipt.kept, "masked": receipt.masked, "quarantined": receipt.quarantined}
            result.samples.update(counts)
    if problem:
        result.failures.append(Failure(number, ascii(file), problem))


def _wrong(receipt: Receipt) -> Iterator[str]:
    staged = sum(pq.read_metadata(path).num_rows for paths in receipt.samples.values() for path in paths)
    if staged != receipt.kept + receipt.masked:
        yield f"{staged} rows staged, {receipt.kept} kept and {receipt.masked} masked"
    rows = pq.read_table(receipt.quarantine).to_pylist()
    if sum(row["samples"] for row in rows) != receipt.quarantined:
        yield f"quarantine rows stand for another number of samples than {receipt.quarantined}"
    for row in rows:
        if "please report" in row["reason"]:
            yield row["reason"]
    if Receipt.from_json(receipt.to_json()) != receipt:
        yield "the receipt does not travel as it is"


def _lost(content: bytes, receipt: Receipt) -> Iterator[str]:
    """Hold what was counted against the lines of the damaged file itself, each of which has a sample at least."""
    try:
        text = gzip.decompress(content) if content.startswith(GZIP) else content
    except (OSError, EOFError, zlib.error):  # broken gzip: nobody knows how many lines there were
        return
    lines = sum(bool(line.strip()) and not line.lstrip().startswith(b"#") for line in text.split(b"\n"))
    read = receipt.kept + receipt.masked + receipt.quarantined
    if receipt.format in HAVE_LINES and read < lines:
        yield f"{read} samples are counted of {lines} lines"


def _originals(folder: Path) -> Iterator[tuple[str, bytes]]:
    times = START_MS + 15_000 * np.arange(40, dtype=np.int64)
    curve = 1e5 + 1e4 * np.sin(np.arange(40))
    series = [
        Series("cpu_load", f"tm-{worker}", times, curve / 2e5, {"worker": f"tm-{worker}", "pod": 'q"u\\o'}, "gauge")
        for worker in range(3)
    ]
    series.append(Series("workload_per_s", None, times, curve, {"topic": "größe"}, "gauge"))
    for form in ALL_FORMS:
        for gzipped in (False, True):
            for path in write_exports(series, folder / f"{form}-{gzipped}", form, "export", gzipped=gzipped):
                yield path.name, path.read_bytes()


def _mutated(content: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 4)):
        content = chance.choice(_STEPS)(content, chance)
    return content


def _place(content: bytes, chance: random.Random) -> int:
    return chance.randint(0, len(content))


def _replace(content: bytes, chance: random.Random) -> bytes:
    at, noise = _place(content, chance), chance.choice(NOISE)
    return content[:at] + noise + content[at + len(noise) :]


def _insert(content: bytes, chance: random.Random) -> bytes:
    at = _place(content, chance)
    return content[:at] + chance.choice(NOISE) + content[at:]


def _flip(content: bytes, chance: random.Random) -> bytes:
    at = _place(content, chance)
    return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]


def _leave_out(content: bytes, chance: random.Random) -> bytes:
    at = _place(content, chance)
    return content[:at] + content[at + chance.randint(1, 200) :]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    at, length = _place(content, chance), chance.randint(1, 300)
    return content[:at] + content[at : at + length] * 2 + content[at:]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: max(8, _place(content, chance))]


_STEPS: tuple[Step, ...] = (_replace, _replace, _insert, _insert, _flip, _flip, _leave_out, _repeat, _cut)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = mutations(given.count, given.seed, Path(folder))
    if given.json:
        write_json(vars(result))  # asdict makes another thing of a Counter
    else:
        for failure in result.failures[:20]:
            print(f"mutation {failure.number} of {failure.file}:\n{failure.problem}")
        print(f"{result.count:,} mutated exports in {result.seconds} s: {result.tracebacks} tracebacks,")
        print(f"{len(result.failures)} failures; read as {dict(result.formats)}; samples {dict(result.samples)}")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the lake lacks of a live job, and so is to be pulled: ranges of time."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from perdix.settings.durations import DAY_S
from perdix.settings.home import Home
from perdix.settings.moments import moment
from perdix.settings.stream_job import StreamJob
from perdix.telemetry.lake import Lake
from perdix.telemetry.landing import was_pulled
from perdix.telemetry.partitions import MANIFEST, safe_key

PASSED_S: Final = 0.001  # what is pulled begins so long after a sample that is there, and ends so long before one
GAP_S: Final = 300.0  # between two sources: a shorter gap is not filled

Range = tuple[float, float]  # from when until when, epoch seconds
Ranges = tuple[Range, ...]


def lacking(home: Home, lake: Lake, job: StreamJob, now_s: float, history_days: int, *, again: bool = False) -> Ranges:
    """Return what the lake lacks of the last ``history_days`` of a job, ascending.

    Also from before and between what was pulled: a schedule pulls one day, and a server may have been away on another.
    What was asked for and is not there is not asked for twice; what was answered in part is, until it is answered
    whole. A source that reaches into the future, as of a clock that ran ahead, does not count.

    Raises ``LakeError`` as :meth:`~perdix.telemetry.lake.Lake.read`.

    ``again``: what was pulled or asked for before is lacking, too, for gaps in it; never what exports by hand hold.
    """
    from_s = now_s - history_days * DAY_S
    by_hand, pulled = _held(lake, job.name, now_s)
    if again:
        return _outside(from_s, now_s, by_hand)
    partial = _asked(home, job, "partial")
    whole = (part for first_s, last_s in pulled for part in _outside(first_s, last_s, partial))
    return _outside(from_s, now_s, [*_asked(home, job), *by_hand, *whole])


def lacking_of_day(lake: Lake, job: StreamJob, day: str, now_s: float) -> Ranges:
    """Return what of a day (``YYYY-MM-DD``, UTC) until now is to be pulled, ascending: what no export by hand holds.

    Raises ``LakeError`` as :meth:`~perdix.telemetry.lake.Lake.read`.
    """
    start_s = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    until_s = min(start_s + DAY_S - PASSED_S, now_s)  # else a day that is not over repeats its newest samples
    return _outside(start_s, until_s, _held(lake, job.name, now_s)[0])


def left_to_exports(lake: Lake, job: str, from_s: float, now_s: float, needed: Sequence[str]) -> list[str]:
    """Return in words which metrics are missing where nothing is pulled because exports by hand reach there.

    Raises ``LakeError`` as :meth:`~perdix.telemetry.lake.Lake.read`.
    """
    metrics: dict[str, set[str]] = {}
    for row in lake.read("series", job, columns=["source", "metric"]).to_pylist():
        metrics.setdefault(row["source"], set()).add(row["metric"])
    known = _known(lake, job, now_s)
    found = []
    for source, first_s, last_s in ((source, *held) for source, some in known.items() for held in some):
        if was_pulled(source) or last_s < from_s:
            continue
        near = (name for name, some in known.items() if any(a_s <= last_s and b_s >= first_s for a_s, b_s in some))
        beside = [metrics.get(name, set()) for name in near]
        if lacked := ", ".join(name for name in needed if name not in set().union(*beside)):
            where = f"{moment(first_s)} to {moment(last_s)} is left to {source}"
            found.append(f"{where}, which holds no {lacked}: ingest an export of it, too")
    return found


def ingested_s(lake: Lake, job: str) -> float | None:
    """Return when something was last ingested of a job, epoch seconds; ``None`` where nothing ever was."""
    of_job = (lake.root / "sources" / f"job={safe_key('job', job)}").glob(f"source=*/{MANIFEST}")
    return max((path.stat().st_mtime for path in of_job), default=None)


def remember_asked(home: Home, job: StreamJob, answered: Iterable[Range], partial: Iterable[Range] = ()) -> None:
    """Remember which ranges a server has answered for, whole and in part, of this job with these settings."""
    whole = _joined([*_asked(home, job), *answered])
    parts = (part for each in (*_asked(home, job, "partial"), *partial) for part in _outside(*each, whole))
    with suppress(OSError):  # then it is asked for once more
        _write_asked(home, job.name, {"of": _asked_of(job), "ranges": whole, "partial": _joined(parts)})


def forget_asked(home: Home, job: str, day: str) -> None:
    """Forget what was asked for of a job up to the end of a day (ISO, UTC) that is removed, so that it is lacking.

    Raises ``OSError`` where that cannot be written.
    """
    since_s = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() + DAY_S
    try:
        kept = json.loads(_asked_file(home, job).read_bytes())
        newer = {
            key: [(max(first_s, since_s), last_s) for first_s, last_s in kept.get(key, ()) if last_s > since_s]
            for key in ("ranges", "partial")
        }
    except (FileNotFoundError, ValueError, TypeError, AttributeError):  # nothing that would be believed either
        return
    _write_asked(home, job, {**kept, **newer})


def _write_asked(home: Home, job: str, asked: Mapping[str, Any]) -> None:
    path = _asked_file(home, job)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(asked), encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _asked(home: Home, job: StreamJob, key: str = "ranges") -> Ranges:
    """Return what was asked for before with the same settings, ascending; nothing where that cannot be read."""
    try:
        kept = json.loads(_asked_file(home, job.name).read_bytes())
        ranges = [(float(first_s), float(last_s)) for first_s, last_s in kept.get(key, ())]
        return _joined(ranges) if kept["of"] == _asked_of(job) else ()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ()


def _asked_file(home: Home, job: str) -> Path:
    return home.landing / safe_key("job", job) / ".asked.json"


def _asked_of(job: StreamJob) -> str:
    """Return what distinguishes the questions for a job from those with other settings."""
    source = "" if job.prometheus is None else job.prometheus.model_dump_json()
    return hashlib.sha256(f"{job.engine} {source}".encode()).hexdigest()


def _held(lake: Lake, job: str, now_s: float) -> tuple[list[Range], list[Range]]:
    """Return from when until when the exports of a job reach: those that were ingested by hand, and those pulled.

    Where exports by hand reach nothing is pulled: of a metric that both hold, theirs counts.
    """
    by_hand, pulled = list[Range](), list[Range]()
    for source, held in _known(lake, job, now_s).items():
        (pulled if was_pulled(source) else by_hand).extend(held)
    return by_hand, pulled


def _known(lake: Lake, job: str, now_s: float) -> dict[str, Ranges]:
    """Return from when until when each source has samples: its days, from its oldest sample to its newest."""
    rows = lake.read("sources", job, columns=["source", "first_ts", "last_ts"]).to_pylist()
    known = (row for row in rows if row["first_ts"] is not None and row["last_ts"] is not None)
    held = {row["source"]: (row["first_ts"].timestamp(), row["last_ts"].timestamp()) for row in known}
    days: dict[str, list[Range]] = {}
    for part in lake.manifests("samples", job):
        start_s = datetime.fromisoformat(part.keys["day"]).replace(tzinfo=UTC).timestamp()
        days.setdefault(part.keys["source"], []).append((start_s, start_s + DAY_S))
    return {
        source: _joined((max(first_s, a_s), min(last_s, b_s)) for a_s, b_s in days.get(source, [(first_s, last_s)]))
        for source, (first_s, last_s) in held.items()
        if last_s <= now_s
    }


def _joined(ranges: Iterable[Range]) -> Ranges:
    """Return ranges ascending, those with less than :data:`GAP_S` between them as one."""
    joined: list[Range] = []
    for first_s, last_s in sorted(ranges):
        if joined and first_s <= joined[-1][1] + GAP_S:
            joined[-1] = joined[-1][0], max(joined[-1][1], last_s)
        else:
            joined.append((first_s, last_s))
    return tuple(joined)


def _outside(from_s: float, until_s: float, held: Iterable[Range]) -> Ranges:
    """Return what is left of a range without what is held, ascending."""
    return tuple(_cut(from_s, until_s, _joined(held)))


def _cut(from_s: float, until_s: float, held: Sequence[Range]) -> Iterator[Range]:
    for first_s, last_s in held:
        before_s = min(first_s - PASSED_S, until_s)
        if from_s <= before_s:
            yield from_s, before_s
        from_s = max(from_s, last_s + PASSED_S)
    if from_s <= until_s:
        yield from_s, until_s

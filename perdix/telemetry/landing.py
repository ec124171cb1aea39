"""Which files a user means, and copies of them under the home, so that a later run finds what the first one read."""

import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from perdix.settings.home import Home
from perdix.settings.outside_text import printable
from perdix.telemetry.exports.naming import Hint
from perdix.telemetry.partitions import digest_of, safe_key, source_key

_NO_HINT: Final = Hint()
_PULLED: Final = re.compile(r"prometheus-(\d{4}-\d{2}-\d{2})\.json\.gz")


@dataclass(frozen=True)
class ExportFile:
    """A file to read."""

    path: Path
    name: str  # its name for people: relative to the folder that was given
    source: str  # its partition in the lake. The same file has the same one, wherever it is ingested from
    problem: str = ""  # why it cannot be read; empty when it may be
    hint: Hint = _NO_HINT  # what the user knows of it and it does not say


def export_files(paths: Iterable[Path | str]) -> list[ExportFile]:
    """Return the files that ``paths`` name, folders read to their depths, sorted by name.

    Hidden files are passed over. A link inside a folder that leads out of it is named as a problem and not followed:
    an export folder from somewhere else must not choose which files of this machine are read. Files of the same name
    are distinguished by the names of their folders.
    """
    return _distinct(_found(paths))


def land(home: Home, paths: Iterable[Path | str], job: str, hint: Hint = _NO_HINT) -> list[ExportFile]:
    """Copy the files that ``paths`` name to ``home.landing/<job>/`` and return the copies (and the problems).

    A copy, not a link: what was ingested stays as it was when the user goes on writing the original. A file of the
    same name replaces the earlier copy, in one step; one that is named like a pulled day lies beside that day.
    The hint lies beside its copy, with the digest of what it is of: another run may take that up.
    """
    folder = home.landing / safe_key("job", job)
    folder.mkdir(parents=True, exist_ok=True)
    return [_copied(file, folder, hint) for file in _distinct(_not_pulled(file, folder) for file in _found(paths))]


def pulled_name(day: str) -> str:
    """Return the name of a day (``YYYY-MM-DD``) that perdix pulled from Prometheus, in a landing folder."""
    return f"prometheus-{day}.json.gz"


def pulled_day(source: str) -> str | None:
    """Return which day a source is that perdix pulled; ``None`` where it is a file that a user gave."""
    named = _PULLED.fullmatch(source)
    try:
        return None if named is None else date.fromisoformat(named[1]).isoformat()
    except ValueError:  # named like a day, and none
        return None


def was_pulled(source: str) -> bool:
    """Say whether a source is a day that perdix pulled, and not a file that a user gave."""
    return pulled_day(source) is not None


def landed(home: Home, job: str) -> list[ExportFile]:
    """Return the copies that :func:`land` made for ``job``."""
    folder = home.landing / safe_key("job", job)
    return [_hinted(file) for file in export_files([folder])] if folder.is_dir() else []


def _found(paths: Iterable[Path | str]) -> list[ExportFile]:
    found: dict[Path, ExportFile] = {}
    for given in paths:
        for file in _expand(Path(given)):
            found.setdefault(file.path.absolute(), file)
    return list(found.values())


def _expand(given: Path) -> Iterator[ExportFile]:
    if not given.is_dir():
        yield _file(given, given.name, _problem(given))
        return
    top = given.resolve()
    for folder, folders, names in os.walk(given):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            if not name.startswith("."):
                outside = path.is_symlink() and not path.resolve().is_relative_to(top)
                problem = "a link that leads out of the folder; give the file itself" if outside else _problem(path)
                yield _file(path, path.relative_to(given).as_posix(), problem)


def _file(path: Path, name: str, problem: str) -> ExportFile:
    return ExportFile(path, printable(name), source_key(name), problem)


def _problem(path: Path) -> str:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "no such file"
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if not stat.S_ISREG(mode):
        return "not a regular file (a pipe, a socket or a device)"
    return "" if os.access(path, os.R_OK) else "cannot be opened: permission denied"


def _not_pulled(file: ExportFile, folder: Path) -> ExportFile:
    """Return a user's file under a name that no pulled day has; a day that lies in the landing folder keeps its own."""
    if not was_pulled(file.source) or _lies_at(file, folder / file.source):
        return file
    return replace(file, source=f"given-{file.source}")


def _lies_at(file: ExportFile, target: Path) -> bool:
    return file.path.resolve() == target.resolve()


def _distinct(found: Iterable[ExportFile]) -> list[ExportFile]:
    """Return the files by name; those that would share a partition get longer ones, folder by folder."""
    files = list(found)
    for depth in range(2, 64):
        groups: dict[str, list[ExportFile]] = {}
        for file in files:
            groups.setdefault(file.source, []).append(file)
        if all(len(group) == 1 for group in groups.values()):
            break
        files = [
            _file(file.path, "/".join(file.path.absolute().parts[-depth:]).lstrip("/"), file.problem)
            if len(groups[file.source]) > 1
            else file
            for file in files
        ]
    return sorted(files, key=lambda file: file.name)


def _copied(file: ExportFile, folder: Path, hint: Hint) -> ExportFile:
    if file.problem:
        return file
    target = folder / file.source
    landed_before = _lies_at(file, target)
    if landed_before and hint == _NO_HINT:
        return _hinted(file)
    part = folder / f".{file.source}.{os.getpid()}"
    try:
        if landed_before:
            _write_hints(target, {digest_of(target): hint})
        else:
            shutil.copyfile(file.path, part)
            _replace(target, part, hint)
    except OSError as error:
        part.unlink(missing_ok=True)
        return replace(file, problem=f"cannot be copied: {error.strerror}")
    return replace(file, path=file.path if landed_before else target, hint=hint)


def _replace(target: Path, part: Path, hint: Hint) -> None:
    """Put a copy in its place; whenever that ends, what lies there has its own hint beside it, or none."""
    digest = "" if hint == _NO_HINT else digest_of(part)
    own = {digest: hint} if digest else {}
    if own:
        _write_hints(target, {**_readable_hints(target), **own})
    part.replace(target)
    _write_hints(target, own)


def _write_hints(target: Path, hints: dict[str, Hint]) -> None:
    """Write beside a file, in one step, what the user knows of each content (SHA-256) that it has or is to have."""
    beside = _beside(target)
    if not hints:
        beside.unlink(missing_ok=True)
        return
    part = beside.with_name(f"{beside.name}.{os.getpid()}")
    part.write_text(json.dumps({digest: asdict(hint) for digest, hint in hints.items()}), encoding="utf-8")
    part.replace(beside)


def _hints(target: Path) -> dict[str, Hint]:
    known = json.loads(_beside(target).read_text(encoding="utf-8"))
    if not isinstance(known, dict):
        raise ValueError("not an object")
    return {digest: Hint(**hint) for digest, hint in known.items()}


def _readable_hints(target: Path) -> dict[str, Hint]:
    try:
        return _hints(target)
    except (OSError, ValueError, TypeError):
        return {}


def _hinted(file: ExportFile) -> ExportFile:
    """Return a copy with its hint, which is not of another content that somebody put in its place."""
    if file.problem:
        return file
    try:
        return replace(file, hint=_hints(file.path).get(digest_of(file.path), _NO_HINT))
    except FileNotFoundError:
        return file
    except (OSError, ValueError, TypeError) as error:
        fix = "ingest the file again with --metric or --timezone"
        return replace(file, problem=f"{_beside(file.path)} cannot be read ({error}); {fix}")


def _beside(file: Path) -> Path:
    return file.with_name(f".{file.name}.hint")

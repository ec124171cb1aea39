"""Folders and files that nobody but their owner may read: decisions and their reasons reveal a company's systems."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_folder(path: Path) -> None:
    """Make a folder, if it is absent, that only its owner may enter; one that is there is closed to others.

    Left as it is: a folder of another owner, one that all share (``/tmp``), and one that holds more than perdix' files,
    as the user's own home or the working folder.
    """
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    everyones = {place.resolve() for place in (Path.cwd(), Path.home())}
    if not any(place.is_relative_to(path.resolve()) for place in everyones):
        _close_to_others(path)


def private_file(path: Path) -> None:
    """Make a file, if it is absent, that only its owner may read and write; one that is there is closed to others."""
    with suppress(OSError):  # whoever opens it reports why that cannot be done
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, stat.S_IRUSR | stat.S_IWUSR))
    _close_to_others(path)


def _close_to_others(path: Path) -> None:
    with suppress(OSError):  # absent, or on a file system without rights
        found = path.stat()
        if found.st_mode & _OTHERS and found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)

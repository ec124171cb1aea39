"""The one reader of YAML: with line numbers, with bounds, and with the place in every error.

Whatever lies where a file should (a folder, a pipe, a loop of links) and whatever a file holds (a thousand brackets,
aliases that unfold to a billion values) ends in a :class:`SettingsError` after a bounded time.
"""

import os
import stat
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError, MaxDepthExceededError
from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent

from perdix.settings.plain_error import SettingsError
from perdix.settings.secrets import without_user

MOST_BYTES = 256 << 10
MOST_DEPTH = 50
MOST_VALUES = 10_000
OF_DATES = "; write a date as 2026-01-31, a moment as 2026-01-31T06:00:00Z"


class UnreadableError(SettingsError):
    """A file that cannot be read at all: by what it is, or for now, as where too many files are open."""


def read_yaml(path: Path) -> Any:
    """Read one YAML document, keeping line numbers.

    Raises ``SettingsError`` when there is no file that can be read, or it is not UTF-8, not YAML, too large, too deep,
    or has aliases that unfold to too much.
    """
    text = _text_of(path)
    yaml = YAML(typ="rt")
    yaml.max_depth = MOST_DEPTH
    yaml.Composer, yaml.Constructor = _Bounded, _Placing
    try:
        return yaml.load(text)
    except MaxDepthExceededError as error:
        raise SettingsError(f"{_place(path, error)}: more than {MOST_DEPTH} levels deep; flatten it") from None
    except _ImpossibleError as error:
        raise SettingsError(f"{_place(path, error)}: {without_user(str(error.problem))}") from None
    except MarkedYAMLError as error:
        problem = str(error.problem).partition(" with value ")[0]  # of a key that stands twice: it may be a secret
        raise SettingsError(f"{_place(path, error)}: not YAML: {without_user(problem)}") from None
    except YAMLError as error:
        raise SettingsError(f"{path}: not YAML: {without_user(str(error))}") from None
    except Exception as error:  # the parser's own defects, which odd text finds, are about this file too
        raise SettingsError(
            f"{path}: not YAML that can be read ({type(error).__name__}: {without_user(str(error))})"
        ) from None


def _text_of(path: Path) -> str:
    try:
        data = _bytes_of(path)
    except FileNotFoundError:
        raise UnreadableError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        said = getattr(error, "strerror", None) or error
        raise UnreadableError(f"{path}: cannot be read: {said}; fix or remove it") from None
    if len(data) > MOST_BYTES:
        raise SettingsError(f"{path}: more than {MOST_BYTES:,} bytes are no settings; split it or take it away")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None


def _bytes_of(path: Path) -> bytes:
    """Return at most one byte more than may be; a pipe must not be waited for, so it is opened without."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a file but a folder, a pipe or a device")
        blocks, left = [], MOST_BYTES + 1
        while left and (block := os.read(descriptor, left)):
            blocks.append(block)
            left -= len(block)
        return b"".join(blocks)
    finally:
        os.close(descriptor)


def _place(path: Path, error: MarkedYAMLError) -> str:
    return f"{path}:{error.problem_mark.line + 1 if error.problem_mark else 1}"


class _ImpossibleError(ConstructorError):
    """A value that its type does not have, such as the 30th of February."""


class _Placing(RoundTripConstructor):
    """Says where a value stands that cannot be."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            fix = OF_DATES if str(node.tag).endswith(":timestamp") else ""
            raise _ImpossibleError(None, None, f"{error}{fix}", node.start_mark) from None


class _Bounded(Composer):
    """Counts values as whoever walks over the document will meet them: what an alias names, once more each time."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False
        self._values = 0
        self._named: dict[str, int] = {}  # anchor -> values under it, once all of it was read

    def compose_node(self, parent: Any, index: Any) -> Any:
        event, before = self.parser.peek_event(), self._values
        anchor = event.anchor
        if isinstance(event, AliasEvent):
            if anchor in self.anchors and anchor not in self._named:
                raise ComposerError(None, None, f"'*{anchor}' stands within what it names", event.start_mark)
            self._values += self._named.get(anchor, 1)
        else:
            self._named.pop(anchor, None)
            self._values += 1
        if self._values > MOST_VALUES:
            problem = f"more than {MOST_VALUES:,} values, what aliases repeat included"
            raise ComposerError(None, None, problem, event.start_mark)
        node = super().compose_node(parent, index)
        if anchor is not None and not isinstance(event, AliasEvent):
            self._named[anchor] = self._values - before
        return node

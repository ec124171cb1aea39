"""The base of errors that are stored and shown: whatever they quote is printable, and holds no secret."""

from perdix.settings.outside_text import printable
from perdix.settings.secrets import masked


def presentable(text: str) -> str:
    """Return text from outside as it may be stored, logged and shown."""
    return printable(masked(text))


class PlainError(Exception):
    """An error whose message may quote a file, a server or a command line; it is made presentable here, once."""

    def __init__(self, message: str) -> None:
        super().__init__(presentable(message))


class SettingsError(PlainError):
    """A setting that cannot be used. The message names file and line or variable, what is wrong, and the fix."""

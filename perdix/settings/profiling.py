"""What ``perdix profile --live`` and ``perdix sample --live`` may do to a stream job: commands of its operator."""

import shlex
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from perdix.settings.size_grid import Grid
from perdix.settings.strict import Strict

PER_S, CPU_CORES, MEMORY_MB = "{per_s}", "{cpu_cores}", "{memory_mb}"


def _words(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"{error}; or write the command as a list of words") from None


def _with_a_program(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0].strip():
        raise ValueError("names no program")
    if "/" in words[0] and not words[0].startswith("/"):
        raise ValueError(
            f"'{words[0]}' depends on the folder that perdix is started in; write its whole path, or a name that PATH "
            "finds"
        )
    return words


def _having(words: tuple[str, ...], *places: str) -> tuple[str, ...]:
    for place in places:
        if not any(place in word for word in words):
            raise ValueError(f"{place} stands nowhere in it; write it where the number belongs")
    return words


Command = Annotated[tuple[str, ...], BeforeValidator(_words), AfterValidator(_with_a_program)]
"""Words of a command; no shell reads them. A text is split as a shell would."""
WithARate = Annotated[Command, AfterValidator(lambda words: _having(words, PER_S))]
WithASize = Annotated[Command, AfterValidator(lambda words: _having(words, CPU_CORES, MEMORY_MB))]


class Profiling(Strict):
    """Commands that put a running job under load."""

    load: WithARate  # lets ``{per_s}`` records/s arrive until it is ended by SIGTERM
    fail: Command | None = None  # lets one worker fail, as a machine does that is lost; the job comes back by itself
    # Gives the job's only worker ``{cpu_cores}`` cores and ``{memory_mb}`` MB, and ends
    resize: WithASize | None = None
    restore: Command | None = None  # undoes what ``resize`` did, and ends
    sizes: Grid | None = None  # what ``resize`` may be asked for
    # Records/s that ``load`` is asked for at most while sizes are sampled
    most_per_s: Annotated[float, Field(gt=0)] | None = None

    def commands(self) -> dict[str, tuple[str, ...]]:
        """Return those that are named."""
        given = {"load": self.load, "fail": self.fail, "resize": self.resize, "restore": self.restore}
        return {name: words for name, words in given.items() if words is not None}

"""Making a policy of a table by its name and options; what is wrong is answered with the fix."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from perdix.settings.nearest_name import meant
from perdix.settings.strict import Strict
from perdix.settings.yaml_files import SettingsError

Made = TypeVar("Made")


def made_of(
    table: Mapping[str, tuple[type[Strict], Callable[[Any], Made]]],
    name: str,
    options: Mapping[str, Any] | None = None,
    beside: Collection[str] = (),
) -> Made:
    """Return what ``table`` makes of ``name`` and ``options``.

    Raises ``SettingsError``, naming what is not known or not allowed, and the nearest that is.

    ``beside``: options that who asks takes for itself, named among the known ones.
    """
    if name not in table:
        raise SettingsError(f"unknown policy '{name}'; {_meant(name, table)}")
    model, make = table[name]
    try:
        return make(model.model_validate(dict(options or {})))
    except ValidationError as error:
        lines = [_explain(f"policy '{name}'", [*model.model_fields, *beside], item) for item in error.errors()]
        raise SettingsError("\n".join(lines)) from None


def _explain(named: str, known: Iterable[str], item: Any) -> str:
    option = ".".join(str(part) for part in item["loc"])
    if not option:
        return f"{named}: {item['msg'].removeprefix('Value error, ')}"
    if item["type"] == "extra_forbidden":
        return f"{named}: unknown option '{option}'; {_meant(option, known, 'leave it out; ')}"
    return f"{named}: option '{option}': {item['msg']} (found {item['input']!r})"


def _meant(word: str, known: Iterable[str], fix: str = "") -> str:
    return meant(word, known, f"{fix}known: {', '.join(sorted(known))}")

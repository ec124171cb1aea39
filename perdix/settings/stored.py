"""Dataclasses, as they are stored: their fields by name, in JSON's own types."""

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from perdix.settings.outside_text import quoted

Kind = TypeVar("Kind")
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}  # made when they are first needed, as each takes a millisecond


def stored(item: Any) -> dict[str, Any]:
    """Return a dataclass's fields by their names, in JSON's own types."""
    found: dict[str, Any] = _adapter(type(item)).dump_python(item, mode="json")
    return found


def restored(kind: type[Kind], state: Any) -> Kind:
    """Return a dataclass from its fields by their names; what is absent has its default, what has no field is left out.

    Raises ``ValueError`` with the first field that is missing, or is not of its type.
    """
    try:
        found: Kind = _adapter(kind).validate_python(state)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f"{part}: " for part in first["loc"])
        why = f"{where}{first['msg']}, found {quoted(first['input'])}"
        raise ValueError(f"not the state of {kind.__name__}: {why}") from None
    return found


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]

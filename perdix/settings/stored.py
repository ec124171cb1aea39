"""Dataclasses, from the JSON values that they were stored as."""

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

Kind = TypeVar("Kind")
_READERS: dict[Any, TypeAdapter[Any]] = {}  # made when they are first needed, as each takes a millisecond


def restored(kind: type[Kind], state: Any) -> Kind:
    """Return a dataclass from its fields by their names; what is absent has its default, what has no field is left out.

    Raises ``ValueError`` with the first field that is missing, or is not of its type.
    """
    if kind not in _READERS:
        _READERS[kind] = TypeAdapter(kind)
    try:
        found: Kind = _READERS[kind].validate_python(state)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise ValueError(f"not the state of {kind.__name__}: {where}{first['msg']}, found {first['input']!r}") from None
    return found

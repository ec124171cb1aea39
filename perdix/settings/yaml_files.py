"""YAML into pydantic models, with the file, the line and the fix in every error."""

from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from perdix.settings.home import SHIPPED, conf_part
from perdix.settings.nearest_name import meant
from perdix.settings.outside_text import quoted
from perdix.settings.plain_error import SettingsError
from perdix.settings.secrets import names_a_secret, without_user
from perdix.settings.yaml_text import UnreadableError, read_yaml

__all__ = ["SettingsError", "UnreadableError", "known_names", "load_known", "load_model", "place_in", "read_yaml"]
Model = TypeVar("Model", bound=BaseModel)
MOST_ERRORS = 20
_MAPPING = "expected a mapping; write its keys below it, each on a line of its own"
_NUMBER = "expected a number; write it without a unit"
_ADDRESS = "expected an address; write it as http://host:9090"
_IN_OUR_WORDS = {  # pydantic's name of an error -> what is said in place of its own words, which name no fix
    "model_type": _MAPPING,
    "dict_type": _MAPPING,
    "float_parsing": _NUMBER,
    "int_parsing": _NUMBER,
    "string_type": "expected text; put it in quotes",
    "url_parsing": _ADDRESS,
    "url_scheme": _ADDRESS,
    "path_type": "expected the path of a file",
    "datetime_from_date_parsing": "expected a moment; write it as 2026-01-31T06:00:00Z",
}


def load_model(path: Path, model: type[Model], **defaults: Any) -> Model:
    """Read ``path`` into ``model``; ``defaults`` fill keys that the file leaves out.

    Raises ``SettingsError``, naming file, line, key, what was wrong and the nearest known key.
    """
    document = read_yaml(path)
    document = {} if document is None else document  # only comments: every default
    if not isinstance(document, dict):
        kind = "list" if isinstance(document, list) else "text" if isinstance(document, str) else "value"
        raise SettingsError(f"{path}:1: expected settings, not a {kind}; write them as 'key: value'")
    try:
        return model.model_validate({**defaults, **document})
    except ValidationError as error:
        found = error.errors()
        lines = [_explain(path, document, model, item) for item in found[:MOST_ERRORS]]
        if len(found) > MOST_ERRORS:
            lines.append(f"{path}: and {len(found) - MOST_ERRORS} more")
        raise SettingsError("\n".join(lines)) from None


def load_known(name: str, folder: Path, model: type[Model], what: str) -> Model:
    """Read a name's file as of :func:`known_file` into ``model``.

    Raises ``SettingsError`` as :func:`load_model`; or that there is no such ``what`` (a dataflow, for example), and the
    nearest that there is, or all.
    """
    path = known_file(name, folder)
    if path.parent == folder and not path.is_file():
        known = known_names(folder)
        there = meant(name, known, f"known: {', '.join(known) or 'none'}")
        raise SettingsError(f"there is no {what} '{name}' in {folder}; {there}")
    return load_model(path, model, **({"name": path.stem} if "name" in model.model_fields else {}))


def known_file(name: str, folder: Path) -> Path:
    """Return the YAML file that is named, else ``<folder>/<name>.yaml``; where that is absent, what comes with perdix.

    ``folder``: of a configuration, as ``conf/twins``.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    return conf_part(f"{folder.name}/{name}.yaml", folder.parent)


def known_names(folder: Path) -> list[str]:
    """Return the names that :func:`load_known` knows in a folder."""
    return sorted({path.stem for beside in (folder, SHIPPED / folder.name) for path in beside.glob("*.yaml")})


def place_in(path: Path, *keys: str | int) -> str:
    """Return ``file:line`` of a key, for errors that are found after a file was read."""
    return f"{path}:{_line_of(read_yaml(path), keys)}"


def _explain(path: Path, document: Any, model: type[BaseModel], item: Any) -> str:
    location = _without_kinds(document, tuple(item["loc"]))
    line = _line_of(document, location)
    name = without_user(".".join(str(part) for part in location))
    if item["type"] == "extra_forbidden":
        known = _fields_at(model, location[:-1], document)
        fix = meant(str(location[-1]), known, f"known keys: {', '.join(sorted(known))}")
        return f"{path}:{line}: unknown key '{name}'; {fix}"
    if item["type"] == "unknown_kind" and isinstance(item["input"], dict):
        line, kind, known = _line_of(document, (*location, "kind")), item["input"]["kind"], item["ctx"]["known"]
        fix = meant(str(kind), known.split(", "), f"known: {known}")
        return f"{path}:{line}: unknown kind {without_user(quoted(kind))} of '{name}'; {fix}"
    if item["type"] == "missing":
        return f"{path}:{line}: '{name}' is missing; add it"
    message = _IN_OUR_WORDS.get(item["type"], item["msg"].removeprefix("Value error, "))
    if not location:  # of the file as a whole
        return f"{path}:{line}: {message}"
    if any(map(names_a_secret, location)):
        return f"{path}:{line}: '{name}': {message}"
    return f"{path}:{line}: '{name}': {message} (found {without_user(quoted(item['input']))})"


def _without_kinds(document: Any, location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return a location without the kinds that pydantic puts in: ``target.flink.url`` stands as ``target: url``."""
    node, kept = document, []
    for index, part in enumerate(location):
        within = index + 1 < len(location)  # a key that is missing can only come last
        if isinstance(node, CommentedMap) and part not in node and (within or part == node.get("kind")):
            continue
        kept.append(part)
        held = node.get(part) if isinstance(node, CommentedMap) else None
        node = node[part] if isinstance(node, CommentedSeq) and isinstance(part, int) else held
    return tuple(kept)


def _line_of(document: Any, location: tuple[Any, ...]) -> int:
    line, node = 1, document
    for part in location:
        if not isinstance(node, CommentedMap | CommentedSeq):
            break
        try:
            line = node.lc.key(part)[0] + 1 if isinstance(node, CommentedMap) else node.lc.item(part)[0] + 1
            node = node[part]
        except (KeyError, IndexError, TypeError):
            break
    return line


def _fields_at(model: type[BaseModel], location: tuple[Any, ...], document: Any) -> list[str]:
    current: Any = model
    for part in location:
        document = document[part]
        if isinstance(part, int):  # an item of a list or a tuple
            current = next(iter(get_args(current)), None)
            continue
        if get_origin(current) is dict:  # named by the user: what is in it is what counts
            current = get_args(current)[1]
            continue
        field = getattr(current, "model_fields", {}).get(part)
        current = _meant(field.annotation, document) if field else None
    return list(getattr(current, "model_fields", {}))


def _meant(annotation: Any, document: Any) -> Any:
    """Return which of several models a document means, by its ``kind``; any other annotation as it is."""
    members = [get_args(member)[0] if get_origin(member) is Annotated else member for member in get_args(annotation)]
    models = [member for member in members if hasattr(member, "model_fields")]
    if get_origin(annotation) in {dict, list, tuple} or not models or not isinstance(document, dict):
        return annotation
    kinds = {model: model.model_fields["kind"] for model in models if "kind" in model.model_fields}
    meant = (model for model, kind in kinds.items() if document.get("kind", kind.default) in get_args(kind.annotation))
    return next(meant, models[0])

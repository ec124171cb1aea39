"""What a user writes of a policy, ``ds2:activation=5:tick_s=30``, taken apart."""

import json
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Any

from perdix.settings.nearest_name import meant
from perdix.settings.yaml_files import SettingsError

# Who takes part where nobody is named, and the family that foresees arrivals (docs/hosts.md); of a job that is beside
# auto-ARIMA, which is the paper's, on its traces: docs/results.md
OPERATORS_DEFAULT = "ds2,dhalion,flink-autoscaler"
HOSTS_DEFAULT = "btu:unit_min=10,btu:unit_min=30,btu:unit_min=60,threshold"
HOSTS_FORECASTER = "last-value"
FORECASTER = "damped-trend"

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:=+-]*")
OPTIONS = re.compile(r"(:[A-Za-z_]+=[^:\s]+)+")
WIDE = 30  # letters in a line of a picture


def split_labels(text: str, known: Collection[str]) -> list[str]:
    """Return the labels of a comma-separated list.

    Raises ``SettingsError`` when there is none, one is there twice, or the files of two would have the same name.
    """
    labels = [label.strip() for label in text.split(",") if label.strip()]
    if not labels:
        raise SettingsError(f"no policy is named; known: {', '.join(known)}")
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise SettingsError(f"policy {', '.join(twice)}: given twice; every policy takes part once")
    for label, other in combinations(labels, 2):
        if re.sub(r"\W+", "-", label) == re.sub(r"\W+", "-", other):
            raise SettingsError(
                f"policies {label} and {other}: their files would have the same name; write one otherwise"
            )
    return labels


def split_label(label: str, known: Collection[str], what: str) -> tuple[str, dict[str, Any]]:
    """Return name and options of a label; ``what`` is what the policies are for.

    Raises ``SettingsError``, naming the nearest that is known, or the option that has no value.
    """
    name, *pairs = label.split(":")
    if name not in known:
        hint = meant(name, known, f"known: {', '.join(known)}", cutoff=0.5)
        raise SettingsError(f"unknown policy '{name}' for {what}; {hint}")
    if not LABEL.fullmatch(label):
        raise SettingsError(f"policy '{label}': letters, digits and . _ : = + - only, because files are named by it")
    return name, options_of(label, pairs)


def options_of(label: str, pairs: Iterable[str]) -> dict[str, Any]:
    """Return the options that ``key=value`` pairs of a label say."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals or not value:
            raise SettingsError(f"policy '{label}': option '{pair}' has no value; write {key or 'option'}=VALUE")
        if key in options:
            raise SettingsError(f"policy '{label}': {key} is given twice; name every option once")
        options[key] = _scalar(value)
    return options


def whole(label: str, options: dict[str, Any], key: str, unit: str, most: int | None = None) -> int | None:
    """Take the option ``key`` out of ``options``: a whole number from 1 to ``most``, or ``None``: it was not given."""
    value = options.pop(key, None)
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= (most or value)
    ):
        upwards = "on" if most is None else f"to {most:,}"
        raise SettingsError(f"policy '{label}': {key} must be whole {unit} from 1 {upwards}, found {value!r}")
    return value


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Return label -> what to call it: without its options (``:name=value``) where it is not taken for another then.

    What stays long is broken into lines.
    """
    bare = {label: OPTIONS.sub("", label) for label in labels}
    names = {label: bare[label] if list(bare.values()).count(bare[label]) == 1 else label for label in labels}
    return {label: textwrap.fill(name.replace(":", " :"), WIDE).replace(" :", ":") for label, name in names.items()}

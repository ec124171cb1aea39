"""What contenders are called in pictures: a label with many options would leave no room for what is drawn."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

WIDE = 30  # letters in a line
OPTIONS = re.compile(r"(:[A-Za-z_]+=[^:\s]+)+")


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Return label -> what to call it: without its options (``:name=value``) where it is not taken for another then.

    What stays long is broken into lines.
    """
    bare = {label: OPTIONS.sub("", label) for label in labels}
    names = {label: bare[label] if list(bare.values()).count(bare[label]) == 1 else label for label in labels}
    return {label: textwrap.fill(name.replace(":", " :"), WIDE).replace(" :", ":") for label, name in names.items()}

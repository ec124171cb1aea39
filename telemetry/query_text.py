"""One PromQL template: its placeholders, and how a job's selector is written into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from string import Template

from pydantic import Field, field_validator

from settings.strict import Strict

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
PLACEHOLDERS = frozenset({"selector", "of_worker", "window", "minute", "worker"})


class QueryText(Strict):
    """One way to ask for a metric.

    ``needs`` are selector labels without which the question would be wrong; ``only`` keeps just these labels of the
    selector, ``without`` drops these (a broker's series carry a topic, but not the job's labels).
    """

    promql: str
    needs: list[str] = Field(default_factory=list)
    only: list[str] | None = None
    without: list[str] = Field(default_factory=list)

    @field_validator("promql")
    @classmethod
    def _placeholders(cls, promql: str) -> str:
        template = Template(promql)
        if not template.is_valid():
            raise ValueError("a lone '$'; write '$$' for a dollar sign")
        names = set(template.get_identifiers())
        if unknown := names - PLACEHOLDERS:
            raise ValueError(f"unknown placeholder ${sorted(unknown)[0]}; known: {', '.join(sorted(PLACEHOLDERS))}")
        if "selector" not in names:
            raise ValueError("has no $selector, so it would read every job of the server")
        return promql.strip()

    def answers(self, selector: Mapping[str, str]) -> bool:
        """Whether ``selector`` has every label that this question needs."""
        return all(selector.get(label) for label in self.needs)

    def render(
        self, selector: Mapping[str, str], window_s: float, worker_labels: Iterable[str], lacking: Iterable[str] = ()
    ) -> str:
        """Return the query with selectors, windows and worker labels filled in.

        Parameters
        ----------
        lacking
            Labels of the selector that ``$of_worker`` leaves out.
        """
        kept = {
            name: value
            for name, value in selector.items()
            if name not in self.without and (self.only is None or name in self.only)
        }
        of_worker = {name: value for name, value in kept.items() if name not in set(lacking)}
        text = _without_comma(self.promql, {"selector": kept, "of_worker": of_worker})
        return Template(text).substitute(
            selector=matchers(kept),
            of_worker=matchers(of_worker),
            window=duration(window_s),
            minute=duration(max(60.0, window_s)),
            worker=", ".join(worker_labels),
        )


def _without_comma(text: str, selectors: Mapping[str, Mapping[str, str]]) -> str:
    """Take out placeholders of empty selectors with the comma beside them: PromQL takes no leading one."""
    for name, kept in selectors.items():
        if not kept:
            written = rf"\$(?:{name}\b|\{{{name}\}})"
            text = re.sub(rf",?\s*{written}", "", re.sub(rf"{written}\s*,\s*", "", text))
    return text


def rate_window_s(scrape_interval_s: float) -> float:
    """Return a ``rate()`` range that still holds two samples after two lost scrapes: four scrape intervals."""
    return 4.0 * scrape_interval_s


def matchers(selector: Mapping[str, str]) -> str:
    """Return ``a="x",b="y"`` with escaped values.

    Raises
    ------
    ValueError
        When a name is not a Prometheus label name.
    """
    for name in selector:
        if not LABEL_NAME.fullmatch(name):
            raise ValueError(f"selector: '{name}' is not a Prometheus label name (letters, digits and '_')")
    return ",".join(f'{name}="{escaped(value)}"' for name, value in selector.items())


def escaped(value: str) -> str:
    """Return a label value as it stands between PromQL's double quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def duration(seconds: float) -> str:
    """Return a PromQL duration: ``60s``, ``1500ms``. Raises ``ValueError`` when it is not at least one millisecond."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1:
        raise ValueError(f"{seconds} s is not a duration that Prometheus takes")
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"

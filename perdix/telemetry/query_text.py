"""One PromQL template: its placeholders, and how a job's selector is written into it."""

import re
from collections.abc import Iterable, Mapping
from string import Template
from typing import Annotated

from pydantic import Field, field_validator

from perdix.settings.stream_job import LABEL_NAME
from perdix.settings.strict import Strict

PLACEHOLDERS = frozenset({"selector", "of_worker", "window", "minute", "worker", "job", "job_of_worker"})
Selector = Mapping[str, str | tuple[str, ...]]  # label -> its value, or several that are asked for at once
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")  # to RE2, which escapes these and no other
_PLAIN = re.compile(r"[a-zA-Z_:][\w:]*\{\$selector\}")  # keeps the labels of its series


class QueryText(Strict):
    """One way to ask for a metric.

    ``needs`` are selector labels without which the question would be wrong; ``only`` keeps just these labels of the
    selector, ``without`` drops these (a broker's series carry a topic, but not the job's labels). Of the values of
    ``underscored`` each '.' is asked for as '_', as Kafka's consumers write their topics. Results times ``scale`` have
    the metric's unit: 0.01 where an exporter tells percent of a ratio.
    """

    promql: str
    needs: list[str] = Field(default_factory=list)
    only: list[str] | None = None
    without: list[str] = Field(default_factory=list)
    underscored: list[str] = Field(default_factory=list)
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

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

    @property
    def tells_jobs_apart(self) -> bool:
        """Whether one query can ask for several jobs: it keeps the labels that differ between them (``$job``)."""
        return "job" in Template(self.promql).get_identifiers() or _PLAIN.fullmatch(self.promql) is not None

    def kept(self, selector: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of the selector that this question asks with, and their values as its series have them."""
        return {
            name: value.replace(".", "_") if name in self.underscored else value
            for name, value in selector.items()
            if name not in self.without and (self.only is None or name in self.only)
        }

    def render(self, kept: Selector, window_s: float, worker_labels: Iterable[str], lacking: Iterable[str] = ()) -> str:
        """Return the query with selectors, windows and worker labels filled in.

        ``kept``: what :meth:`kept` returns of a job, or of several jobs: then a label that differs has several values,
        and is among the result's labels.
        ``lacking``: labels of the selector that ``$of_worker`` leaves out.
        """
        lacking = set(lacking)
        of_worker = {name: value for name, value in kept.items() if name not in lacking}
        filled = {
            "selector": matchers(kept),
            "of_worker": matchers(of_worker),
            "job": ", ".join(differing(kept)),
            "job_of_worker": ", ".join(differing(of_worker)),
        }
        return self._filled(filled, window_s, worker_labels)

    def for_each(
        self,
        label: str,
        window_s: float,
        rest: Selector | None = None,
        worker_labels: Iterable[str] = (),
        lacking: Iterable[str] = (),
    ) -> str:
        """Return the query for every value of a label: a result per value, which is among its labels.

        ``rest``: the other labels that are asked with; none when left out. For the others see :meth:`render`.
        """
        lacking, rest = set(lacking), rest or {}
        of_worker = {name: value for name, value in rest.items() if name not in lacking}
        each, named = (("", "") if label in lacking else (f'{label}=~".+"', label)) if rest else ("", "")
        filled = {
            "selector": ",".join(filter(None, (f'{label}=~".+"', matchers(rest)))),
            "of_worker": ",".join(filter(None, (each, matchers(of_worker)))),
            "job": label,
            "job_of_worker": named,
        }
        return self._filled(filled, window_s, worker_labels)

    def _filled(self, filled: Mapping[str, str], window_s: float, worker_labels: Iterable[str]) -> str:
        text = Template(_without_comma(self.promql, filled)).substitute(
            filled, window=duration(window_s), minute=duration(max(60.0, window_s)), worker=", ".join(worker_labels)
        )
        return text if self.scale == 1.0 else f"({text}) * {self.scale!r}"


def differing(selector: Selector) -> tuple[str, ...]:
    """Return the labels of which several values are asked for at once."""
    return tuple(name for name, value in selector.items() if not isinstance(value, str))


def _without_comma(text: str, filled: Mapping[str, str]) -> str:
    """Take out placeholders that are empty with the comma beside them: PromQL takes no leading one."""
    for name, found in filled.items():
        if not found:
            written = rf"\$(?:{name}\b|\{{{name}\}})"
            text = re.sub(rf",?\s*{written}", "", re.sub(rf"{written}\s*,\s*", "", text))
    return text


def rate_window_s(scrape_interval_s: float) -> float:
    """Return a ``rate()`` range that still holds two samples after two lost scrapes: four scrape intervals."""
    return 4.0 * scrape_interval_s


def matchers(selector: Selector) -> str:
    """Return ``a="x",b=~"y|z"``, escaped. Raises ``ValueError`` when a name is not a Prometheus label name."""
    for name in selector:
        if not LABEL_NAME.fullmatch(name):
            raise ValueError(f"selector: '{name}' is not a Prometheus label name (letters, digits and '_')")
    return ",".join(
        f'{name}="{escaped(value)}"' if isinstance(value, str) else f'{name}=~"{escaped(_any_of(value))}"'
        for name, value in selector.items()
    )


def with_or_without(name: str, value: str) -> str:
    """Return a matcher of series that have this value of a label, or no such label."""
    return f'{name}=~"{escaped(_any_of((value, "")))}"'


def _any_of(values: Iterable[str]) -> str:
    return "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in values)


def escaped(value: str) -> str:
    """Return a label value as it stands between PromQL's double quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def duration(seconds: float) -> str:
    """Return a PromQL duration: ``60s``, ``1500ms``. Raises ``ValueError`` when it is not at least one millisecond."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1:
        raise ValueError(f"{seconds} s is not a duration that Prometheus takes")
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"

"""The part of PromQL that perdix' own queries use, as a syntax tree. What is not known is refused, never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

NAME: Final = "__name__"  # the label of a metric's name

AGGREGATIONS: Final = frozenset({"sum", "avg", "min", "max", "count", "group"})
FUNCTIONS: Final = frozenset(
    {"rate", "increase", "avg_over_time", "sum_over_time", "count_over_time", "min_over_time", "max_over_time"}
    | {"last_over_time", "time"}
)
MAXIMUM_NESTING: Final = 64
SET_OPERATORS: Final = ("or", "and", "unless")
COMPARISONS: Final = ("==", "!=", "<=", ">=", "<", ">")
_LEVELS: Final = (
    SET_OPERATORS[:1],
    SET_OPERATORS[1:],
    COMPARISONS,
    ("+", "-"),
    ("*", "/"),
)
_TOKEN = re.compile(
    r"\s*(?:(?P<duration>(?:\d+(?:ms|[smhdw]))+)(?!\w)"
    r"|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|(?i:inf|nan))(?![\w:])"
    r'|(?P<name>[a-zA-Z_:][\w:]*)|(?P<string>"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')'
    r"|(?P<op>=~|!~|!=|==|<=|>=|[-+*/<>=(){}\[\],]))"
)
_DURATION = re.compile(r"(\d+)(ms|[smhdw])")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


class PromQLError(ValueError):
    """The expression is not PromQL, or not of the part that the twin answers."""


@dataclass(frozen=True)
class Matcher:
    """``label op value``; the metric's name is the label :data:`NAME`."""

    label: str
    op: str
    value: str

    def matches(self, found: str) -> bool:
        """Whether a label's value (empty where the label is absent) is meant."""
        if self.op in {"=", "!="}:
            return (found == self.value) == (self.op == "=")
        return (re.fullmatch(self.value, found) is not None) == (self.op == "=~")


def meant(matchers: tuple[Matcher, ...], metric: str, labels: Mapping[str, str]) -> bool:
    """Whether all ``matchers`` mean a series."""
    for matcher in matchers:
        if not matcher.matches(metric if matcher.label == NAME else labels.get(matcher.label, "")):
            return False
    return True


@dataclass(frozen=True)
class Selector:
    """Series, at an instant, or over the last ``range_s`` seconds."""

    matchers: tuple[Matcher, ...]
    range_s: float | None = None


@dataclass(frozen=True)
class Number:
    """A scalar."""

    value: float


@dataclass(frozen=True)
class Call:
    """A function."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Aggregate:
    """An aggregation; ``labels`` are kept, or dropped where ``without``."""

    name: str
    argument: Expression
    labels: tuple[str, ...] = ()
    without: bool = False


@dataclass(frozen=True)
class Binary:
    """An operation on two sides, matched on all labels, or on ``on`` alone; ``many``: several of the left on one."""

    op: str
    left: Expression
    right: Expression
    on: tuple[str, ...] | None = None
    many: bool = False


Expression = Selector | Number | Call | Aggregate | Binary


@lru_cache(maxsize=1_000)  # a controller asks the same questions at every tick
def parse(text: str) -> Expression:
    """Return the syntax tree of an expression. Raises :class:`PromQLError` naming the place."""
    if text.count("(") > MAXIMUM_NESTING:
        raise PromQLError(f"nested too deeply: more than {MAXIMUM_NESTING} parentheses")
    reader = _Reader(text)
    try:
        expression = reader.expression()
    except RecursionError:
        raise PromQLError("nested too deeply") from None
    reader.end()
    return expression


def seconds_of(text: str) -> float:
    """Return a duration (``90s``, ``1h30m``, or plain seconds) in seconds. Raises :class:`PromQLError`."""
    try:
        return float(text)
    except ValueError:
        if not re.fullmatch(rf"(?:{_DURATION.pattern})+", text):
            raise PromQLError(f'cannot parse "{text}" to a valid duration') from None
    return sum(int(count) * _SECONDS[unit] for count, unit in _DURATION.findall(text))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise PromQLError(f"unexpected character at {position}: {text[position : position + 10]!r}")
            kind = match.lastgroup or ""
            self._tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()
        self._tokens.append(("end", "", len(text)))
        self._next = 0

    # ---- tokens -----------------------------------------------------------------------------------------------

    def _peek(self, *texts: str) -> bool:
        kind, text, _ = self._tokens[self._next]
        return kind in {"op", "name"} and text in texts

    def _take(self, *texts: str) -> bool:
        if self._peek(*texts):
            self._next += 1
            return True
        return False

    def _need(self, kind: str, *texts: str) -> str:
        found, text, position = self._tokens[self._next]
        if found != kind or (texts and text not in texts):
            expected = " or ".join(texts) or kind
            raise PromQLError(f"expected {expected} at {position}, found {text or 'the end'!r} in {self._text!r}")
        self._next += 1
        return text

    def end(self) -> None:
        self._need("end")

    # ---- grammar ----------------------------------------------------------------------------------------------

    def expression(self, level: int = 0) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        left = self.expression(level + 1)
        while self._peek(*_LEVELS[level]):
            op = self._tokens[self._next][1]
            self._next += 1
            on = self._labels() if self._take("on") else None
            many = on is not None and op not in SET_OPERATORS and self._take("group_left")
            copied = self._labels() if many and self._peek("(") else ()
            if copied:
                raise PromQLError(f"the twin copies no labels with group_left: {', '.join(copied)}")
            left = Binary(op, left, self.expression(level + 1), on, many)
        return left

    def _unary(self) -> Expression:
        if self._take("-"):
            return Binary("*", Number(-1.0), self._unary())
        if self._take("("):
            inner = self.expression()
            self._need("op", ")")
            return inner
        if self._tokens[self._next][0] == "number":
            return Number(float(self._need("number")))
        return self._selector(()) if self._peek("{") else self._named()

    def _named(self) -> Expression:
        name = self._need("name")
        if name in AGGREGATIONS:
            return self._aggregate(name)
        if self._peek("("):
            return self._call(name)
        return self._selector((Matcher(NAME, "=", name),))

    def _aggregate(self, name: str) -> Aggregate:
        grouping = self._grouping()
        self._need("op", "(")
        argument = self.expression()
        self._need("op", ")")
        labels, without = grouping or self._grouping() or ((), False)
        return Aggregate(name, argument, labels, without)

    def _grouping(self) -> tuple[tuple[str, ...], bool] | None:
        for word in ("by", "without"):
            if self._take(word):
                return self._labels(), word == "without"
        return None

    def _labels(self) -> tuple[str, ...]:
        self._need("op", "(")
        labels = []
        while not self._take(")"):
            labels.append(self._need("name"))
            if not self._peek(")"):
                self._need("op", ",")
        return tuple(labels)

    def _call(self, name: str) -> Call:
        if name not in FUNCTIONS:
            raise PromQLError(f"the twin does not know the function {name}(); it knows {', '.join(sorted(FUNCTIONS))}")
        self._need("op", "(")
        arguments = []
        while not self._take(")"):
            arguments.append(self.expression())
            if not self._peek(")"):
                self._need("op", ",")
        return Call(name, tuple(arguments))

    def _selector(self, matchers: tuple[Matcher, ...]) -> Selector:
        found = list(matchers)
        if self._take("{"):
            while not self._take("}"):
                found.append(self._matcher())
                if not self._peek("}"):
                    self._need("op", ",")
        range_s = None
        if self._take("["):
            range_s = seconds_of(self._need("duration"))
            self._need("op", "]")
        if not any(matcher.op in {"=", "=~"} and not matcher.matches("") for matcher in found):
            raise PromQLError("vector selector must contain at least one non-empty matcher")
        return Selector(tuple(found), range_s)

    def _matcher(self) -> Matcher:
        label = self._need("name")
        op = self._need("op", "=", "!=", "=~", "!~")
        value = re.sub(
            r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), self._need("string")[1:-1]
        )
        if op in {"=~", "!~"}:
            try:
                re.compile(value)
            except re.error as error:
                raise PromQLError(f"{label}: {value!r} is not a regular expression: {error}") from None
        return Matcher(label, op, value)

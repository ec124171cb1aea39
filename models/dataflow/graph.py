"""The logical dataflow: operators and what flows between them (DS2, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter


@dataclass(frozen=True)
class Operator:
    """One operator of a logical dataflow."""

    name: str
    inputs: tuple[str, ...] = ()  # upstream operators; empty: a source
    # Instances that it can use at most (key groups, or partitions of a source); ``None``: no limit is known
    maximum: int | None = None
    # What records are dealt out by, where they are (key groups; partitions of a source): an even number of them per
    # instance avoids skew. ``None``: not distributed by key, or not known
    key_groups: int | None = None
    scalable: bool = True  # false where more instances do not help or are not allowed: it is left as it is

    @property
    def is_source(self) -> bool:
        """Whether nothing flows into it from another operator."""
        return not self.inputs


@dataclass(frozen=True)
class Dataflow:
    """Operators in topological order.

    Raises ``ValueError`` when an operator occurs twice, names an input twice, or stands before one of its inputs;
    :meth:`of` sorts them.
    """

    operators: tuple[Operator, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for operator in self.operators:
            if operator.name in seen:
                raise ValueError(f"operator '{operator.name}' occurs twice; give each operator once")
            again = [name for name in operator.inputs if operator.inputs.count(name) > 1]
            if again:
                raise ValueError(
                    f"operator '{operator.name}': its input {again[0]} is named twice, and its records would count "
                    "twice; name each input once"
                )
            late = [name for name in operator.inputs if name not in seen]
            if late:
                raise ValueError(
                    f"operator '{operator.name}': its inputs {', '.join(late)} do not come before it; "
                    "give the operators in topological order"
                )
            seen.add(operator.name)

    @classmethod
    def of(cls, operators: Iterable[Operator]) -> Dataflow:
        """Return the dataflow of operators in any order.

        Raises ``ValueError``, naming the operators of a cycle, or an input that is not there.
        """
        given = list(operators)
        names = {operator.name for operator in given}
        for operator in given:
            unknown = [name for name in operator.inputs if name not in names]
            if unknown:
                raise ValueError(
                    f"operator '{operator.name}': its input {unknown[0]} is not there; name one of {sorted(names)}"
                )
        by_name = {operator.name: operator for operator in given}
        if len(by_name) != len(given):
            return cls(tuple(given))  # which says what occurs twice
        try:
            order = tuple(TopologicalSorter({operator.name: operator.inputs for operator in given}).static_order())
        except CycleError as error:
            raise ValueError(f"the dataflow has a cycle: {' -> '.join(error.args[1])}; remove an edge of it") from None
        return cls(tuple(by_name[name] for name in order))

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)

    def __getitem__(self, name: str) -> Operator:
        return self._by_name[name]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in topological order."""
        return tuple(operator.name for operator in self.operators)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Names of the operators without inputs."""
        return tuple(operator.name for operator in self.operators if operator.is_source)

    @cached_property
    def outputs(self) -> Mapping[str, tuple[str, ...]]:
        """Operator -> the operators that it feeds; empty: a sink."""
        return {
            operator.name: tuple(o.name for o in self.operators if operator.name in o.inputs)
            for operator in self.operators
        }

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """``(upstream, downstream)``, by the downstream's topological order."""
        return tuple((name, operator.name) for operator in self.operators for name in operator.inputs)

    @cached_property
    def _by_name(self) -> Mapping[str, Operator]:
        return {operator.name: operator for operator in self.operators}

"""Topologies as the original DS2 program reads them: a line per edge (Flink, Heron), or the log of a Timely program."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perdix.telemetry.ds2.lines import Ds2FileError, SetAside, columns_of, first_of, instances_of, is_header, lines_of

OPERATES = re.compile(
    r"TimelySetup \{ index: (?P<worker>\d+) \}.*OperatesEvent \{ id: (?P<id>\d+), addr: \[(?P<address>[\d, ]+)\], "
    r'name: "(?P<name>[^"]*)"'
)
CHANNELS = re.compile(
    r"ChannelsEvent \{ id: \d+, scope_addr: \[(?P<scope>[\d, ]+)\], source: \((?P<source>\d+), \d+\), "
    r"target: \((?P<target>\d+), \d+\)"
)
TOPOLOGY_LINE = "write operator id, name and instances of the upstream, then the same three of the downstream operator"


@dataclass(frozen=True)
class LoggedOperator:
    """An operator of a topology; ``instances`` is what it was started with."""

    id: str
    name: str
    instances: int


@dataclass(frozen=True)
class Topology:
    """Operators by id and ``(upstream id, downstream id)`` edges, in the order of the file."""

    operators: tuple[LoggedOperator, ...]
    edges: tuple[tuple[str, str], ...]
    set_aside: tuple[SetAside, ...] = ()


def read_topology(path: Path) -> Topology:
    """Read a topology: a line per edge (Flink, Heron), or Timely's log of operators and channels.

    Raises ``Ds2FileError`` when the file cannot be read, or not one line of it.
    """
    lines = lines_of(path)
    topology = _timely(path, lines) if any("TimelySetup" in line for _, line in lines) else _edges(path, lines)
    if not topology.edges:
        raise Ds2FileError(f"{path}: no edge could be read{first_of(topology.set_aside)}; {TOPOLOGY_LINE}")
    return topology


def _edges(path: Path, lines: Sequence[tuple[int, str]]) -> Topology:
    operators: dict[str, LoggedOperator] = {}
    edges: dict[tuple[str, str], None] = {}
    aside: list[SetAside] = []
    for number, line in lines:
        both = _both_ends(columns_of(line))
        if both is None:
            if not is_header(line, line):
                aside.append(SetAside(path.name, number, f"'{line[:80]}' is not an edge; {TOPOLOGY_LINE}"))
            continue
        other = next((operator for operator in both if operators.get(operator.id, operator) != operator), None)
        if other is not None:
            known = operators[other.id]
            reason = f"operator '{other.id}' is {known.name} on {known.instances} in an earlier line; make them agree"
            aside.append(SetAside(path.name, number, reason))
            continue
        operators.update((operator.id, operator) for operator in both)
        edges[both[0].id, both[1].id] = None
    return Topology(tuple(operators.values()), tuple(edges), tuple(aside))


def _both_ends(parts: list[str]) -> tuple[LoggedOperator, LoggedOperator] | None:
    """Return the two operators of an edge; a name with commas in it is known by the id, which Flink writes alike."""
    if len(parts) == 6:
        first, second = _operator(parts[:1], parts[1:2], parts[2]), _operator(parts[3:4], parts[4:5], parts[5])
        return (first, second) if first and second else None
    found = []
    for at in range(2, len(parts) - 3):
        left, right = parts[:at], parts[at + 1 : -1]
        if len(left) % 2 == 0 and len(right) % 2 == 0 and _halves_agree(left) and _halves_agree(right):
            ends = [
                _operator(half[: len(half) // 2], half[len(half) // 2 :], count)
                for half, count in ((left, parts[at]), (right, parts[-1]))
            ]
            found.append(ends)
    sound = [(first, second) for first, second in found if first and second]
    return sound[0] if len(sound) == 1 else None


def _halves_agree(parts: list[str]) -> bool:
    return parts[: len(parts) // 2] == parts[len(parts) // 2 :]


def _operator(identity: list[str], name: list[str], instances: str) -> LoggedOperator | None:
    count = instances_of(instances)
    key = ",".join(identity)
    return LoggedOperator(key, ",".join(name) or key, count) if key and count is not None else None


def _timely(path: Path, lines: Sequence[tuple[int, str]]) -> Topology:
    """Read Timely's log: every worker runs every operator, and tells of all of them."""
    names: dict[tuple[str, str], tuple[str, str]] = {}  # (scope, number in it) -> (id, name)
    channels: dict[tuple[str, str, str], int] = {}
    workers: set[str] = set()
    aside: list[SetAside] = []
    for number, line in lines:
        if operates := OPERATES.search(line):
            workers.add(operates["worker"])
            _, *address = (part.strip() for part in operates["address"].split(","))
            names[",".join(address[:-1]), address[-1]] = (operates["id"], operates["name"])
        elif channel := CHANNELS.search(line):
            _, *scope = (part.strip() for part in channel["scope"].split(","))
            channels.setdefault((",".join(scope), channel["source"], channel["target"]), number)
        elif "OperatesEvent" in line or "ChannelsEvent" in line:
            aside.append(SetAside(path.name, number, f"'{line[:80]}' is cut or changed; take it from the log again"))
    edges: dict[tuple[str, str], None] = {}
    for (within, source, target), number in channels.items():
        up, down = names.get((within, source)), names.get((within, target))
        if up is None or down is None:
            gone = source if up is None else target
            aside.append(
                SetAside(path.name, number, f"no operator {gone} is reported in scope [{within}]; log it as well")
            )
        else:
            edges[up[0], down[0]] = None
    operators = tuple(LoggedOperator(identity, name, len(workers)) for identity, name in names.values())
    return Topology(operators, tuple(edges), tuple(aside))

"""``perdix ds2``: the optimal parallelism of every operator, from the files of the original DS2 program."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from perdix.cli.ds2.results import answer_of, epoch_row, operator_rows, show_answer, source_row
from perdix.cli.output import JsonOption, UserError, complaints, emit
from perdix.settings.counting import counted

if TYPE_CHECKING:
    from perdix.models.dataflow.graph import Dataflow
    from perdix.models.dataflow.rates import OperatorRates
    from perdix.models.dataflow.scaling_curve import ScalingCurve
    from perdix.telemetry.ds2.files import RatesLog
    from perdix.telemetry.ds2.lines import SetAside
    from perdix.telemetry.ds2.topology import Topology

T = TypeVar("T")
ALL = "all"


def ds2(
    *,
    topology: Annotated[Path, typer.Option("--topology", help="CSV of edges, or a Timely log.", show_default=False)],
    rates: Annotated[
        Path, typer.Option("--rates", help="Log, table, folder or tar of logged rates.", show_default=False)
    ],
    sources: Annotated[
        Path | None,
        typer.Option("--sources", help="CSV: source, records/s that each instance should emit (-1: as seen)."),
    ] = None,
    epoch: Annotated[str, typer.Option("--epoch", help="Number of an epoch, or all.")] = ALL,
    combine: Annotated[
        str, typer.Option("--combine", help="How epochs make one answer: last, max or median.")
    ] = "last",
    target_rate_ratio: Annotated[
        float | None,
        typer.Option("--target-rate-ratio", help="Raise results where sources fall short by more than this.", min=1.0),
    ] = None,
    rate_factor: Annotated[float, typer.Option("--rate-factor", help="Head-room, as a share.", min=0.0)] = 0.0,
    size_sources: Annotated[
        bool, typer.Option("--size-sources", help="Size sources as well, by their true output rate.")
    ] = False,
    max_parallelism: Annotated[
        int | None, typer.Option("--max-parallelism", help="Most instances of an operator: its key groups.", min=1)
    ] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Slots that the cluster has.", min=1)] = None,
    shared_slots: Annotated[
        bool,
        typer.Option(
            "--shared-slots/--own-slots", help="A slot runs one of every operator, or every instance needs its own."
        ),
    ] = True,
    align: Annotated[str, typer.Option("--align", help="OFF, BALANCED or EVENLY_SPREAD over key groups.")] = "OFF",
    as_workers: Annotated[
        bool, typer.Option("--global", help="Also the workers of a system where each runs every operator (Timely).")
    ] = False,
    curves: Annotated[
        Path | None, typer.Option("--curves", help="JSON: operator to pairs of instances and records/s, seen before.")
    ] = None,
    write_curves: Annotated[
        Path | None, typer.Option("--write-curves", help="Write what these epochs add to --curves, for the next time.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many instances each operator of a dataflow needs, by DS2's equations 7 and 8.

    Reads the files of the original program: a topology, logged rates, and what sources should emit.

    Example: perdix ds2 --topology conf/examples/ds2/topology.csv --rates conf/examples/ds2/rates --sources
    conf/examples/ds2/source-rates.csv --combine max
    """
    how, mode = _one_of("--combine", combine, ("last", "max", "median")), align.upper()
    _one_of("--align", mode, ("OFF", "BALANCED", "EVENLY_SPREAD"))
    if mode != "OFF" and max_parallelism is None:
        raise UserError(f"--align {mode} needs to know the key groups: add --max-parallelism, for example 128")
    from perdix.models.dataflow.logged_rates import source_targets
    from perdix.models.dataflow.optimal import Sizing, optimal_parallelism

    read = _read(topology, rates, sources, epoch, max_parallelism)
    sizing = Sizing(
        rate_factor=rate_factor, target_rate_ratio=target_rate_ratio, maximum=max_parallelism, sources=size_sources
    )
    targets = source_targets(read.graph, read.windows, read.per_instance)
    seen = _curves(curves, read.graph) if curves else {}
    found = optimal_parallelism(
        read.graph, read.windows, targets, running=read.running, sizing=sizing, curves=seen or None
    )
    answer = answer_of(
        read.graph, found, how, slots, shared=shared_slots, mode=mode, sizing=sizing, as_workers=as_workers
    )
    if write_curves is not None:
        _write_curves(write_curves, read.graph, read.windows, seen)
    document = {
        "parallelism": answer.parallelism,
        "combine": how,
        "workers": answer.workers,
        "epochs": [epoch_row(number, found, k, notes) for k, (number, notes) in enumerate(read.epochs)],
        "operators": operator_rows(read.graph, read.windows, found, answer.parallelism),
        "sources": {name: source_row(name, found, read.windows) for name in read.graph.sources},
        "notes": [*read.notes, *answer.notes],
        "set_aside": [{"file": row.file, "line": row.line, "reason": row.reason} for row in read.set_aside],
    }
    if read.set_aside and not as_json:
        first = f"set aside: {counted(len(read.set_aside), 'line')}; the first: {read.set_aside[0]}"
        complaints.print(first)
    emit("perdix.ds2/1", document, as_json=as_json, show=lambda: show_answer(document))


@dataclass(frozen=True)
class Read:
    """What the files say."""

    graph: Dataflow
    windows: Sequence[dict[str, OperatorRates]]  # of each epoch: operator -> its rates
    epochs: Sequence[tuple[int, dict[str, str]]]  # of each: its number, and operator -> why it has no rates
    per_instance: Mapping[str, float | None]  # source -> records/s that each instance should emit
    running: Mapping[str, int]  # operator -> instances
    notes: Sequence[str]
    set_aside: Sequence[SetAside]  # lines that could not be read


def _read(topology: Path, rates: Path, sources: Path | None, epoch: str, most: int | None) -> Read:
    from perdix.models.dataflow.logged_rates import operator_rates_of
    from perdix.telemetry.ds2.files import read_rates, read_source_rates
    from perdix.telemetry.ds2.lines import Ds2FileError
    from perdix.telemetry.ds2.topology import read_topology

    try:
        drawn, log = read_topology(topology), read_rates(rates)
        emitted = read_source_rates(sources) if sources else None
    except Ds2FileError as error:
        raise UserError(str(error)) from None
    names = _names(drawn)
    graph, log = _graph(drawn, names, most, topology), _chosen(log, epoch)
    by_name = [_renamed(operator_rates_of(entry), names) for entry in log.epochs]
    windows = [found for found, _ in by_name]
    if not any(name in graph.names for window in windows for name in window):
        logged = ", ".join(list(dict.fromkeys(name for window in windows for name in window))[:10])
        raise UserError(
            f"{rates} names {logged}, {topology} names {', '.join(graph.names)}; give files of one dataflow"
        )
    per_instance = _under(emitted.per_instance, names) if emitted else {}
    running = {names[operator.id]: operator.instances for operator in drawn.operators}
    # Newer than the topology:
    running |= {name: seen.instances for window in windows for name, seen in window.items()}
    return Read(
        graph,
        windows,
        [(entry.number, notes) for entry, (_, notes) in zip(log.epochs, by_name, strict=True)],
        per_instance,
        running,
        [*log.remarks, *_strangers(graph, windows, per_instance)],
        [*drawn.set_aside, *log.set_aside, *(emitted.set_aside if emitted else ())],
    )


def _names(drawn: Topology) -> dict[str, str]:
    """Return operator id -> what it is called: its name where no other has it, else its id."""
    given = [operator.name for operator in drawn.operators]
    return {
        operator.id: operator.name if given.count(operator.name) == 1 else operator.id for operator in drawn.operators
    }


def _graph(drawn: Topology, names: Mapping[str, str], most: int | None, path: Path) -> Dataflow:
    from perdix.models.dataflow.graph import Dataflow, Operator

    inputs: dict[str, list[str]] = {operator.id: [] for operator in drawn.operators}
    for up, down in drawn.edges:
        inputs[down].append(names[up])
    operators = [
        Operator(names[identity], tuple(ups), maximum=most if ups else None, key_groups=most if ups else None)
        for identity, ups in inputs.items()
    ]
    try:
        return Dataflow.of(operators)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def _chosen(log: RatesLog, epoch: str) -> RatesLog:
    if epoch == ALL:
        return log
    there = {str(entry.number): entry for entry in log.epochs}
    if epoch not in there:
        raise UserError(f"--epoch {epoch}: there is none; give {ALL} or one of {', '.join(list(there)[:20])}")
    return replace(log, epochs=(there[epoch],))


def _renamed(
    found: tuple[dict[str, OperatorRates], dict[str, str]], names: Mapping[str, str]
) -> tuple[dict[str, OperatorRates], dict[str, str]]:
    rates, notes = found
    return _under(rates, names), _under(notes, names)


def _under(values: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    return {names.get(name, name): value for name, value in values.items()}


def _strangers(
    graph: Dataflow, windows: Sequence[Mapping[str, OperatorRates]], per_instance: Mapping[str, float | None]
) -> list[str]:
    """Return in words what the files tell of operators that the topology does not have."""
    measured = dict.fromkeys(name for window in windows for name in window)
    notes = [
        f"'{name}' has rates, but is not in the topology; they are not used"
        for name in measured
        if name not in graph.names
    ]
    notes += [
        f"'{name}' has a source rate, but is no source of the topology; it is not used"
        for name in per_instance
        if name not in graph.sources
    ]
    return notes


def _curves(path: Path, graph: Dataflow) -> dict[str, ScalingCurve]:
    """Return operator -> what was seen of it: points of a file, or curves as they write themselves."""
    from perdix.models.dataflow.scaling_curve import ScalingCurve

    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(stored, Mapping):
            raise ValueError("not a mapping of operators to curves")
        found = {}
        for name, state in stored.items():
            if name not in graph.names:
                raise ValueError(f"'{name}' is not in the topology; name one of {', '.join(graph.names)}")
            if isinstance(state, Mapping):
                found[name] = ScalingCurve.of_json(state)
                continue
            curve = ScalingCurve()
            for instances, per_s in state:
                if instances < 1 or instances != int(instances):
                    raise ValueError(f"'{name}': [{instances}, {per_s}]: give whole instances from 1 on")
                if not (math.isfinite(per_s) and per_s > 0):
                    raise ValueError(f"'{name}': [{instances}, {per_s}]: give a finite rate above 0")
                curve = curve.observed(int(instances), float(per_s))
            found[name] = curve
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(f"{path}: {error}; write an operator's curve as [[4, 100000], [8, 180000]]") from None
    return found


def _write_curves(
    path: Path, graph: Dataflow, windows: Sequence[Mapping[str, OperatorRates]], seen: Mapping[str, ScalingCurve]
) -> None:
    """Write operator -> its curve with what was measured of it in these windows; sources are not sized."""
    from perdix.models.dataflow.scaling_curve import ScalingCurve

    learned = dict(seen)
    for window in windows:
        for name, rates in window.items():
            if name in graph.names and not graph[name].is_source:
                before = learned.get(name, ScalingCurve())
                learned[name] = before.observed(rates.instances, rates.true_processing_per_s)
    curves = {name: curve.to_json() for name, curve in learned.items() if curve.points}
    try:
        path.write_text(json.dumps(curves, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--write-curves {path}: cannot be written ({error.strerror or error})") from None


def _one_of(option: str, given: str, allowed: Sequence[str]) -> str:
    if given not in allowed:
        raise UserError(f"{option} {given}: there is none; give one of {', '.join(allowed)}")
    return given

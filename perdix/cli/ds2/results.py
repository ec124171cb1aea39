"""What ``perdix ds2`` makes of the results of all epochs: one answer, rows, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from perdix.cli.output import console, number, table

if TYPE_CHECKING:
    from perdix.models.dataflow.graph import Dataflow
    from perdix.models.dataflow.optimal import Optimal, Sizing
    from perdix.models.dataflow.rates import OperatorRates
    from perdix.models.dataflow.slots import Mode

SHOWN = 40  # epochs in a table


@dataclass(frozen=True)
class Answer:
    """The result over all epochs."""

    parallelism: Mapping[str, int]
    workers: int | None
    notes: Sequence[str]


def answer_of(
    graph: Dataflow,
    found: Optimal,
    how: str,
    slots: int | None,
    *,
    shared: bool,
    mode: str,
    sizing: Sizing,
    as_workers: bool,
) -> Answer:
    """Return one parallelism of all epochs, fitted to key groups and slots, in that order."""
    from perdix.models.dataflow.optimal import global_parallelism
    from perdix.models.dataflow.slots import aligned, fitted_to_slots

    epochs = range(len(found.instances))
    parallelism = {
        name: int(_combined([int(found.instances[k, index]) for k in epochs], how))
        for index, name in enumerate(graph.names)
    }
    unrounded = {name: _combined(values, how) for name, values in _unrounded(found).items()}
    running = dict(zip(graph.names, found.running[-1].tolist(), strict=True))
    notes = []
    chosen = cast("Mode", mode)
    for operator in graph:
        before = parallelism[operator.name]
        after = aligned(before, running[operator.name], operator, chosen)
        if after != before and not operator.is_source:
            parallelism[operator.name] = after
            notes.append(f"{operator.name}: {before} aligned to {after} for {operator.key_groups} key groups")
    fitted = fitted_to_slots(parallelism, unrounded, slots, shared=shared)
    notes += [fitted.reason] if fitted.reason else []
    workers = None
    if as_workers:
        try:
            free = replace(sizing, maximum=None)  # workers are not bound to key groups
            sums = [global_parallelism(_needs(graph, found, k), free) for k in epochs]
            workers = int(_combined(sums, how))
        except ValueError as error:
            notes.append(f"the number of workers is unknown: {error}")
    return Answer(fitted.parallelism, workers, notes)


def _combined(values: Sequence[float], how: str) -> float:
    """Return one value of all epochs; a median of whole numbers is rounded up."""
    if how == "median":
        middle = median(values)
        return -(-middle // 1) if all(isinstance(value, int) for value in values) else middle
    return max(values) if how == "max" else values[-1]


def _unrounded(found: Optimal) -> dict[str, list[float]]:
    """Return operator -> unrounded parallelism of the epochs in which it was sized."""
    gathered: dict[str, list[float]] = {}
    for k in range(len(found.instances)):
        for name, value in found.unrounded_of(k).items():
            gathered.setdefault(name, []).append(value)
    return gathered


def _needs(graph: Dataflow, found: Optimal, k: int) -> dict[str, float]:
    unrounded = found.unrounded_of(k)
    return {name: unrounded.get(name, float("nan")) for name in graph.names if name not in graph.sources}


def epoch_row(number_: int, found: Optimal, k: int, notes: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of one epoch."""
    return {
        "epoch": number_,
        "parallelism": found.parallelism(k),
        "unrounded": found.unrounded_of(k),
        "target_per_s": dict(zip(found.operators, found.target_per_s[k].tolist(), strict=True)),
        "raised": float(found.raised[k]),
        "reasons": dict(found.reasons[k]),
        "left_out": dict(notes),
    }


def operator_rows(
    graph: Dataflow, windows: Sequence[Mapping[str, OperatorRates]], found: Optimal, parallelism: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return a row per operator, of the last epoch."""
    rows = []
    for index, operator in enumerate(graph):
        rates = windows[-1].get(operator.name)
        rows.append(
            {
                "operator": operator.name,
                "source": operator.is_source,
                "running": int(found.running[-1, index]),
                "parallelism": parallelism[operator.name],
                "unrounded": found.unrounded_of().get(operator.name),
                "true_processing_per_s": rates.true_processing_per_s if rates and not operator.is_source else None,
                "true_output_per_s": rates.true_output_per_s if rates else None,
                "target_per_s": float(found.target_per_s[-1, index]),
                "reason": found.reasons[-1].get(operator.name),
            }
        )
    return rows


def source_row(name: str, found: Optimal, windows: Sequence[Mapping[str, OperatorRates]]) -> dict[str, Any]:
    """Return what a source should emit and did, in the last epoch."""
    index, rates = found.operators.index(name), windows[-1].get(name)
    return {
        "instances": int(found.running[-1, index]),
        "target_per_s": float(found.target_per_s[-1, index]),
        "observed_per_s": rates.observed_output_per_s if rates else None,
    }


def show_answer(document: Mapping[str, Any]) -> None:
    """Print the document as tables, and what there is to say beside them."""
    epochs = document["epochs"]
    if len(epochs) > 1:
        names = list(document["parallelism"])
        rows = [
            [f"epoch {epoch['epoch']}", *(epoch["parallelism"][name] for name in names)] for epoch in epochs[-SHOWN:]
        ]
        table("instances by epoch", ["", *names], rows)
        if len(epochs) > SHOWN:
            console.print(f"{len(epochs) - SHOWN} epochs before them: --json has all")
    title = f"parallelism ({document['combine']} of {len(epochs)} epochs)" if len(epochs) > 1 else "parallelism"
    table(
        title,
        ["operator", "runs", "needs", "unrounded", "to process/s", "true rate/s", "why"],
        [
            [
                row["operator"],
                row["running"],
                row["parallelism"],
                number(row["unrounded"], 4),
                number(row["target_per_s"]),
                number(row["true_processing_per_s"]),
                row["reason"] or ("a source keeps what it runs" if row["source"] and row["unrounded"] is None else ""),
            ]
            for row in document["operators"]
        ],
    )
    if document["workers"] is not None:
        console.print(f"workers that run every operator: {document['workers']}")
    for note in document["notes"]:
        console.print(note)

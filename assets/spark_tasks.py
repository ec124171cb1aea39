"""Run one piece of work per key on Spark: a task per stream job (or job and day), each failing alone.

A task reads and writes the lake itself, so that no table passes through a shuffle or the driver; what comes back is one
small JSON answer per key. Knows no Dagster, because Spark's workers import it.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

# More tasks than this only cost scheduling; keys are then dealt out in batches.
MOST_TASKS = 1024
Task = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What became of one key: a result, or the reason why there is none."""

    key: Mapping[str, Any]
    result: Mapping[str, Any]
    error: str | None
    trace: str | None
    seconds: float


def run_tasks(spark: SparkSession, keys: Sequence[Mapping[str, Any]], task: Task) -> list[Answer]:
    """Run ``task`` for every key on Spark and return the answers in the order of the keys.

    Parameters
    ----------
    keys
        JSON-serialisable mappings.
    task
        Importable function from a key to a JSON-serialisable result. What it raises becomes the answer's ``error``.
    """
    if not keys:
        return []
    texts = [json.dumps(key) for key in keys]

    def work(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield _answers(batch["id"], texts, task)

    partitions = min(len(texts), MOST_TASKS)
    rows = spark.range(0, len(texts), 1, partitions).mapInPandas(work, "id long, answer string").collect()
    answers = {row["id"]: json.loads(row["answer"]) for row in rows}
    return [Answer(key=key, **answers[index]) for index, key in enumerate(keys)]


def _answers(ids: Iterable[int], texts: Sequence[str], task: Task) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [{"id": index, "answer": json.dumps(_attempt(json.loads(texts[index]), task))} for index in ids]
    )


def _attempt(key: Mapping[str, Any], task: Task) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        result, error, trace = dict(task(key)), None, None
    except Exception as failure:  # one job's broken data must not end the others' training
        result, error, trace = {}, f"{type(failure).__name__}: {failure}", traceback.format_exc(limit=-6)
    return {"result": result, "error": error, "trace": trace, "seconds": time.perf_counter() - started}

"""Run one piece of work per key on Spark: a task per stream job (or job and day), each failing alone.

A task reads and writes the lake itself, so that no table passes through a shuffle or the driver; what comes back is one
small JSON answer per key. Knows no Dagster, because Spark's workers import it.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

# Every Spark task costs some 50 ms of a processor beside its work, so more keys than this are dealt out in batches. It
# is also how many cores of a cluster can be kept busy; larger batches would leave cores idle at the end of a run.
MOST_TASKS = 256
Key = Mapping[str, Any]
Task = Callable[[Key], Mapping[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What became of one key: a result, or the reason why there is none."""

    key: Key
    result: Mapping[str, Any]
    error: str | None
    trace: str | None
    # seconds, cpu_s: what it took by the clock, and of a processor's time: the first grows when cores are shared
    seconds: float
    cpu_s: float = 0.0


def run_tasks(spark: SparkSession, keys: Sequence[Key], task: Task) -> list[Answer]:
    """Run ``task`` for every key on Spark and return the answers in the order of the keys.

    ``keys``: JSON-serialisable mappings.
    ``task``: importable function from a key to a JSON-serialisable result. What it raises becomes the answer's
    ``error``.
    """
    if not keys:
        return []
    rows = spread(spark, keys, partial(attempt, task=task)).collect()
    answers = {row["id"]: json.loads(row["answer"]) for row in rows}
    return [Answer(key=key, **answers[index]) for index, key in enumerate(keys)]


def interpreter(_: Key) -> dict[str, str]:
    """Return the worker's Python: the smallest task there is."""
    return {"python": sys.executable}


def spread(spark: SparkSession, keys: Sequence[Key], work: Callable[[Key], object]) -> DataFrame:
    """Return a frame of one row per key: its number ``id``, and ``answer``, what ``work`` returns for it as JSON text.

    Collecting the frame calls ``work`` for each key on Spark's workers.

    Keys and what ``work`` holds are sent to every task: keep them small, and let tasks read the rest.
    """
    texts = [json.dumps(key) for key in keys]

    def answers(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            made = [json.dumps(work(json.loads(texts[index]))) for index in batch["id"]]
            if not gc.get_freeze_count():
                # A worker collects garbage after each task; without this it walks through every imported library.
                gc.freeze()
            yield batch.assign(answer=made)

    partitions = min(len(texts), MOST_TASKS)
    return spark.range(0, len(texts), 1, partitions).mapInPandas(answers, "id long, answer string")


def attempt(key: Key, task: Task) -> dict[str, Any]:
    """Return the task's result for a key, or what it raised, with the time that it took."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    try:
        result, error, trace = dict(task(key)), None, None
    except Exception as failure:  # one job's broken data must not end the others' training
        result, error, trace = {}, f"{type(failure).__name__}: {failure}", traceback.format_exc(limit=-6)
    return {
        "result": result,
        "error": error,
        "trace": trace,
        "seconds": time.perf_counter() - began_s,
        "cpu_s": time.process_time() - began_cpu_s,
    }

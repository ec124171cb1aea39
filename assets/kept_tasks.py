"""Run long tasks on Spark so that they can be watched, cut and gone on with, and so that a dying worker costs one job.

Each task writes its own answer (:mod:`perdix.assets.kept_answers`); the driver counts files while Spark works.
Knows no Dagster, because Spark's workers import it.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from perdix.assets.kept_answers import Kept, Progress, Watch
from perdix.assets.spark.tasks import Key, Task, attempt, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TELL_EVERY_S = 5.0
LOOK_EVERY_S = 1.0
JOB_LIMIT_S = 1_800.0  # some hundred times what a job takes (docs/results.md)
Tell = Callable[[Progress], None]


def run_kept(spark: SparkSession, keys: Sequence[Key], task: Task, kept: Kept, tell: Tell) -> None:
    """Run ``task`` for every key on Spark, each answer becoming a file of ``kept``.

    Keys name their ``job``. A key that the same run has answered before, without an error, is left out: so a run that
    was cut goes on. When the process of a task dies (out of memory, a library that crashes), the jobs that were being
    worked on are tried again alone, those that die again get that as their error, and the others go on. A job that
    takes longer than half an hour ends with that as its error.

    Raises ``RuntimeError`` when tasks ended without an answer being found; ``Exception``: what Spark raised, when Spark
    itself cannot go on.
    """
    by_job = {str(key["job"]): key for key in keys}
    for job in by_job:
        answer = kept.answer(job)
        if answer is not None and answer.get("error"):
            kept.path(job).unlink()
    watch = Watch(kept, by_job)
    run = _Run(spark, task, kept, watch, tell)
    while left := watch.unanswered():
        failure = run.spark_job([by_job[job] for job in left])
        if failure is None:
            break
        suspects = [job for job in watch.unanswered() if kept.begun(job)]
        if not suspects or not _alive(spark):
            raise failure
        for job in suspects:
            died = run.spark_job([by_job[job]])
            if died is not None and job in watch.unanswered():
                kept.write(job, _dead(died))
                watch.look()
    run.say()
    if lost := watch.unanswered():
        raise RuntimeError(
            f"{len(lost)} of {len(by_job)} tasks ended and left no answer in {kept.folder}, the first being {lost[0]}; "
            "Spark's workers must reach that folder under the same name"
        )


class _Run:
    """What the Spark jobs of one run have in common."""

    def __init__(self, spark: SparkSession, task: Task, kept: Kept, watch: Watch, tell: Tell) -> None:
        self._spark, self._task, self._kept, self._watch, self._tell = spark, task, kept, watch, tell
        self._said_s = time.monotonic()
        self._said: Progress | None = None

    def spark_job(self, keys: Sequence[Key]) -> Exception | None:
        """Run keys to their end; return what Spark raised, if it did."""
        kept, task, tag = self._kept, self._task, f"perdix-{uuid.uuid4().hex}"

        def keeping(key: Key) -> None:
            job = str(key["job"])
            kept.begin(job)
            kept.write(job, attempt(key, time_limit(float(key.get("limit_s", JOB_LIMIT_S)))(task)))

        frame = spread(self._spark, keys, keeping)

        def collected() -> None:
            self._spark.sparkContext.addJobTag(tag)
            frame.collect()

        with ThreadPoolExecutor(1, thread_name_prefix="spark-job") as pool:
            job = pool.submit(collected)
            try:
                while not wait([job], timeout=min(LOOK_EVERY_S, TELL_EVERY_S)).done:
                    self._watch.look()
                    if time.monotonic() - self._said_s >= TELL_EVERY_S:
                        self.say()
            except BaseException:
                self._spark.sparkContext.cancelJobsWithTag(tag)  # whoever ends the run must not leave its tasks behind
                raise
        self._watch.look()
        failure = job.exception()
        if failure is not None and not isinstance(failure, Exception):
            raise failure
        return failure

    def say(self) -> None:
        """Tell how far the run is, unless that was said already."""
        self._said_s = time.monotonic()
        progress = self._watch.progress(self._said_s)
        if self._said is None or progress.done != self._said.done:
            self._said = progress
            self._tell(progress)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TimeoutError`` in the block once it has taken so long: what never converges must not hold up others.

    Works in the main thread of a process, where Spark's workers run their tasks, and between two steps of Python: a
    library's loop in C is waited for. Elsewhere the block runs without a limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _alive(spark: SparkSession) -> bool:
    try:
        return int(spark.range(1).count()) == 1
    except Exception:  # whatever it says: it does not answer
        return False


def _dead(failure: Exception) -> dict[str, object]:
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    said = next((line for line in lines if "worker" in line.lower()), lines[0] if lines else type(failure).__name__)
    return {
        "result": {},
        "error": f"the process of its Spark task died: {said[:300]}",
        "trace": str(failure)[:4_000],
        "seconds": 0.0,
        "cpu_s": 0.0,
    }

"""Whether a Spark cluster runs anything at all, and in one line what a failure of it says.

Spark itself waits without end, without a word, for executors that cannot come.
"""

from __future__ import annotations

import re
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_TASK_S = 60.0
ANSWERS_S = 5.0
SHOWN = 300
_GROUP = "perdix-first-task"
_STANDALONE = re.compile(r"([\w.-]+|\[[\da-fA-F:]+\]):(\d+)")  # each of the masters of spark://HOST:PORT,HOST:PORT
_LOCAL = re.compile(r"local(-cluster)?(\[.*\])?")
_PROBLEM = re.compile(r"(?:Caused by: )?[\w.$]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*")
_FAILED_TASK = re.compile(r"most recent failure: .*?\): (.+)")


class ClusterError(Exception):
    """The cluster does not run our tasks; the message says why, as far as Spark tells, and what to look at.

    ``found``: why alone.
    """

    def __init__(self, found: str, fix: str = "") -> None:
        super().__init__(f"{found}; {fix}" if fix else found)
        self.found = found


def is_local(master: str) -> bool:
    """Whether a Spark master means this machine alone: ``local``, ``local[4]``, ``local[*]``."""
    return _LOCAL.fullmatch(master) is not None


def require_master(master: str) -> None:
    """Raise ``ClusterError`` where no standalone master answers: Spark itself asks for minutes, and gives no cause."""
    why = ""
    for host, port in _STANDALONE.findall(master) if master.startswith("spark://") else ():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWERS_S).close()
        except (OSError, OverflowError, UnicodeError) as error:  # the last: of a name that no host can have
            why = f"Spark at {master} does not answer: {error}"
        else:
            return
    if why:
        raise ClusterError(why, "start that cluster, or correct 'spark' in perdix.yaml")


def require_tasks(spark: SparkSession, within_s: float = FIRST_TASK_S) -> None:
    """Run one task with a Python worker in it; ``ClusterError`` when it fails, or takes over ``within_s`` seconds."""
    failed: list[Exception] = []
    ended = threading.Event()
    master, context = spark.sparkContext.master, spark.sparkContext

    def run() -> None:
        context.setJobGroup(_GROUP, "the first task", interruptOnCancel=True)
        try:
            spark.range(1).mapInArrow(_as_it_is, "id long").count()
        except Exception as error:
            failed.append(error)
        finally:
            ended.set()

    # pyspark ties a group of jobs to the thread that sets it
    threading.Thread(target=run, name=_GROUP, daemon=True).start()
    if not ended.wait(within_s):
        why = _why_none(context)
        context.cancelJobGroup(_GROUP)
        raise ClusterError(f"Spark at {master} ran no task within {within_s:g} s: {why}")
    if failed:
        raise ClusterError(f"Spark at {master} cannot run a task: {cause_of(failed[0])}") from failed[0]


def cause_of(error: BaseException) -> str:
    """Return the telling line of what Spark raised: what its Python worker raised, else the last cause in the JVM."""
    text = str(error)
    lines = text.splitlines()
    if "Traceback (most recent call last)" in text:
        traceback = text.rpartition("Traceback (most recent call last)")[2].splitlines()[1:]
        causes = [line for line in traceback if line[:1].strip() and _PROBLEM.fullmatch(line)]
    else:
        causes = [match[1] for match in _FAILED_TASK.finditer(text)]
        causes = causes or [line for line in lines if line.startswith("Caused by: ") and line.count(": ") > 1]
        causes = causes[-1:] or [line[2:] for line in lines if line.startswith(": ")]  # Py4J's, below a call
    found = causes[0] if causes else next((line for line in lines if line.strip()), type(error).__name__)
    found = re.sub(r"^(?:Caused by: )?(?:[\w$]+\.)+(?=\w)", "", found.strip())
    return found if len(found) <= SHOWN else found[: SHOWN - 4] + " ..."


def _as_it_is(batches: Any) -> Any:
    return batches


def _why_none(context: Any) -> str:
    address = f"{context.getConf().get('spark.driver.host')}:{context.getConf().get('spark.driver.port')}"
    known = context._jsc.sc().statusStore().executorList(False)  # those that are gone as well
    executors = [known.apply(index) for index in range(known.size())]
    executors = [executor for executor in executors if executor.id() != "driver"]
    alive = [executor for executor in executors if executor.isActive()]
    if alive:
        return f"{len(alive)} executor(s) have registered, and other work takes all of their cores"
    if lost := [executor.removeReason().get() for executor in executors if executor.removeReason().isDefined()]:
        return f"its {len(executors)} executor(s) were lost: {' '.join(str(lost[-1]).split())[:SHOWN]}"
    return (
        f"no executor has registered. Either no worker has cores and memory to spare, or executors start and cannot "
        f"reach this process at {address}: set spark.driver.host (perdix.yaml, spark.conf) to an address that they "
        "reach; the cluster's own pages tell why executors ended"
    )

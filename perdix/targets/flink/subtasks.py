"""Which TaskManager has which subtask of a job: asked once for each deployment, for nothing else moves them."""

from perdix.models.capacity.key_groups import Subtasks
from perdix.targets.contract import TargetError
from perdix.targets.flink.answers import Job, Placed
from perdix.targets.http import HttpTarget

TRIES = 3  # for each deployment: a server that only hangs at this question must not delay every tick
Deployment = tuple[str, int, int]  # a job's id, its parallelism, and since when it runs


class Placement:
    """What was read of the newest deployment."""

    def __init__(self, flink: HttpTarget) -> None:
        self._flink = flink
        self._known: tuple[Deployment, Subtasks | None] | None = None
        self._tried: tuple[Deployment, int] | None = None

    def of(self, job: Job) -> Subtasks | None:
        """Return where the subtasks of a job are; ``None`` while it is being deployed, and where that is not known."""
        if not job.deployed:
            return None
        deployment = job.jid, job.parallelism, job.timestamps.get("RUNNING", 0)
        if self._known is not None and self._known[0] == deployment:
            return self._known[1]
        tried = self._tried[1] if self._tried is not None and self._tried[0] == deployment else 0
        if tried == TRIES:
            return None
        self._tried = deployment, tried + 1
        try:
            self._known = deployment, self._read(job)
        except TargetError:
            return None  # it only helps to foresee other sizes; the next tick asks again
        return self._known[1]

    def _read(self, job: Job) -> Subtasks | None:
        """Read the widest vertex, rather one that others feed: its work goes by key.

        Subtasks of the same number share a slot in all vertices that are as wide.
        """
        fed = {node.id for node in job.plan.nodes if node.inputs}
        widest = [vertex for vertex in job.vertices if vertex.parallelism == job.parallelism]
        vertex = next((broad for broad in widest if broad.id in fed), widest[0])
        placed = self._flink.asked("GET", f"/jobs/{job.jid}/vertices/{vertex.id}", Placed).subtasks
        workers = tuple(subtask.worker for subtask in sorted(placed, key=lambda subtask: subtask.subtask))
        alone = len(set(workers)) == len(workers) == job.parallelism and all(workers)
        return Subtasks(workers, vertex.max_parallelism) if alone else None

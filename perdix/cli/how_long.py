"""How long a command will take, said before it begins. The rates are those of two cores that nothing else uses."""

from perdix.cli.output import complaints, styled
from perdix.settings.counting import counted

START_S = 5.0  # imports, pictures, MLflow
SPARK_S = 10.0  # a JVM, and the imports of what the checks need
JOB_S, JOB_OF_MANY_S, FEW_JOBS = 12.0, 1.5, 20  # to fit and judge all families; of many jobs without the thorough ones
BYTES_PER_S = 8e6  # of exports
REPLAYED_S_PER_H = 1.5  # of a processor, for an hour of a job under a policy
COARSE_S_PER_H = 0.018  # the same in the coarse time of months
OPERATORS_S_PER_H = 2.0  # of a dataflow or of hosts
PROFILED_S_PER_H = 1.0


def cores() -> int:
    """Return how many cores this process may use; in a container, its limit."""
    from joblib import cpu_count

    return int(cpu_count())


def replay_s(runs: int, hours: float, processes: int | None, per_h_s: float = REPLAYED_S_PER_H) -> float:
    """Return the seconds that replays take side by side."""
    most = cores()
    beside = max(min(processes or most, most, runs), 1)
    return START_S + runs * hours * per_h_s / beside


def train_s(jobs: int) -> float:
    """Return the seconds that a training takes."""
    job_s = JOB_S if jobs <= FEW_JOBS else JOB_OF_MANY_S
    return SPARK_S + START_S + jobs * job_s / cores()


def ingest_s(read: int) -> float:
    """Return the seconds that an ingest of this many bytes takes."""
    return SPARK_S + read / BYTES_PER_S / cores()


def about(seconds: float) -> str:
    """Return a time as coarsely as it can be known."""
    if seconds < 57.5:
        return f"about {max(5 * round(seconds / 5), 5)} s"
    if seconds < 3_570:
        return f"about {max(round(seconds / 60), 1)} min"
    return f"about {seconds / 3_600:.2g} h"


def say_beforehand(what: str, seconds: float | None) -> None:
    """Say what is to be done and how long it takes, where that is known, where results do not go."""
    takes = "" if seconds is None else f", {about(seconds)} on {counted(cores(), 'core')}"
    complaints.print(styled(f"{what}{takes}", "dim"))

"""How the operators of a job are called in the state store and in published metrics."""

_OPERATORS = "/operators"


def on_record(job: str) -> str:
    """Return under which name the operators of a job stand there; no job is called so."""
    return f"{job}{_OPERATORS}"


def job_of(name: str) -> str:
    """Return the job that a name on record is of: itself, or whose operators it is."""
    return name.removesuffix(_OPERATORS)

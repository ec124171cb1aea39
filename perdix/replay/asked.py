"""From the names and paths that a user gives to a twin and a trace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perdix.models.forecasting.contract import Workload
from perdix.replay.workload import Trace, ingested, own, recorded
from perdix.settings.home import conf_part
from perdix.settings.nearest_name import meant
from perdix.settings.yaml_files import SettingsError, known_names
from perdix.twin.parameters import TwinParameters, load_twin
from perdix.twin.regimes import under

USUAL_TWIN = "wordcount"
JOB = "job:"


@dataclass(frozen=True)
class Ingested:
    """The jobs whose workload is in the lake."""

    names: Callable[[], Sequence[str]]  # lists them
    # Reads the workload of one, on a regular grid; raises ``ValueError`` when it has none
    workload: Callable[[str], Workload]


def twin_and_trace(
    workload: str | None,
    twin: str | None,
    seconds: int,
    *,
    folder: Path | None = None,
    fill_gaps: bool = False,
    step_s: float | None = None,
    jobs: Ingested | None = None,
    regime: str | None = None,
) -> tuple[TwinParameters, Trace]:
    """Return the twin, and the trace that it is to carry.

    Raises ``SettingsError``, naming what is not known and the nearest that is, or file and line of what cannot be.

    ``workload``: a twin's name for its own workload, else a file, else an ingested job's name; ``job:NAME`` is always a
    job. By default the workload of ``twin``.
    ``twin``: a name, or a YAML file; by default the twin whose workload it is, and ``wordcount`` for a file.
    ``seconds``: length of the replay.
    ``folder``: of the twins; by default ``conf/twins``.
    ``step_s``: seconds from row to row of a file without times.
    ``jobs``: the jobs that were ingested; ``None``: there are none.
    ``regime``: what rescales cost, by a file of ``conf/regimes``; ``None``: as on the twin's own cluster.
    """
    folder = folder or conf_part("twins")
    names = known_names(folder)
    named = workload in names
    parameters = _twin(twin or (workload if named and workload else USUAL_TWIN), names, folder)
    if workload is None:
        trace = own(parameters, seconds)
    elif named:
        if step_s is not None:
            raise SettingsError(f"--step: '{workload}' is a twin, whose workload has times; leave it out")
        trace = own(load_twin(workload, folder), seconds)
        if jobs is not None and workload in jobs.names():
            note = f"'{workload}' is a twin and an ingested job: this is the twin's, the job's is {JOB}{workload}"
            trace = replace(trace, notes=(*trace.notes, note))
    elif not workload.startswith(JOB) and Path(workload).exists():
        trace = recorded(Path(workload), fill_gaps=fill_gaps, step_s=step_s)
    else:
        trace = _of_job(workload, jobs, names, fill_gaps=fill_gaps, step_s=step_s)
    if regime is None:
        return parameters, trace
    note = f"rescales cost what they do in the regime '{regime}'"
    return under(parameters, regime), replace(trace, notes=(*trace.notes, note))


def _of_job(workload: str, jobs: Ingested | None, twins: list[str], *, fill_gaps: bool, step_s: float | None) -> Trace:
    job, known = workload.removeprefix(JOB), [] if jobs is None else list(jobs.names())
    if jobs is None or job not in known:
        what = "no such job was ingested" if workload.startswith(JOB) else "no such file, and no twin of that name"
        there = f"twins: {', '.join(twins)}; ingested jobs: {', '.join(known) or 'none'}"
        raise SettingsError(f"workload '{workload}': {what}; {meant(job, [*twins, *known], there)}")
    if step_s is not None:
        raise SettingsError(f"--step: the workload of job '{job}' has times; leave it out")
    try:
        return ingested(job, jobs.workload(job), fill_gaps=fill_gaps)
    except ValueError as error:
        raise SettingsError(f"workload '{workload}': {error}") from None


def _twin(name: str, names: list[str], folder: Path) -> TwinParameters:
    if name in names:
        return load_twin(name, folder)
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.exists():
        return load_twin(name)
    there = meant(name, names, f"twins: {', '.join(names)}")
    raise SettingsError(f"twin '{name}': not known, and no YAML file; {there}")

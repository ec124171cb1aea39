"""From the names and paths that a user gives to a twin and a trace."""

from __future__ import annotations

import difflib
from pathlib import Path

from replay.workload import Trace, own, recorded
from settings.yaml_files import SettingsError
from twin.parameters import TwinParameters, load_twin, twins_folder

USUAL_TWIN = "wordcount"


def twin_and_trace(
    workload: str | None, twin: str | None, seconds: int, *, folder: Path | None = None, fill_gaps: bool = False
) -> tuple[TwinParameters, Trace]:
    """Return the twin, and the trace that it is to carry.

    Parameters
    ----------
    workload
        A twin's name for its own workload, else a CSV or Parquet file; by default the workload of ``twin``.
    twin
        A name, or a YAML file; by default the twin whose workload it is, and ``wordcount`` for a file.
    seconds
        Length of the replay.
    folder
        Of the twins; by default ``conf/twins``.

    Raises
    ------
    ~settings.yaml_files.SettingsError
        Naming what is not known and the nearest that is, or file and line of what cannot be.
    """
    folder = folder or twins_folder()
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if workload is None:
        parameters = _twin(twin or USUAL_TWIN, names, folder)
        return parameters, own(parameters, seconds)
    named = workload in names
    if not named and not Path(workload).exists():
        raise SettingsError(
            f"workload '{workload}': no such file, and no twin of that name; {_nearest(workload, names)}"
        )
    parameters = _twin(twin or (workload if named else USUAL_TWIN), names, folder)
    if named:
        return parameters, own(load_twin(workload, folder), seconds)
    return parameters, recorded(Path(workload), fill_gaps=fill_gaps)


def _twin(name: str, names: list[str], folder: Path) -> TwinParameters:
    if name in names:
        return load_twin(name, folder)
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.exists():
        return load_twin(path.stem, path.parent)
    raise SettingsError(f"twin '{name}': not known, and no YAML file; {_nearest(name, names)}")


def _nearest(word: str, names: list[str]) -> str:
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean '{close[0]}'?" if close else f"twins: {', '.join(names)}"

"""From the options of ``perdix replay`` to what is to be replayed."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.output import UserError

if TYPE_CHECKING:
    from replay.campaign import Setup
    from replay.workload import Trace
    from settings.stream_job import Objectives
    from twin.parameters import TwinParameters

USUAL_TWIN = "wordcount"


def twin_and_trace(workload: str, twin: str | None, hours: float, *, fill_gaps: bool) -> tuple[TwinParameters, Trace]:
    """Return the twin, and the trace that it is to carry: a file's, or a twin's own.

    Raises
    ------
    UserError
        Naming what is not known, and the nearest that is.
    """
    from replay.workload import own, recorded
    from twin.parameters import twins_folder

    names = {path.stem for path in twins_folder().glob("*.yaml")}
    named = workload in names
    if not named and not Path(workload).exists():
        close = difflib.get_close_matches(workload, sorted(names), n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"twins with a workload: {', '.join(sorted(names))}"
        raise UserError(f"--workload {workload}: no such file, and no twin of that name; {hint}")
    parameters = _twin(twin or (workload if named else USUAL_TWIN), names)
    if not named:
        return parameters, recorded(Path(workload), fill_gaps=fill_gaps)
    return parameters, own(_twin(workload, names), round(3600 * hours))


def _twin(name: str, names: set[str]) -> TwinParameters:
    from twin.parameters import load_twin

    if name in names:
        return load_twin(name)
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.exists():
        return load_twin(path.stem, path.parent)
    close = difflib.get_close_matches(name, sorted(names), n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(sorted(names))}; or give a YAML file"
    raise UserError(f"--twin {name}: not known; {hint}")


def setup_of(
    parameters: TwinParameters,
    trace: Trace,
    policies: str | None,
    bounds: tuple[int, int | None],
    objectives: Objectives,
    **how: Any,
) -> Setup:
    """Return the setup; ``bounds`` are the fewest and the most workers (``None``: the twin's), ``how`` all the rest."""
    from replay.campaign import Setup
    from replay.contenders import contenders
    from settings.stream_job import Bounds

    minimum, maximum = bounds[0], bounds[1] or parameters.workers.maximum
    if minimum > maximum:
        raise UserError(f"--min {minimum} is above the most, {maximum}; swap or widen them")
    chosen = Bounds(minimum=minimum, maximum=maximum)
    who = contenders(policies or f"daedalus,hpa-80,static-{maximum}", chosen)
    return Setup(who, trace, parameters, chosen, objectives=objectives, **how)

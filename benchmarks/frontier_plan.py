"""A plan of the frontier played on the twin, to see whether what is said of it comes true."""

from __future__ import annotations

from dataclasses import replace

from perdix.replay.case import Case, Contender
from perdix.replay.figures import Truth, figures_of
from perdix.replay.frontier import FRONTIER
from perdix.replay.frontier.programme import Plan
from perdix.replay.outcome import Played
from perdix.replay.run import failure_times_s, fresh_twin, job_of
from perdix.settings.stream_job import PolicySettings
from perdix.twin.parameters import TwinParameters


def played(case: Case, plan: Plan) -> Played:
    """Return the run of a case with a plan that nobody changes on the way.

    ``case``: its contender and forecaster are ignored.
    """
    settings = PolicySettings(name="static", options={"scale_out": plan.first})
    plain = replace(case, contender=Contender(FRONTIER, settings), forecaster=None)
    job, truth = job_of(plain), Truth()
    twin = fresh_twin(plain, job.bounds)
    began_s, end_s = twin.now_s, twin.now_s + case.seconds
    crashes = failure_times_s(plain, began_s)
    for at_s, scale_out in plan.changes:
        truth.step(twin, began_s + at_s - twin.now_s, crashes)
        twin.rescale(scale_out, f"{FRONTIER}-{at_s}")
    truth.step(twin, end_s - twin.now_s, crashes)
    return figures_of(plain, job, twin, truth, began_s=began_s)


def without_luck(parameters: TwinParameters) -> TwinParameters:
    """Return a twin whose keys fall the same way at each scale-out, and whose restarts take their medians.

    Counted keys are dealt anew by every rescale all the same, unless they come in key groups.
    """
    restart = parameters.restart
    times = {
        name: getattr(restart, name).model_copy(update={"spread": 0.0})
        for name in ("out", "in_", "failure", "detection")
    }
    return parameters.model_copy(
        update={
            "keys": parameters.keys.model_copy(update={"redrawn": 0.0}),
            "restart": restart.model_copy(update=times),
        }
    )

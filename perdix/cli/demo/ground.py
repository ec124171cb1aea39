"""Where ``perdix demo`` may write: what an earlier demo left is forgotten, and what is not a demo's is not touched."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from perdix.cli.output import UserError
from perdix.cli.twin_jobs import claim_twin_job, is_twin_job
from perdix.control.state.store import StateStore
from perdix.settings.home import Home, conf_folder


def clear_ground(place: Home, store: StateStore, names: Collection[str]) -> None:
    """Forget what an earlier demo stored of its jobs: its twins are gone, and its decisions are about other workers.

    Raises ``UserError`` when one of the names belongs to a job that no demo made; nothing is changed then.
    """
    taken = list(_taken(place, store, names))
    if taken:
        raise UserError(
            f"the demo's jobs are called {', '.join(sorted(names))}, and there is something of the same name: "
            f"{'; '.join(taken)}. Nothing was changed; run it as PERDIX_HOME=<new folder> perdix demo"
            + (", without PERDIX_STATE_URL" if place.state_is_elsewhere else "")
        )
    store.forget(names)
    for name in names:
        claim_twin_job(place, name)  # at once: an interrupted demo must know its own again


def _taken(place: Home, store: StateStore, names: Collection[str]) -> Iterator[str]:
    stored = store.journal.statuses()
    for name in sorted(names):
        operators = conf_folder() / "jobs" / f"{name}.yaml"
        if operators.exists():
            yield f"the job file {operators}"
        own = place.jobs / f"{name}.yaml"
        if is_twin_job(own):
            continue
        if own.exists():
            yield f"the job file {own}"
        if name in stored:
            yield f"job '{name}' in {store.database.name}"
        landed = place.landing / name
        if landed.exists():
            yield f"the exports in {landed}"

"""The capacity of every scale-out: what runs now, what was seen before, and the curve through both (Daedalus 3.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from perdix.models.capacity.contract import Estimate
from perdix.models.capacity.evidence import OBSERVED, Evidence
from perdix.models.capacity.expectation import Expectation
from perdix.models.capacity.hottest import STRANGERS
from perdix.models.capacity.key_groups import KeyGroups, Subtasks
from perdix.models.capacity.line import IdleShare
from perdix.models.capacity.pairing import paired_minutes, runs_of_scale_out, seen_from_s
from perdix.models.capacity.partitions import read_unevenly
from perdix.models.capacity.reach import STALLED, Reach
from perdix.models.capacity.skew import apart
from perdix.models.capacity.workers import KEPT_IN_STATE, Against, Total, Workers
from perdix.settings.durations import MINUTE_S
from perdix.settings.replacing import replace
from perdix.settings.stream_job import MOST_WORKERS
from perdix.telemetry.metrics import THROUGHPUT
from perdix.telemetry.window import Window

STATE_FORMAT = 1
HALF_LIFE_S = 6 * 3600.0  # the lines forget: a new release of the job must be able to move them
ENOUGH_MINUTES = 0.5  # weight below which a scale-out that is left is not worth remembering beside others
BATCH_S = 600.0  # of history that is learnt at once
REMEMBERED = 96  # scale-outs kept in memory, newest first
SURPRISE = 0.20  # relative miss of the lines on fresh minutes that says: this is another program now
SURPRISES_TO_FORGET = 3
ANOTHER = math.log(1.7)  # of what a scale-out, or its mean worker, takes over earlier stays, that says so, too
CERTAIN_SDS = 4.0  # of both, which that exceeds
BUSY = 0.3  # CPU load of the hottest worker that both rest on: a nearly idle one is easily misjudged threefold
HARDLY = 0.1  # of what is done now: lines of so little work, as of idle hours, say nothing of it
FASTER = 1.4  # times what its CPU load explains, that no running program becomes
FAR = 1.5  # times the usual CPU load, beyond which no line is held against what is done
LIKELY_SDS = 2.0  # of what is believed of the idle share: above, it is not likely (strangers: 0.32)
VETO_MINUTES = 3.0  # weight from which a stay's lines are known well enough to doubt what comes
DEALT_MINUTES = 1.0  # weight from which a stay's CPU loads tell how the work falls onto the subtasks
LITTLE = 0.1  # share of the capacity up to which rates and CPU load may differ: an idle worker's CPU shows little
BEHIND_SD = 0.03  # relative sd of a minute's throughput with a backlog around the capacity
EVEN = 0.02  # of what arrives: who keeps up does so much less or more of it
MOST_PER_WORKER_PER_S = 1e9  # records/s: no worker takes more


@dataclass(frozen=True)
class ScaleOuts:
    """What every scale-out can take, learned online; updates return another one."""

    scale_out: int | None = None  # the current scale-out; ``None`` before anything was seen
    # Lines of the workers at it, started anew at every rescale because keys are dealt anew
    workers: Workers = field(default_factory=Workers)
    # What other scale-outs, and earlier stays at this one, were found to take
    memory: Mapping[int, Evidence] = field(default_factory=dict)
    # Epoch seconds of the newest sample that was used: what is newer than this has not been learnt from
    newest_s: float = -math.inf
    arrived_s: float = -math.inf  # when the current scale-out was first seen
    surprises: int = 0  # updates in a row in which the lines missed what the workers did by more than 20 %
    # What the current stay did while it worked off a backlog; ``None`` before it had one
    behind: Evidence | None = None
    idle: IdleShare = STRANGERS  # what earlier stays taught of the CPU load at which nothing is processed
    # Lines of the current stay that were given up because the workers no longer followed them
    outgrown: Workers = field(default_factory=Workers)
    # The newest samples where they contradict the lines; ``None`` where they agree. Not kept
    doubted: Against | None = None
    groups: KeyGroups = field(default_factory=KeyGroups)  # what subtasks taught of the loads of key groups
    dealt_minutes: float = 0.0  # weight of the current stay's lines when that was last learnt from it; 0 before
    # Workers of the current stay in the order of their subtasks, when that was first learnt from it
    dealt_to: tuple[str, ...] = ()
    reach: Reach = field(default_factory=Reach)  # how much of what the lines promise was done while work waited
    # Epoch seconds up to which it has faded, where that is later than the newest sample that was used
    faded_s: float = field(default=-math.inf, compare=False)

    # -- learning ------------------------------------------------------------------------------------------------------

    def update(
        self, window: Window, scale_out: int, subtasks: Subtasks | None = None, *, partitions: int | None = None
    ) -> ScaleOuts:
        """Learn from a window: rows that are newer than the last update, not of a warm-up, and of this scale-out.

        Windows may overlap: no row counts twice. Give at least two minutes, so that every new row has the minute of
        throughput before it that its one-minute mean of CPU covers.

        Raises ``ValueError`` when ``scale_out`` is below 1 or above any job's.

        ``subtasks``: which worker has which; ``None`` where that is not known, and then key groups are not learnt of.
        ``partitions``: of the source, where that is known: where these make the hottest worker, nothing is learnt of
        key groups.
        """
        if not 1 <= scale_out <= MOST_WORKERS:
            raise ValueError(f"a running job has 1 to {MOST_WORKERS} workers, found scale-out {scale_out}")
        moved = self._arrived(scale_out, window)
        rows = paired_minutes(window, scale_out, after_s=moved.newest_s, arrived_s=moved.arrived_s)
        if rows is None:
            return replace(moved, doubted=None)
        fresh = Workers.of(window.workers, rows.cpu, rows.throughput_per_s, rows.minutes_each, scale_out)
        since_s = max(moved.newest_s, moved.faded_s)
        moved = moved._reaching(moved.reach.faded(rows.newest_s - since_s))
        moved = replace(moved, doubted=None, faded_s=max(rows.newest_s, since_s))
        learnt = moved._learnt(fresh, rows.newest_s, rows.restarted_s) if len(fresh) else moved
        return learnt if subtasks is None else learnt._dealt(subtasks, partitions)

    def until(self, end_s: float) -> ScaleOuts:
        """Return the model that learns on from ``end_s``, where a clock that was ahead is set back to it."""
        arrived_s, newest_s, faded_s = (min(at_s, end_s) for at_s in (self.arrived_s, self.newest_s, self.faded_s))
        behind = None if self.behind is None else replace(self.behind, at_s=min(self.behind.at_s, end_s))
        return replace(self, arrived_s=arrived_s, newest_s=newest_s, faded_s=faded_s, behind=behind)

    def worked_off(
        self, scale_out: int, throughput_per_s: float, at_s: float, *, arrives_per_s: float = math.nan
    ) -> ScaleOuts:
        """Learn from a minute, up to ``at_s``, in which a backlog was worked off: its throughput was all there is.

        It also shows what workers wait for beside their CPU, and the seconds in which now one and now another of
        them is the slowest, of which the lines through CPU load know nothing. It does not count twice within a minute.
        Where it is far below the lines, something else may have held the job up; where that repeats, the lines promise
        too much at every scale-out. Who does as much as arrives keeps up: a lag that follows committed offsets says
        nothing else for most of the time.
        """
        if scale_out != self.scale_out or self._total is None:
            return self
        share = throughput_per_s / self._total.per_s
        if not share > (1.0 - SURPRISE) * self.reach.share:
            keeps_up = abs(throughput_per_s - arrives_per_s) <= EVEN * arrives_per_s
            return self if keeps_up else self._disproved(self.reach.fell_short(share, at_s))
        found, reach = Evidence(scale_out, throughput_per_s, BEHIND_SD, at_s, 1.0), Reach(self.reach.share)
        if self.behind is None:
            return replace(self, behind=found, reach=reach)
        if at_s - self.behind.at_s < MINUTE_S:
            return self
        return replace(self, behind=self.behind.combined(found), reach=reach)

    def did(self, scale_out: int, throughput_per_s: float) -> ScaleOuts:
        """Learn from a minute, also of a warm-up, that workers that fell short can do more than was believed."""
        if self.reach.share == 1.0 or not self.known:
            return self
        share = self.reach.share * throughput_per_s / self.capacity(scale_out).per_s
        return self._disproved(self.reach.did(share))

    def _disproved(self, reach: Reach) -> ScaleOuts:
        """Return the model with a reach that the newest minutes say: what earlier ones of the stay did is over."""
        found = self._reaching(reach)
        return found if reach is self.reach or reach == self.reach else replace(found, behind=None)

    def _reaching(self, reach: Reach) -> ScaleOuts:
        """Return the model with another reach, by which other scale-outs take more or less, too."""
        if reach is self.reach:
            return self
        if reach == self.reach:
            return replace(self, reach=reach)
        by = reach.share / self.reach.share
        memory = {n: replace(item, per_s=by * item.per_s) for n, item in self.memory.items()}
        return replace(self, reach=reach, memory=memory)

    def _arrived(self, scale_out: int, window: Window) -> ScaleOuts:
        if scale_out == self.scale_out:
            return self
        left = len(window) > 0 and self.scale_out is not None
        arrived = max(seen_from_s(window, scale_out), self.newest_s) if left else -math.inf
        return replace(self._left(), scale_out=scale_out, arrived_s=arrived)

    def _left(self) -> ScaleOuts:
        """Return the model after the end of a stay: what it taught is remembered, and its lines are gone."""
        return replace(
            self._remembering(),
            workers=Workers(),
            outgrown=Workers(),
            surprises=0,
            behind=None,
            idle=self.idle_share,
            dealt_minutes=0.0,
            dealt_to=(),
        )

    def _learnt(self, fresh: Workers, newest_s: float, restarted_s: float = math.inf) -> ScaleOuts:
        """Return the model after fresh samples; of history nobody says when the job was started: infinity."""
        found = self.workers.against(fresh)
        believed, done = found.believed_per_s, found.done_per_s
        elapsed = newest_s - self.newest_s if math.isfinite(self.newest_s) else 0.0
        if self._faster(found) and restarted_s < math.inf:
            # A program that runs gets no faster: rather its CPU is measured wrongly. Another program would restart.
            if restarted_s <= self.newest_s and elapsed < HALF_LIFE_S and not self._back(fresh):
                return replace(self, doubted=found)
            return self._anew(fresh, newest_s)
        missed = found.usual_per_s >= HARDLY * done and self._missed(found)
        if missed and restarted_s < math.inf and self._back(fresh):
            return self._anew(fresh, newest_s)
        far = self._telling(found) and abs(done - believed) > LITTLE * self._total_per_s
        doubted = found if far and missed else None
        if done < STALLED * min(believed, found.usual_per_s):
            return replace(self, newest_s=newest_s, doubted=doubted)
        surprises = self.surprises + 1 if missed else 0
        if surprises >= SURPRISES_TO_FORGET:
            return self._anew(fresh, newest_s)
        kept, reporting = self.workers.decayed(0.5 ** (elapsed / HALF_LIFE_S)), set(fresh.names)
        if len(kept) > len(reporting) >= (self.scale_out or 0):
            kept = kept.only(reporting)  # pods that were replaced
        learnt = replace(self, workers=kept.merge(fresh), newest_s=newest_s, surprises=surprises, doubted=doubted)
        learnt = learnt if self._total is None else learnt._disproved(self.reach.did(done / self._total_per_s))
        return learnt._forgetting() if learnt._is_another_program else learnt

    @property
    def _is_another_program(self) -> bool:
        """Whether what runs takes far more or less than stays at the nearest scale-out did: that is no luck of keys.

        Another size of the workers often comes together with another number of them, and then no line is missed.
        """
        stay, observed = self._stay, [item for item in self.memory.values() if item.source == OBSERVED]
        if stay is None or not observed or self.workers.weight < VETO_MINUTES:
            return False
        earlier = min(observed, key=lambda item: abs(math.log(item.scale_out / stay.scale_out)))
        if min(stay.cpu_reach, earlier.cpu_reach) < BUSY:
            return False
        sd = math.sqrt(earlier.variance(stay.at_s) + stay.relative_sd**2)
        return apart(stay, earlier) > max(ANOTHER, CERTAIN_SDS * sd)

    def _forgetting(self) -> ScaleOuts:
        """Return the model without what was learnt of another program, but for the workers' lines."""
        groups = KeyGroups(count=self.groups.count)
        return replace(self, memory={}, idle=STRANGERS, groups=groups, dealt_minutes=0.0, dealt_to=())

    def _anew(self, fresh: Workers, newest_s: float) -> ScaleOuts:
        """Return the model of a program that changed: its lines and what other scale-outs took are worth little now."""
        forgotten = replace(self._forgetting(), behind=None, surprises=0, doubted=None, reach=Reach())
        return replace(forgotten, workers=fresh, newest_s=newest_s, outgrown=self.workers)

    def _dealt(self, subtasks: Subtasks, partitions: int | None) -> ScaleOuts:
        """Learn how the work falls onto the subtasks, whenever the current stay is known twice as well as before."""
        weight = self.workers.weight
        if weight < max(DEALT_MINUTES, 2.0 * self.dealt_minutes) or len(subtasks.workers) != self.scale_out:
            return self
        if self.dealt_to and self.dealt_to != subtasks.workers:
            return self  # after a failure subtasks may be elsewhere: a worker's line mixes two of them
        shares = self.workers.shares(subtasks.workers, self.idle_share)
        if shares is None:
            return self
        if partitions is not None and self._stay is not None and read_unevenly(self._stay, partitions):
            return self  # what they read is what they differ in
        groups = self.groups if self.groups.count == subtasks.cells else KeyGroups(count=subtasks.cells)
        known = groups.after(len(shares), shares, judged=self.dealt_minutes == 0.0)
        return replace(self, groups=known, dealt_minutes=weight, dealt_to=subtasks.workers)

    def _missed(self, found: Against) -> bool:
        """Whether far more or less was done than the lines say, or than any likely idle share explains."""
        believed, done = found.believed_per_s, found.done_per_s
        idle = self.idle_share
        likely = (max(idle.cpu - LIKELY_SDS * idle.sd, 0.0), idle.cpu + LIKELY_SDS * idle.sd)
        explained = [believed, *filter(math.isfinite, map(found.explained_per_s, likely))]
        off = max(min(explained) - done, done - max(explained))
        excused = max(SURPRISE * max(believed, done), 3.0 * found.doubt_per_s)
        return believed > 0 and off > excused

    def _faster(self, found: Against) -> bool:
        """Whether far more was done than the CPU load explains, whatever the idle share is.

        With less CPU than usual a worker does less per CPU, not more; with more of it, what its line says, or what the
        idle share that is highest of all likely ones explains. Far beyond what was seen, nobody can say.
        """
        if not self._telling(found):
            return False
        if found.cpu_load >= found.usual_cpu_load:
            explained = self._explained(found)
        elif FASTER * found.cpu_load < found.usual_cpu_load:
            explained = found.usual_per_s * found.cpu_load / found.usual_cpu_load
        else:
            return False
        return found.done_per_s > max(FASTER * explained, explained + LITTLE * self._total_per_s)

    def _explained(self, found: Against) -> float:
        by_idle = found.explained_per_s(self.idle.cpu + LIKELY_SDS * self.idle.sd)
        if found.cpu_load > FAR * found.usual_cpu_load:
            return math.inf
        return max(by_idle, found.believed_per_s + 3.0 * found.doubt_per_s)

    def _telling(self, found: Against) -> bool:
        """Whether the workers were seen for long enough, and busy enough, for their CPU load to tell what they did."""
        if self.workers.weight < VETO_MINUTES or self._total is None:
            return False
        return found.usual_cpu_load > (self.idle.cpu + self.idle.sd) * found.workers

    def _back(self, fresh: Workers) -> bool:
        """Whether the workers are again as they were before the lines were last forgotten."""
        before = self.outgrown.against(fresh)
        return before.usual_per_s > 0 and not self._missed(before)

    @property
    def _total_per_s(self) -> float:
        return 0.0 if self._total is None else self._total.per_s

    def _remembering(self) -> ScaleOuts:
        stay = self._stay
        if stay is None:
            return self
        if self.memory and self.behind is None and self.workers.weight < ENOUGH_MINUTES:
            return self
        earlier, evidence = self.memory.get(stay.scale_out), stay.of_any_stay()
        if earlier is not None:
            evidence = earlier.combined(evidence)
        newest = sorted({**self.memory, evidence.scale_out: evidence}.values(), key=lambda item: -item.at_s)
        return replace(self, memory={item.scale_out: item for item in newest[:REMEMBERED]})

    def believing(self, learnt: Iterable[Evidence], idle: IdleShare | None = None) -> ScaleOuts:
        """Return the model with what a regressor says of scale-outs that were not observed.

        ``idle``: what stays that it was fitted to taught of the idle share, which counts where it is surer.
        """
        ours = {n: item for n, item in self.memory.items() if item.source == OBSERVED}
        share = self.reach.share  # they come from lines, too
        theirs = {
            item.scale_out: replace(item, per_s=share * item.per_s) for item in learnt if item.scale_out not in ours
        }
        surer = min(self.idle, idle or self.idle, key=lambda share: share.sd)
        return replace(self, memory={**theirs, **ours}, idle=surer)

    @classmethod
    def from_features(cls, frame: pd.DataFrame) -> ScaleOuts:
        """Learn from a history in the form of the lake table ``capacity_features``, in the order of time.

        Raises ``ValueError`` when a column is missing, no row has both CPU and throughput, the workers took in
        nothing, or more than a worker can.

        ``frame``: columns ``ts, worker, scale_out, cpu_load, throughput_per_s``; one-minute means, warm-up dropped.
        """
        model: ScaleOuts = cls()
        for run in runs_of_scale_out(frame):
            if run.scale_out != model.scale_out:
                model = replace(model._left(), scale_out=run.scale_out)
            # The same forgetting and the same surprises as online, in coarser steps: a week costs about a second.
            edges = np.flatnonzero(np.diff(run.times_s // BATCH_S, prepend=-1.0))
            for rows in (slice(a, b) for a, b in zip(edges, [*edges[1:], len(run.times_s)], strict=True)):
                fresh = Workers.of(
                    run.workers, run.cpu[rows], run.throughput_per_s[rows], run.minutes_each, run.scale_out
                )
                if len(fresh):
                    model = model._learnt(fresh, float(run.times_s[rows][-1]))
        if model.scale_out is None or not len(model.workers):
            raise ValueError(
                "no minute has both CPU load and throughput of a worker; check the quality report of ingest"
            )
        if not model.known:
            raise ValueError(
                "the workers took in nothing, so their capacity cannot be estimated; wait for load, or check that "
                f"{THROUGHPUT.name} is theirs"
            )
        model._check()
        return model

    # -- answering -----------------------------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """True when anything is known of the capacity."""
        return bool(self.typical)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader should know of the current estimate."""
        return self._total.warnings if self._total else ()

    def capacity(self, scale_out: int) -> Estimate:
        """Return the estimate for ``scale_out`` workers with a 90 % interval.

        What a scale-out is expected to take never falls with more workers. The estimate of what runs accounts for its
        key skew, and may be above or below what a neighbour is expected to take.

        Raises ``ValueError``: below 1, above any job's, or when nothing is known yet (ask :attr:`known`).
        """
        if not 1 <= scale_out <= MOST_WORKERS:
            raise ValueError(f"capacity is asked for 1 to {MOST_WORKERS} workers, not {scale_out}")
        if not self.known:
            raise ValueError("nothing is known of the capacity yet: no worker's CPU and throughput were paired")
        return self._expectation(None).estimates(range(scale_out, scale_out + 1))[scale_out]

    def per_s_if_known(self, scale_out: int) -> float | None:
        """Return what ``scale_out`` workers take, records/s; ``None`` where nothing is known."""
        return self.capacity(scale_out).per_s if self.known else None

    def table(
        self, maximum: int, minimum: int = 1, *, partitions: int | None = None, dated: bool = False
    ) -> dict[int, Estimate]:
        """Return the estimates from ``minimum`` to ``maximum`` workers; empty when nothing is known.

        ``partitions``: of the source, where that is known: a worker reads whole ones.
        ``dated``: whether their basis names dates, in place of ages that count from the newest minute.
        """
        if not self.known:
            return {}
        if minimum < 1:
            raise ValueError(f"capacity is asked for 1 worker or more, not {minimum}")
        return self._expectation(partitions).estimates(range(minimum, maximum + 1), dated=dated)

    @property
    def idle_share(self) -> IdleShare:
        """What is believed of the CPU load at which nothing is processed."""
        return self.idle if self._total is None else self._total.idle

    @cached_property
    def _total(self) -> Total | None:
        if self.scale_out is None or not len(self.workers):
            return None
        total = self.workers.total(self.scale_out, self.idle)
        return total if total.per_s > 0 else None

    @cached_property
    def _stay(self) -> Evidence | None:
        """What the lines say of the current stay, and what it did when it worked off a backlog."""
        total = self._total
        if total is None or self.scale_out is None:
            return None
        relative = total.sd_per_s / total.per_s
        lines = Evidence(
            self.scale_out,
            total.per_s * self.reach.share,
            relative,
            self.newest_s,
            total.cpu_reach,
            hottest_share=total.hottest_share,
            hottest_speed=total.hottest_speed,
        )
        return lines if self.behind is None else self.behind.combined(lines)

    @cached_property
    def _current(self) -> Evidence | None:
        """What is known of the current stay: its lines, and what earlier stays at this scale-out lead to expect."""
        earlier = None if self._stay is None else self.memory.get(self._stay.scale_out)
        return self._stay if earlier is None or self._stay is None else earlier.of_any_stay().combined(self._stay)

    @cached_property
    def typical(self) -> dict[int, Evidence]:
        """What every scale-out leads to expect of any stay."""
        current = self._current
        return {**self.memory, **({current.scale_out: current.of_any_stay()} if current else {})}

    def _expectation(self, partitions: int | None) -> Expectation:
        """Return what is expected of every scale-out, with a source of this many partitions."""
        if partitions not in self._expectations:
            self._expectations[partitions] = Expectation(
                self.typical, self._current, self._now_s, partitions, self.warnings, self.groups
            )
        return self._expectations[partitions]

    @cached_property
    def _expectations(self) -> dict[int | None, Expectation]:
        return {}

    @cached_property
    def _now_s(self) -> float:
        return max([self.newest_s, *(item.at_s for item in self.memory.values())])

    # -- state ---------------------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable state below 50 kB, whatever the number of workers."""
        return {
            "format": STATE_FORMAT,
            "scale_out": self.scale_out,
            "workers": self.workers.to_state(),
            "memory": [item.to_state() for item in self.memory.values()],
            "newest_s": self.newest_s if math.isfinite(self.newest_s) else None,
            "arrived_s": self.arrived_s if math.isfinite(self.arrived_s) else None,
            "surprises": self.surprises,
            "behind": None if self.behind is None else self.behind.to_state(),
            "idle": [self.idle.cpu, self.idle.sd],
            **({"reporting": self.workers.reporting} if self.workers.reporting > KEPT_IN_STATE else {}),
            **({"reach": self.reach.share} if self.reach.share < 1.0 else {}),
            **({"faded_s": self.faded_s} if self.reach.share < 1.0 and self.faded_s > self.newest_s else {}),
            **({"short": [self.reach.short_s, *self.reach.short]} if self.reach.short else {}),
            **({"outgrown": self.outgrown.to_state()} if len(self.outgrown) else {}),
            **({"groups": {**self.groups.to_state(), "minutes": self.dealt_minutes}} if self.groups.seen else {}),
            **({"dealt_to": list(self.dealt_to)} if self.dealt_to else {}),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`.

        Raises ``ValueError`` when the state is not one of this model, or was learned from metrics that cannot have been
        true.
        """
        if state.get("format") != STATE_FORMAT:
            raise ValueError(f"not a capacity state of format {STATE_FORMAT}: format is {state.get('format')!r}")
        memory = [Evidence.from_state(item) for item in state.get("memory", [])]
        newest, arrived = state.get("newest_s"), state.get("arrived_s")
        short_s, *short = state.get("short", [-math.inf])
        model = cls(
            scale_out=None if state.get("scale_out") is None else int(state["scale_out"]),
            workers=Workers.from_state(state.get("workers", {}), int(state.get("reporting", 0))),
            memory={item.scale_out: item for item in memory},
            newest_s=-math.inf if newest is None else float(newest),
            arrived_s=-math.inf if arrived is None else float(arrived),
            surprises=int(state.get("surprises", 0)),
            behind=None if state.get("behind") is None else Evidence.from_state(state["behind"]),
            idle=IdleShare(*map(float, state["idle"])) if "idle" in state else STRANGERS,
            outgrown=Workers.from_state(state.get("outgrown", {})),
            groups=KeyGroups.from_state(state["groups"]) if "groups" in state else KeyGroups(),
            dealt_minutes=float(state["groups"]["minutes"]) if "groups" in state else 0.0,
            dealt_to=tuple(map(str, state.get("dealt_to", ()))),
            reach=Reach(float(state.get("reach", 1.0)), tuple(map(float, short)), float(short_s)),
            faded_s=float(state.get("faded_s", -math.inf)),
        )
        model._check()
        return model

    def _check(self) -> None:
        """Refuse what absurd metrics once taught: one scale-out of 1e6 would be reckoned with at every tick."""
        for scale_out in (*self.memory, self.scale_out or 1):
            if not 1 <= scale_out <= MOST_WORKERS:
                raise ValueError(f"it was learned at scale-out {scale_out:g}; a job has 1 to {MOST_WORKERS} workers")
        if not 0.0 < self.reach.share <= 1.0:
            raise ValueError(f"its lines are said to be reached to {self.reach.share:g}; that is above 0 and at most 1")
        each_per_s = [item.per_s / item.scale_out for item in self.memory.values()]
        highest_per_s = max([self.workers.highest_per_s, *each_per_s])
        if not highest_per_s <= MOST_PER_WORKER_PER_S:
            raise ValueError(
                f"a worker is said to take {highest_per_s:.3g} records/s, and none takes so much; check that "
                f"{THROUGHPUT.name} counts records, not bytes"
            )

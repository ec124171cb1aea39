"""A loop whose published metrics are scraped, and rows of its store as another process left them."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from perdix.control.fleet import tick_fleet
from perdix.control.fleet_report import FleetReport
from perdix.control.job_files import FollowedFiles
from perdix.control.publish.metrics import PublishedCollector
from perdix.control.publish.standing import PublishedState
from perdix.control.state.journal import JobStatus, Status, Tick
from perdix.control.state.ledger import Intent
from perdix.control.state.store import StateStore
from perdix.policies.contract import Reason
from perdix.settings.targets import AdvisorySettings
from perdix.twin.living import SimulatedClock
from tests.control.rig import Rig

NOW_S = 1_790_000_000.0
TWIN = "target: {kind: twin, url: 'http://127.0.0.1:1'}\n"
ADVISED: dict[str, Any] = {"mode": "advise", "target": AdvisorySettings()}
Labels = frozenset[tuple[str, str]]


@dataclass
class Scrape:
    """The samples of one scrape, asked for by name and labels."""

    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.samples.get((f"perdix_{name}", frozenset(labels.items())))

    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    def label(self, name: str, label: str, job: str = "orders") -> str | None:
        """The label of the one series that a metric has for a job."""
        found = [
            dict(labels)[label]
            for (sample, labels) in self.samples
            if sample == f"perdix_{name}" and ("stream_job", job) in labels
        ]
        assert len(found) <= 1, found
        return found[0] if found else None


def scrape(collector: PublishedCollector) -> Scrape:
    return Scrape(
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in collector.collect()
            for sample in family.samples
        }
    )


@dataclass
class Loop:
    """A rig under the fleet's tick, and a collector beside it that sees the store only."""

    rig: Rig
    clock: SimulatedClock
    collector: PublishedCollector

    @classmethod
    def of(cls, store: StateStore, folder: Path, per_s: Any = 15_000.0, **options: Any) -> "Loop":
        rig = Rig.of(store, per_s, **options)
        clock = SimulatedClock(rig.now_s)
        (folder / "orders.yaml").write_text(
            "bounds: {minimum: 1, maximum: 8}\nmode: act\n" + ("" if rig.job.mode == "advise" else TWIN)
        )
        url = store.database.url.render_as_string(hide_password=False)
        return cls(rig, clock, PublishedCollector(PublishedState(url), FollowedFiles((folder,)), clock))

    def minute(self, minutes: int = 1) -> FleetReport:
        report = None
        for _ in range(minutes):
            self.clock.advance(60.0)
            self.rig.twin.step(60)
            report = tick_fleet([self.rig.job], self.rig.io, self.clock, holder="a")
        assert report is not None
        return report

    def scrape(self) -> Scrape:
        return scrape(self.collector)


def sqlite_url(path: Path) -> str:
    return sa.URL.create("sqlite", database=str(path)).render_as_string()


def an_intent(store: StateStore, now_s: float, job: str, scale_out: int, mix: dict[str, int] | None = None) -> None:
    store.ledger.record(
        Intent(
            job=job,
            window_end_s=now_s,
            made_s=now_s,
            from_scale_out=4,
            scale_out=scale_out,
            policy="daedalus",
            reason=Reason.of_change(4, scale_out),
            sentence="for the test",
            valid_until_s=now_s + 900.0,
            versions={},
            explanation={"seen": {"workload_per_s": 1_000.0}},
            mix=mix or {},
        )
    )


def a_status(store: StateStore, now_s: float, job: str, **details: Any) -> None:
    given = {"reason": "scale_out", "event": "nothing", "wape": None, **details}
    status = JobStatus(job, Status.ACTING, now_s, "for the test", given)
    store.journal.record_tick(Tick(now_s, now_s, "a", {"statuses": {"acting": 1}}), [replace(status)])

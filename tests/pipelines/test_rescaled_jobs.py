"""A tick that rescaled asks for a run, whose page says why and shows what the job did."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from perdix.assets.resources import Workspace
from perdix.settings.home import PROJECT, Home
from perdix.twin.emission import Scraping
from perdix.twin.job import JobTwin
from perdix.twin.living import LivingTwin, SimulatedClock
from perdix.twin.prometheus_face import PrometheusFace
from perdix.twin.workloads import arrivals_from
from tests.control.rig import HIGH, LOW, constant, parameters

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.pipelines.control_sensor import control_loop
    from perdix.pipelines.rescaled_jobs import MOST, Reviewed, review_jobs, review_of

START_S, PAST_S = 1_772_000_000, 1_800
JOB = """
engine: flink
prometheus:
  url: {url}
  selector: {{namespace: {name}, topic: {name}, job_name: {name}}}
  scrape_interval_s: 10
bounds: {{minimum: 1, maximum: 8}}
target: {{kind: twin, url: {url}}}
mode: act
"""


@dataclass
class Sensor:
    workspace: Workspace
    instance: dg.DagsterInstance
    clock: SimulatedClock
    url: str

    def tick(self) -> dg.SensorResult:
        self.clock.advance(60)
        with dg.build_sensor_context(instance=self.instance, resources={"workspace": self.workspace}) as context:
            told = control_loop(context)
        assert isinstance(told, dg.SensorResult)
        for request in told.dynamic_partitions_requests or []:
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        return told

    def run(self, request: dg.RunRequest, tags: Mapping[str, str] | None = None) -> dict[str, dg.AssetMaterialization]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries' own
            done = review_jobs.execute_in_process(
                run_config=request.run_config,
                instance=self.instance,
                resources={"workspace": self.workspace},
                tags=tags,
            )
        assert done.success
        made = [event.step_materialization_data.materialization for event in done.all_events if _materialises(event)]
        return {answer.partition or "": answer for answer in made}


def _materialises(event: dg.DagsterEvent) -> bool:
    return event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION


@pytest.fixture
def sensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sensor]:
    home, conf = Home(tmp_path / "home").make(), tmp_path / "conf"
    (conf / "jobs").mkdir(parents=True)
    (conf / "queries").symlink_to(PROJECT / "conf" / "queries")
    (conf / "perdix.yaml").write_text("")
    clock = SimulatedClock(START_S)
    for reads in ("now_s", "elapsed_s"):
        monkeypatch.setattr(f"perdix.control.clock.WallClock.{reads}", lambda _: clock.now_s())
    twins = {
        name: JobTwin(
            parameters().model_copy(update={"name": name}),
            3,
            start_s=START_S - PAST_S,
            scale_out=3,
            arrivals=arrivals_from(load, START_S - PAST_S),
        )
        for name, load in (("busy", constant(HIGH)), ("steady", constant(3 * LOW)))
    }
    living = LivingTwin(twins, clock, scraping=Scraping(interval_s=10.0))
    with PrometheusFace(living) as face, dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        for name in twins:
            (conf / "jobs" / f"{name}.yaml").write_text(JOB.format(url=face.url, name=name))
        yield Sensor(Workspace(home=str(home.root), conf=str(conf)), instance, clock, face.url)


def test_a_tick_that_rescaled_asks_for_a_run_that_shows_why(sensor: Sensor) -> None:
    told = [sensor.tick() for _ in range(3)]
    asked = [answer for answer in told if answer.run_requests]
    assert asked, "a job that is overloaded is scaled out"
    (request,) = asked[0].run_requests or ()
    assert asked[0].skip_reason is None
    assert request.job_name == "review_jobs"
    assert request.tags["perdix/rescaled"] == "busy"
    quiet = [answer for answer in told if not answer.run_requests]
    assert all("Workers: busy" in str(answer.skip_reason) for answer in quiet), "another tick says how its jobs stand"

    made = sensor.run(request)
    assert list(made) == ["busy"]
    metadata = made["busy"].metadata
    why = str(metadata["why"].value)
    assert "busy: 3 to 8 workers." in why
    assert "\n\n| workers | can process | verdict |\n|---:|---:|---|\n| " in why, "a table, whose cells wrap"
    assert "```" not in why
    assert metadata["workers"].value > 3
    assert metadata["rescales"].value == 1
    assert metadata["late_percent"].value > 0
    assert metadata["load_per_s"].value == pytest.approx(HIGH, rel=0.1)
    png = base64.b64decode(str(metadata["picture"].value).partition("base64,")[2].rstrip(")"))
    assert png.startswith(b"\x89PNG")


def test_any_job_can_be_reviewed_by_hand_also_one_without_metrics_or_file(sensor: Sensor) -> None:
    sensor.tick()
    conf = Path(sensor.workspace.conf) / "jobs"
    (conf / "silent.yaml").write_text(JOB.format(url=sensor.url, name="gone"))
    made = sensor.run(review_of(["steady", "silent", "unheard-of"]))
    assert set(made) == {"steady", "silent"}
    assert "picture" in made["steady"].metadata
    assert made["steady"].metadata["rescales"].value == 0
    assert "no picture" in made["silent"].metadata


@pytest.mark.parametrize(
    ("jobs", "said"),
    [(["stedy"], "stedy: there is no stream job of this name; did you mean 'steady'?"), ([], "jobs"), ([""], "busy, ")],
)
def test_a_run_that_reviews_no_job_has_not_succeeded(sensor: Sensor, jobs: list[str], said: str) -> None:
    """A name that is misspelt in the Launchpad must not look like a review that is done."""
    sensor.tick()
    with pytest.raises((dg.Failure, ValueError)) as caught:
        sensor.run(review_of(jobs))
    assert said in str(caught.value)


def test_a_run_that_the_loop_asked_for_succeeds_where_its_job_was_removed_meanwhile(sensor: Sensor) -> None:
    sensor.tick()
    request = review_of(["removed"])
    assert not sensor.run(request, tags=request.tags)


@pytest.mark.parametrize("hours", [0.0, -1.0, 169.0, 1e300])
def test_hours_that_cannot_be_drawn_are_refused_before_anything_is_read(hours: float) -> None:
    with pytest.raises(ValueError, match="hours"):
        Reviewed(jobs=["busy"], hours=hours)


def test_a_run_reviews_so_many_jobs_at_most_and_names_the_others(
    sensor: Sensor, capfd: pytest.CaptureFixture[str]
) -> None:
    sensor.tick()
    others = [f"job-{number:03}" for number in range(MOST - 1)]
    request = review_of([*others, "busy", "steady"])
    assert len(request.tags["perdix/rescaled"]) <= 255
    assert set(sensor.run(request)) == {"busy"}
    assert f"1 more than {MOST} jobs are left out: steady" in capfd.readouterr().err

"""The whole line through Dagster for real: landing folder, Spark, Great Expectations, MLflow, and the sensors."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from benchmarks.export_forms import write_exports
from perdix.assets.resources import Workspace
from perdix.cli.twin_jobs import write_twin_jobs
from perdix.control.live import live_io
from perdix.models.capacity.scale_outs import ScaleOuts
from perdix.models.registry import CAPACITY, FORECAST, read_fleet
from perdix.settings.home import PROJECT, Home
from perdix.telemetry.lake import Lake
from perdix.telemetry.landing import land
from perdix.twin.emission import Scraping, emit
from perdix.twin.living import LivingTwin, SimulatedClock, revive
from perdix.twin.parameters import load_twin
from perdix.twin.prometheus_face import PrometheusFace

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOW_S = datetime(2026, 3, 4, 15, tzinfo=UTC).timestamp()
DAY = "2026-03-04"
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
JOBS = {"ads": "victoria-metrics", "wordcount": "query-range"}
FORECASTS = (
    "recent_range",
    "forecast_candidates",
    "forecast_champions",
)  # of a training: capacities take its most time

with warnings.catch_warnings():
    warnings.simplefilter("ignore", (dg.BetaWarning, dg.PreviewWarning))
    from perdix.pipelines.control_location import build_control_defs
    from perdix.pipelines.control_sensor import control_loop
    from perdix.pipelines.training_location import build_training_defs


@dataclass
class Line:
    """What one pass over the line left behind."""

    home: Home
    workspace: Workspace
    instance: dg.DagsterInstance
    definitions: dg.Definitions
    living: LivingTwin
    clock: SimulatedClock

    def run(self, job: str, first: str, last: str, assets: Sequence[str] | None = None) -> dg.ExecuteInProcessResult:
        """Run a job, or those of its assets that are named."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries' own; perdix' modules are tested with warnings as errors
            return self.definitions.resolve_job_def(job).execute_in_process(
                instance=self.instance,
                tags={RANGE[0]: first, RANGE[1]: last},
                raise_on_error=False,
                asset_selection=None if assets is None else [dg.AssetKey(name) for name in assets],
            )

    @property
    def lake(self) -> Lake:
        return Lake(self.home.lake)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory, home_at: Callable[[Path], Home], spark: object) -> Iterator[Line]:
    """Two twins' exports and one broken file, ingested, observed and trained once."""
    home = home_at(tmp_path_factory.mktemp("line"))
    conf = tmp_path_factory.mktemp("conf")
    for folder in ("queries", "expectations", "twins"):
        (conf / folder).symlink_to(PROJECT / "conf" / folder)
    (conf / "perdix.yaml").write_text(
        "training: {forecast_families: [last-value, damped-trend], thorough_families: []}\n"
    )
    clock = SimulatedClock(NOW_S)
    living = revive({name: load_twin(name) for name in JOBS}, clock, hours=2.0, scraping=Scraping(interval_s=10.0))
    for name, form in JOBS.items():
        series = emit(living.job(name), living.scraping, names="flink", from_s=NOW_S - 7200, to_s=NOW_S)
        folder = home.root / "exports" / name
        folder.mkdir(parents=True)
        land(home, write_exports(series, folder, form, name, gzipped=True), name)
    (home.landing / "ads" / "page.json").write_text("<html><body>502 Bad Gateway</body></html>")
    (home.landing / "not a job").mkdir()
    workspace = Workspace(home=str(home.root), conf=str(conf))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        definitions = build_training_defs(workspace)
    with dg.instance_for_test(temp_dir=str(tmp_path_factory.mktemp("dagster"))) as instance:
        made = Line(home, workspace, instance, definitions, living, clock)
        ingested = made.run("ingest_day", DAY, DAY)
        assert ingested.success, [event.event_specific_data for event in ingested.all_events if event.is_failure]
        trained = made.run("train", "ads", "wordcount")
        assert trained.success, [event.event_specific_data for event in trained.all_events if event.is_failure]
        yield made


@pytest.fixture(scope="module")
def again(line: Line) -> dg.ExecuteInProcessResult:
    """A second training of one job, whose Prometheus cannot be reached."""
    line.home.jobs.mkdir(exist_ok=True)
    (line.home.jobs / "ads.yaml").write_text("prometheus: {url: 'http://127.0.0.1:9', selector: {topic: ads}}\n")
    result = line.run("train", "ads", "ads", FORECASTS)
    (line.home.jobs / "ads.yaml").unlink()
    assert result.success
    return result


def metadata(line: Line, asset: str) -> dict[str, object]:
    event = line.instance.get_latest_materialization_event(dg.AssetKey(asset))
    assert event is not None
    assert event.asset_materialization is not None
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def of_partition(line: Line, asset: str, job: str) -> dict[str, object]:
    """Return what the newest materialization of one job says."""
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[job])
    (record,) = line.instance.fetch_materializations(wanted, limit=1).records
    assert record.asset_materialization is not None
    return {name: value.value for name, value in record.asset_materialization.metadata.items()}


def newest_run(line: Line) -> str:
    return line.instance.get_runs(limit=1)[0].run_id


def test_counts_of_the_ingest_add_up_and_the_broken_file_is_in_quarantine(line: Line) -> None:
    said = metadata(line, "samples")
    assert said["adds_up"]
    assert said["read"] == said["kept"] + said["masked"] + said["quarantined"]  # type: ignore[operator]
    assert said["quarantined"] == 1
    rows = line.lake.read("quarantine", "ads").to_pylist()
    assert len(rows) == 1
    assert "HTML" in rows[0]["reason"]
    assert rows[0]["file"] == "page.json"


def test_a_folder_that_cannot_name_a_job_is_told_and_stops_nobody(line: Line) -> None:
    (problem,) = metadata(line, "samples")["problems"]  # type: ignore[misc, attr-defined]
    assert "not a job" in problem
    assert "rename the folder" in problem


def test_every_layer_holds_rows_of_both_jobs(line: Line) -> None:
    for table in ("job_observations", "worker_observations", "workload_features", "capacity_features"):
        assert line.lake.jobs(table) == ["ads", "wordcount"], table


def test_checks_of_both_layers_were_judged_and_kept_beside_the_data(line: Line) -> None:
    for table in ("samples", "job_observations"):
        document = json.loads((line.home.validations / table / f"{DAY}.json").read_text())
        assert len(document["outcomes"]) >= 8
        assert not document["blocks"]


def test_ingesting_again_changes_nothing(line: Line) -> None:
    before = {part.keys["source"]: part.digest for part in line.lake.manifests("samples")}
    assert line.run("ingest_day", DAY, DAY).success
    assert {part.keys["source"]: part.digest for part in line.lake.manifests("samples")} == before


def test_champions_are_registered_and_readable_without_unpickling(line: Line, tmp_path: Path) -> None:
    registry = line.workspace.registry()
    for name in (FORECAST, CAPACITY):
        champion = registry.current_version(name)
        assert champion is not None
        fleet = read_fleet(registry.download(name, champion.version, tmp_path / f"{name}.parquet"))
        assert list(fleet.jobs["job"]) == ["ads", "wordcount"]


def test_the_capacity_champion_knows_the_twin(line: Line, tmp_path: Path) -> None:
    registry = line.workspace.registry()
    champion = registry.current_version(CAPACITY)
    assert champion is not None
    fleet = read_fleet(registry.download(CAPACITY, champion.version, tmp_path / "fleet.parquet"))
    for row in fleet.jobs.to_dict("records"):
        model = ScaleOuts.from_state(json.loads(row["state"]))
        twin = line.living.job(row["job"])
        estimate = model.capacity(twin.scale_out)
        assert estimate.per_s == pytest.approx(twin.current_capacity(), rel=0.15)


def test_a_second_training_challenges_the_champion_on_the_same_windows(line: Line, again: object) -> None:
    said = metadata(line, "forecast_champions")
    assert said["kept"] == 1
    assert said["promoted"] == 0
    registry = line.workspace.registry()
    champion, challenger = registry.current_version(FORECAST), registry.current_version(FORECAST, "challenger")
    assert champion is not None
    assert challenger is not None
    assert challenger.version > champion.version


def test_a_prometheus_that_is_down_is_told_on_the_run_and_the_training_goes_on(
    line: Line, again: dg.ExecuteInProcessResult
) -> None:
    assert "http://127.0.0.1:9 cannot be reached" in str(of_partition(line, "recent_range", "ads")["problems"])
    passed = {item.check_name: item.passed for item in again.get_asset_check_evaluations()}
    assert not passed["everything_was_pulled"]
    assert of_partition(line, "forecast_candidates", "ads")["winner"] != "none"


def test_a_job_whose_data_is_broken_fails_alone_and_keeps_its_champion(line: Line, tmp_path: Path) -> None:
    registry = line.workspace.registry()

    def champions() -> dict[str, str]:
        current = registry.current_version(FORECAST)
        assert current is not None
        jobs = read_fleet(registry.download(FORECAST, current.version, tmp_path / "fleet.parquet")).jobs
        return dict(zip(jobs["job"], jobs["state"], strict=True))

    before = champions()
    files = {file: file.read_bytes() for file in line.lake.files("workload_features", "wordcount")}
    for file in files:
        file.write_bytes(b"PAR1 and no more")
    try:
        assert line.run("train", "ads", "wordcount", FORECASTS).success
    finally:
        for file, content in files.items():
            file.write_bytes(content)
    assert champions()["wordcount"] == before["wordcount"]
    own = {job: of_partition(line, "forecast_candidates", job) for job in JOBS}
    assert "not readable; remove its folder" in str(own["wordcount"]["error"])
    assert "error" not in own["ads"]
    assert (own["ads"]["jobs_trained"], own["ads"]["jobs_failed"]) == (1, 1)
    told = [entry.user_message for entry in line.instance.all_logs(newest_run(line)) if entry.dagster_event is None]
    assert any(said.startswith("wordcount: ") for said in told)
    assert any("2 of 2 jobs trained, 1 failed" in said for said in told)


def test_a_blocking_check_stops_what_is_downstream(line: Line) -> None:
    """Samples that are all missing fail a critical expectation; observations of that day are not made."""
    day = "2026-03-09"
    at_ms = int(datetime(2026, 3, 9, 12, tzinfo=UTC).timestamp() * 1000)
    rows = [f'{{__name__="cpu_load", worker="w-{k % 3}"}} -7.5 {at_ms + 15_000 * k}' for k in range(600)]
    broken = line.home.landing / "broken"
    broken.mkdir()
    (broken / "dump.txt").write_text("\n".join(rows) + "\n")
    result = line.run("ingest_day", day, day)
    failed = [item.check_name for item in result.get_asset_check_evaluations() if not item.passed]
    assert failed
    assert not result.success
    assert line.lake.days("samples", "broken") == [day]
    assert "broken" not in line.lake.jobs("job_observations")


class TestSensors:
    @pytest.fixture
    def ticking(self, line: Line) -> Iterator[Line]:
        with PrometheusFace(line.living) as face:
            write_twin_jobs(line.home, face.url, mode="advise", scrape_interval_s=10.0)
            for other in ("traffic",):
                (line.home.jobs / f"{other}.yaml").unlink()
            yield line

    def test_a_tick_of_the_control_sensor_decides_with_the_champions(
        self, ticking: Line, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ticking.clock.advance(60)
        monkeypatch.setattr("perdix.control.clock.WallClock.now_s", lambda _: ticking.clock.now_s())
        definitions = build_control_defs(ticking.workspace)
        with dg.build_sensor_context(
            instance=ticking.instance, definitions=definitions, resources={"workspace": ticking.workspace}
        ) as context:
            result = control_loop(context)
        assert isinstance(result, dg.SensorResult)
        assert len(result.asset_events) == 1
        said = result.asset_events[0].metadata
        assert said["jobs"].value == 2
        assert said["blind"].value == 0
        with live_io(ticking.home, ticking.workspace.settings().control) as io:
            statuses = io.store.journal.statuses()
            assert {status.status.value for status in statuses.values()} == {"advise"}
            entry = io.store.ledger.decisions("ads", limit=1)[0]
        assert entry.intent.versions


def test_a_job_with_too_short_a_history_gets_no_champion_and_fails_nothing(line: Line) -> None:
    """Twenty minutes cannot judge a forecast of fifteen: said so, as a warning; the loop uses its fallback."""
    lines = [f"workload_per_s {45_000 + 10 * k} {int(NOW_S) + 15 * k}" for k in range(80)]
    short = line.home.landing / "short"
    short.mkdir()
    (short / "short.txt").write_text("# TYPE workload_per_s gauge\n" + "\n".join(lines) + "\n# EOF\n")
    assert line.run("ingest_day", DAY, DAY).success
    result = line.run("train", "short", "short")
    judged = [item for item in result.get_asset_check_evaluations() if item.asset_key.path == ["forecast_champions"]]
    assert [item.passed for item in judged] == [False]
    said = metadata(line, "forecast_candidates")
    assert said["jobs_failed"] == 0

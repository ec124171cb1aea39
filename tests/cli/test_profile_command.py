"""``perdix profile`` as a user calls it: the document, the table, and errors in plain words."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perdix.assets.kept_answers import Kept
from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import UserError, number, run_guarded
from perdix.cli.profile import _profiled, _show
from perdix.control.champions import Champions
from perdix.models.latency.selection import FAMILIES
from perdix.models.profiling.profile import Profile, ProfilePoint
from perdix.models.profiling.rows import newest_profile, write_profile
from perdix.models.registry import LATENCY
from perdix.settings.home import Home
from tests.cli.made_up_runs import Instance, came_of

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"
QUICK = ("--deployments", "3", "--step", "80000", "--settle", "120", "--measure", "60")


def documented() -> set[str]:
    row = re.search(r"^\| `perdix\.profile/1` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    return set(re.findall(r"`(\w+)`", row[1]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
def test_a_twin_is_profiled_and_its_latency_model_becomes_champion(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    home_at: Callable[[Path], Home],
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(home_at(tmp_path / "home").root))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries' own
        result = CliRunner().invoke(app, ["profile", "wordcount", *QUICK, "--json"])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    assert found.pop("schema") == "perdix.profile/1"
    assert set(found) == documented()
    assert (found["job"], found["error"], found["promoted"], found["version"]) == ("wordcount", None, True, 1)
    assert found["latency_model"] in {family.family for family in FAMILIES}
    assert [deployment["scale_out"] for deployment in found["deployments"]] == [2, 7, 12]
    per_worker = [deployment["per_worker_per_s"] for deployment in found["deployments"]]
    assert all(20_000 < rate < 60_000 for rate in per_worker)
    assert 10 < found["downtime_s"] < 60
    home = Home(tmp_path / "home")
    kept = newest_profile(home.profiles, "wordcount")
    assert kept is not None
    assert str(kept[0]) == found["file"]
    assert found["worker_h"] == pytest.approx(kept[1].worker_s / 3600.0)
    in_use = Champions(home.champions, None).fleet(LATENCY)
    assert in_use.version in (0, 1), "the loop fetches it when it next looks"
    _show(found)
    said = capsys.readouterr().out
    assert f"profile of wordcount: {number(found['worker_h'])} worker-hours" in said
    assert "a failure stops the job for" in said


def test_what_was_not_given_back_is_said_and_is_no_success(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    left = "what ran before could not be restored: no answer (it had 4 workers); restore it by hand"
    found: dict[str, Any] = dict.fromkeys(documented()) | {"job": "orders", "left": left, "notes": [left]}
    found |= {"worker_h": 1.0, "deployments": []}
    monkeypatch.setattr("perdix.cli.profile._profiled", lambda *_, **__: found)
    for as_json in ((), ("--json",)):
        said = CliRunner().invoke(app, ["profile", "orders", "--live", *as_json])
        assert said.exit_code == 1
        assert said.stderr == f"{left}\n"
        assert as_json or left not in " ".join(said.stdout.split()), "it is said once"
    found["left"] = ""
    assert CliRunner().invoke(app, ["profile", "orders", "--live"]).exit_code == 0


@pytest.mark.filterwarnings("ignore")  # libraries' own
@pytest.mark.parametrize("left", ["", "what ran before could not be restored: no answer (it had 4 workers)"])
def test_where_nothing_is_learned_the_profile_that_was_made_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, left: str
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    home = Home(tmp_path / "home").make()
    points = (ProfilePoint(2, 500.0, 500.0, 40.0, True), ProfilePoint(2, 1_000.0, 1_000.0, 90.0, True))
    kept = write_profile(Profile("wordcount", points, {2: 1_000.0}, 7_200.0), home.profiles)
    older = {"result": {"winner": "line", "promote": True, "verdict": "of long ago"}, "error": None}
    Kept(home.trainings / "perdix-latency", "older").write("wordcount", older)
    why = "no job could be trained; wordcount: two points are too few"

    def run_job(*_: object, must_succeed: bool = True, **__: object) -> object:
        if must_succeed:
            raise UserError(f"run x failed\nlatency_candidates: {why}")
        return came_of("x", {"profiles": {"file": str(kept), "left": left}}, {"latency_candidates": why})

    monkeypatch.setattr("perdix.cli.runs.instance", lambda _: Instance())
    monkeypatch.setattr("perdix.cli.runs.run_job", run_job)
    answer = CliRunner().invoke(app, ["profile", "wordcount", "--json"])
    assert answer.exit_code == 1
    found = json.loads(answer.stdout)
    assert set(found) - {"schema"} == documented()
    assert (found["file"], found["left"], found["points"]) == (str(kept), left, 2)
    assert found["error"] == f"run x failed; latency_candidates: {why}"
    assert (found["latency_model"], found["promoted"], found["verdict"], found["version"]) == (None, False, None, None)
    answer = CliRunner().invoke(app, ["profile", "wordcount"])
    assert answer.exit_code == 1
    assert f"kept as {kept}" in answer.stdout
    assert why in " ".join(answer.stdout.split())
    assert answer.stderr.endswith(f"{left}\n" if left else "cores\n")


@pytest.mark.filterwarnings("ignore")  # libraries' own
def test_a_profiling_that_fails_itself_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("perdix.cli.runs.instance", lambda _: Instance())
    failed = came_of("x", {}, {"profiles": "nothing could be measured"})
    monkeypatch.setattr("perdix.cli.runs.run_job", lambda *_, **__: failed)
    with pytest.raises(UserError, match=r"run x failed\nprofiles: nothing could be measured"):
        _profiled("wordcount", {"twin": "wordcount", "live": False}, show=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wordcont"], "there is no twin 'wordcont'"),
        (["wordcount", "--max", "50"], "maximum 50: the twin 'wordcount' has 12 workers; ask for fewer"),
        (["wordcount", "--job", "../../evil"], "'../../evil' is no name of a stream job: letters, digits"),
        (["wordcount", "--job", "my job"], "is no name of a stream job"),
        (["nosuch", "--live"], "there is no stream job 'nosuch'; known: "),
        (
            ["nosuch", "--live", "--job", "other"],
            "--job other: with --live the job itself is profiled",
        ),
    ],
)
def test_what_a_user_gets_wrong_is_said_before_anything_is_begun(
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PERDIX_HOME", str(tmp_path / "home"))
    assert run_guarded(lambda: app(["profile", *arguments], standalone_mode=False), known_errors) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert "Traceback" not in said
    assert not (tmp_path / "home" / "dagster").exists(), "no stream job of that name is left behind"


def test_a_step_of_nothing_is_refused_and_not_taken_for_the_usual_one() -> None:
    answer = CliRunner().invoke(app, ["profile", "nosuch", "--step", "0"])
    assert answer.exit_code == 2
    assert "0.001" in answer.output

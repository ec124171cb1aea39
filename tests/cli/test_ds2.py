"""``perdix ds2`` as a user calls it: answers, what is set aside, and errors in plain words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perdix.cli.known_errors import known_errors
from perdix.cli.main import app
from perdix.cli.output import run_guarded

DOCS = Path(__file__).resolve().parents[2] / "docs" / "json.md"


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The chain of the original's test: 100 records/s from the source, two epochs; the second has twice the load."""
    topology = write(tmp_path / "topology.csv", "# edges", "Source,Source,1,Op1,Op1,1", "Op1,Op1,1,Op2,Op2,1")
    rates = write(
        tmp_path / "rates.log",
        "Source,1,1,0,0,100,0,90",
        "Op1,1,1,0,50,400,45,380",
        "Op2,1,1,0,100,200,100,200",
        "Source,1,1,10,0,200,0,90",
        "Op1,1,1,10,40,700,15,380",
        "Op2,1,1,10,99,200,100,200",
    )
    return ["ds2", "--topology", topology, "--rates", rates]


def document(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    row = re.search(r"^\| `perdix.ds2/1` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    assert set(found) - {"schema"} == set(re.findall(r"`(\w+)`", row[1]))
    assert found["schema"] == "perdix.ds2/1"
    return found


def test_every_operator_is_told_by_epoch_and_together(files: list[str]) -> None:
    said = document(*files)
    assert [epoch["parallelism"] for epoch in said["epochs"]] == [
        {"Source": 1, "Op1": 2, "Op2": 8},
        {"Source": 1, "Op1": 5, "Op2": 36},
    ]
    assert said["parallelism"] == {"Source": 1, "Op1": 5, "Op2": 36}
    assert said["epochs"][1]["unrounded"]["Op2"] == pytest.approx(35.353535)
    assert said["sources"] == {"Source": {"instances": 1, "target_per_s": 200.0, "observed_per_s": 90.0}}
    assert [row["operator"] for row in said["operators"]] == ["Source", "Op1", "Op2"]
    assert (said["set_aside"], said["notes"], said["workers"]) == ([], [], None)


def test_epochs_are_combined_as_told(files: list[str]) -> None:
    assert document(*files, "--combine", "max")["parallelism"]["Op2"] == 36
    assert document(*files, "--combine", "median")["parallelism"] == {"Source": 1, "Op1": 4, "Op2": 22}
    assert document(*files, "--epoch", "0")["parallelism"]["Op2"] == 8


def test_source_rates_are_per_instance_and_as_seen_where_told(files: list[str], tmp_path: Path) -> None:
    told = write(tmp_path / "s.csv", "# source, rate", "Source,50")
    assert document(*files, "--sources", told)["epochs"][0]["parallelism"] == {"Source": 1, "Op1": 1, "Op2": 4}
    seen = write(tmp_path / "seen.csv", "Source,-1", "Elsewhere,7")
    said = document(*files, "--sources", seen)
    assert said["epochs"][0]["unrounded"]["Op1"] == pytest.approx(1.8)
    assert said["notes"] == ["'Elsewhere' has a source rate, but is no source of the topology; it is not used"]


def test_head_room_bounds_slots_key_groups_and_workers(files: list[str]) -> None:
    first = [*files, "--epoch", "0"]
    assert document(*first, "--rate-factor", "0.25")["parallelism"] == {"Source": 1, "Op1": 3, "Op2": 10}
    bounded = document(*first, "--max-parallelism", "6")
    assert bounded["parallelism"]["Op2"] == 6
    assert bounded["epochs"][0]["reasons"] == {"Op2": "8 are needed; 6 is the most that it may have"}
    assert document(*first, "--slots", "4")["parallelism"] == {"Source": 1, "Op1": 1, "Op2": 4}
    assert document(*first, "--slots", "6", "--own-slots")["parallelism"] == {"Source": 1, "Op1": 1, "Op2": 4}
    even = document(*files, "--max-parallelism", "48", "--align", "EVENLY_SPREAD")
    assert even["parallelism"] == {"Source": 1, "Op1": 6, "Op2": 48}
    assert len(even["notes"]) == 2
    assert document(*first, "--global")["workers"] == 10


def test_sources_are_sized_where_asked_for(files: list[str], tmp_path: Path) -> None:
    told = write(tmp_path / "s.csv", "Source,350")
    assert document(*files, "--epoch", "0", "--sources", told)["parallelism"]["Source"] == 1
    assert document(*files, "--epoch", "0", "--sources", told, "--size-sources")["parallelism"]["Source"] == 4


def test_an_operator_that_did_not_report_keeps_what_it_ran_last(files: list[str]) -> None:
    rates = Path(files[-1])
    lines = rates.read_text().replace("Op2,1,1,0,", "Op2,1,3,0,").split("\n")
    write(rates, *(line for line in lines if not line.startswith("Op2,1,1,10,")))
    said = document(*files)
    assert said["parallelism"]["Op2"] == 3
    assert said["epochs"][1]["reasons"] == {"Op2": "it did not report"}


def test_curves_that_were_seen_bend_the_answer(files: list[str], tmp_path: Path) -> None:
    curves = write(tmp_path / "curves.json", '{"Op2": [[1, 100], [4, 250]]}')
    said = document(*files, "--epoch", "0", "--curves", curves)
    assert said["parallelism"]["Op1"] == 2
    assert said["parallelism"]["Op2"] > 12


def test_what_was_learned_can_be_written_and_read_again(files: list[str], tmp_path: Path) -> None:
    before, after = write(tmp_path / "before.json", '{"Op2": [[3, 250]]}'), str(tmp_path / "after.json")
    document(*files, "--epoch", "0", "--curves", before, "--write-curves", after)
    learned = json.loads(Path(after).read_text())
    assert set(learned) == {"Op1", "Op2"}
    assert [point[0] for point in learned["Op2"]["points"]] == [1, 3]
    bent = document(*files, "--epoch", "0", "--curves", after)
    assert bent["parallelism"]["Op2"] > 12


def test_what_cannot_be_read_is_set_aside_and_counted(files: list[str], tmp_path: Path) -> None:
    rates = Path(files[-1])
    write(rates, *rates.read_text().split("\n"), "Op1,2,1,now,1,1,1,1", "Ghost,1,1,0,1,1,1,1")
    said = document(*files)
    assert said["parallelism"] == {"Source": 1, "Op1": 5, "Op2": 36}
    assert said["set_aside"] == [
        {"file": "rates.log", "line": 8, "reason": "'now' is not the start of a window; write whole nanoseconds"}
    ]
    assert said["notes"] == ["'Ghost' has rates, but is not in the topology; they are not used"]
    shown = CliRunner().invoke(app, files)
    assert "set aside: 1 line; the first: rates.log:8" in " ".join(shown.output.split())


def test_idle_and_silent_instances_are_told(files: list[str], tmp_path: Path) -> None:
    rates = write(
        tmp_path / "idle.log",
        "Source,1,1,0,0,100,0,90",
        "Op1,1,3,0,50,400,45,380",
        "Op1,2,3,0,NaN,NaN,0,0",
        "Op2,1,1,0,NaN,NaN,0,0",
    )
    said = document(*files[:-1], rates)
    assert said["parallelism"] == {"Source": 1, "Op1": 2, "Op2": 1}
    (told,) = said["epochs"]
    assert told["reasons"] == {"Op2": "it was idle, so its true rate is not known"}
    assert told["left_out"]["Op1"] == "2 of 3 instances have no true rate; the mean of the others stands for them"


def test_people_get_tables(files: list[str]) -> None:
    said = " ".join(CliRunner().invoke(app, [*files, "--global"]).output.split())
    assert "parallelism (last of 2 epochs)" in said
    assert "workers that run every operator: 41" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--topology", "absent.csv"], "absent.csv: cannot be read"),
        (["--rates", "absent.log"], "absent.log: no such file or folder; name one"),
        (["--epoch", "7"], "--epoch 7: there is none; give all or one of 0, 1"),
        (["--combine", "mean"], "give one of last, max, median"),
        (["--align", "SOMEHOW"], "give one of OFF, BALANCED, EVENLY_SPREAD"),
        (["--align", "balanced"], "add --max-parallelism"),
        (["--curves", "absent.json"], "absent.json: cannot be read"),
        (["--write-curves", "absent/curves.json"], "absent/curves.json: cannot be written"),
    ],
)
def test_what_a_user_gets_wrong_is_said_in_one_sentence(
    files: list[str], change: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = dict(zip(files[1::2], files[2::2], strict=True)) | {change[0]: change[1]}
    words_of = [word for option in given.items() for word in option]
    assert run_guarded(lambda: app(["ds2", *words_of], standalone_mode=False), known_errors) == 2
    said = capsys.readouterr().err
    assert words in " ".join(said.split())
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("topology", "curves", "words"),
    [
        (["a,a,1,b,b,1", "b,b,1,a,a,1"], "{}", "the dataflow has a cycle"),
        (["x,x,1,y,y,1"], "{}", "give files of one dataflow"),
        (["Source,Source,1,Op1,Op1,1"], "[1]", "write an operator's curve as"),
        (["Source,Source,1,Op1,Op1,1"], '{"No": []}', "'No' is not in the topology"),
        (["Source,Source,1,Op1,Op1,1"], "[]", "not a mapping of operators to curves"),
        (["Source,Source,1,Op1,Op1,1"], '{"Op1": [[0, 1]]}', "'Op1': [0, 1]: give whole instances from 1 on"),
        (["Source,Source,1,Op1,Op1,1"], '{"Op1": [[1.5, 1]]}', "'Op1': [1.5, 1]: give whole instances from 1 on"),
        (["Source,Source,1,Op1,Op1,1"], '{"Op1": [[1, 1e400]]}', "give a finite rate above 0"),
        (["Source,Source,1,Op1,Op1,1"], '{"Op1": [[1, 0]]}', "give a finite rate above 0"),
        (["Source,Source,1,Op1,Op1,1"], '{"Op1": [[1, NaN]]}', "give a finite rate above 0"),
    ],
)
def test_files_that_do_not_fit_are_said_so(
    files: list[str],
    topology: list[str],
    curves: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(Path(files[2]), *topology)
    curved = ["--curves", write(tmp_path / "c.json", curves)]
    assert run_guarded(lambda: app([*files, *curved], standalone_mode=False), known_errors) == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.shared
def test_the_examples_of_the_original_program(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "ds2"
    topology = ["ds2", "--topology", str(folder / "offline/flink_wordcount_topology.csv")]
    cases = json.loads((folder / "test_vectors_derived.json").read_text())
    fast = write(tmp_path / "sources.csv", "Source: Custom Source,1000000")
    for rates in ("flink_wordcount_rates.csv", "flink_wordcount_rates_originals.tar.gz"):
        for more, kind in (([], "logged_source_rate"), (["--sources", fast], "source_rate_1e6")):
            said = document(*topology, "--rates", str(folder / rates), *more)
            for epoch in said["epochs"]:
                case = next(case for case in cases if case["name"] == f"wordcount_epoch{epoch['epoch']}_{kind}")
                assert epoch["parallelism"] == case["expected_parallelism"] | {"Source: Custom Source": 1}
                assert epoch["unrounded"] == pytest.approx(case["unrounded"], rel=1e-9)
    offline = document(*topology, "--rates", str(folder / "offline/flink_rates.log"), "--target-rate-ratio", "1.0")
    assert [epoch["raised"] for epoch in offline["epochs"]] == pytest.approx([1.3723, 1.4621], abs=1e-4)
    assert set(offline["parallelism"].values()) == {1, 2}

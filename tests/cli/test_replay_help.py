"""``perdix replay job|operators|hosts``: each kind has its own options, in groups; older words lead to the same."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from perdix.cli.main import app
from perdix.cli.output import UserError
from perdix.cli.replay.command import of_kind
from perdix.cli.replay.options import Sink
from perdix.replay.labels import FORECASTER, HOSTS_DEFAULT, HOSTS_FORECASTER, OPERATORS_DEFAULT
from perdix.replay.part import USUAL_HOURS

GROUPS = {
    "job": ["Workload", "Twin", "Policies", "Objectives", "Failures", "Prices", "Runs", "Output"],
    "operators": ["Policies", "Workload", "Runs", "Output"],
    "hosts": ["Workload", "Policies", "Failures", "Runs", "Output"],
}


def called(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["replay", *words], env={"COLUMNS": "120", "TERM": "dumb"})
    return done.exit_code, done.output


def options_of(kind: str) -> list[object]:
    group = typer.main.get_command(app).commands["replay"]  # type: ignore[attr-defined]
    return [param for param in group.commands[kind].params if param.name != "help" and param.opts[0].startswith("--")]


@pytest.mark.parametrize("kind", GROUPS)
def test_every_option_is_in_one_group(kind: str) -> None:
    options, (_, said) = options_of(kind), called(kind, "--help")
    assert {option.rich_help_panel for option in options} == set(GROUPS[kind])  # type: ignore[attr-defined]
    shown = [option for option in re.findall(r"^│ (--[a-z-]+)", said, re.MULTILINE) if option != "--help"]
    assert len(shown) == len(set(shown)) == len(options)
    heads = re.findall(r"^╭─ (.+?) ─+╮", said, re.MULTILINE)
    assert [head for head in heads if head not in ("Options", "Arguments")] == GROUPS[kind]


def defaults(kind: str) -> dict[str, str]:
    shown = {option.opts[0]: (option.show_default, option.default) for option in options_of(kind)}  # type: ignore[attr-defined]
    return {name: said if isinstance(said, str) else str(default) for name, (said, default) in shown.items()}


def test_the_help_of_each_kind_states_its_own_defaults() -> None:
    job, operators, hosts = (defaults(kind) for kind in GROUPS)
    assert (job["--hours"], job["--policy"]) == (f"{USUAL_HOURS:g}", "perdix,hpa-80,static-MAX")
    assert (job["--forecaster"], hosts["--forecaster"]) == (FORECASTER, HOSTS_FORECASTER)
    assert operators["--hours"] == hosts["--hours"] == "as its file says"
    assert (operators["--policy"], hosts["--policy"]) == (OPERATORS_DEFAULT, HOSTS_DEFAULT)
    assert "--from" not in called("hosts", "--help")[1]


@pytest.mark.parametrize("kind", GROUPS)
def test_help_ends_with_examples_of_its_kind(kind: str) -> None:
    *_, last = (line.strip() for line in called(kind, "--help")[1].splitlines() if line.strip())
    assert last.startswith(f"Example: perdix replay {kind} ")


def test_the_kinds_are_listed() -> None:
    code, said = called("--help")
    assert code == 0
    assert [kind for kind in GROUPS if re.search(rf"^│ {kind} ", said, re.MULTILINE)] == list(GROUPS)


@pytest.mark.parametrize(
    ("words", "led_to"),
    [
        ([], ["job"]),
        (["--workload", "ads"], ["job", "--workload", "ads"]),
        (["job", "--twin", "ads"], ["job", "--twin", "ads"]),
        (["--policy", "ds2", "--dataflow", "q5", "--json"], ["operators", "--policy", "ds2", "q5", "--json"]),
        (["--dataflow=q5"], ["operators", "q5"]),
        (["--topology", "plant", "--seeds", "2"], ["hosts", "plant", "--seeds", "2"]),
        (["--help"], ["--help"]),
    ],
)
def test_without_a_kind_it_is_a_job_or_what_an_older_option_names(words: list[str], led_to: list[str]) -> None:
    assert of_kind(words) == led_to


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("operators", "nexmark-q1", "--twin", "ads"), "--twin"),
        (("--dataflow", "nexmark-q1", "--noise", "0"), "--noise"),
        (("--dataflow", "nexmark-q1", "--prices", "visp-10"), "--prices"),
        (("--topology", "manufacturing", "--from", "2d"), "--from"),
        (("--topology", "manufacturing", "--dataflow", "nexmark-q1"), "--dataflow"),
        (("hosts", "manufacturing", "--worker-price", "2"), "--worker-price"),
        (("--skew", "0.5"), "--skew"),
        (("--pattern", "stepwise"), "--pattern"),
    ],
)
def test_an_option_of_another_kind_is_refused_by_name(words: tuple[str, ...], option: str) -> None:
    code, said = called(*words)
    assert code == 2
    assert f"No such option: {option}" in " ".join(said.replace("│", " ").split())


def test_what_is_to_be_replayed_must_be_named() -> None:
    code, said = called("--dataflow")
    assert code == 2
    assert "Missing argument 'DATAFLOW'" in " ".join(said.split())


def test_a_bare_json_means_standard_output_and_nothing_at_all_is_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def end_here(as_json: str | None, *_: object, **__: object) -> Sink:
        asked.append(as_json)
        raise UserError("far enough")

    monkeypatch.setattr("perdix.cli.replay.job.sink_of", end_here)
    for words in ([], ["--json"], ["--json", "--seeds", "2"]):
        CliRunner().invoke(app, ["replay", *words])
    assert asked == [None, "-", "-"]

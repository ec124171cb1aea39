"""Dagster's instance of a home."""

import re
from pathlib import Path

import dagster as dg
import pytest

from perdix.cli.output import UserError
from perdix.cli.runs import failed_steps, instance
from perdix.models.registry import NoDatabase
from perdix.settings.home import Home


@pytest.mark.parametrize(("name", "odd"), [("feature%2Fnew", "%2F"), ("what?", "?")])
def test_a_folder_that_dagster_takes_for_another_is_refused(name: str, odd: str, tmp_path: Path) -> None:
    """Some build servers name the folder of a branch so; Dagster's SQLite would look elsewhere, and find no folder."""
    home = Home(tmp_path / name)
    with pytest.raises(UserError, match=rf"{re.escape(name)}: .* '{re.escape(odd)}'.*another"), instance(home):
        raise AssertionError("it opens")
    assert not home.root.exists()


def test_a_step_that_fails_says_why_without_the_names_of_classes() -> None:
    """Those are in Dagster's log."""

    @dg.op
    def away() -> None:
        raise NoDatabase("MLflow's database is not there; restore it")

    @dg.op
    def refused() -> None:
        raise dg.Failure("no job could be trained")

    @dg.op
    def defect() -> None:
        raise KeyError("state")

    @dg.job
    def several() -> None:
        away()
        refused()
        defect()

    assert sorted(failed_steps(several.execute_in_process(raise_on_error=False))) == [
        "away: MLflow's database is not there; restore it",
        "defect: KeyError: 'state'",
        "refused: no job could be trained",
    ]


def test_any_other_folder_will_do(tmp_path: Path) -> None:
    with instance(Home(tmp_path / "50% of Ümit's #1")) as opened:
        assert opened.get_runs_count() == 0

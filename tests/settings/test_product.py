"""Settings of the whole product: what cannot be used is reported with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster._utils.schedules import is_valid_cron_schedule

from perdix.settings.product import CRON_NAMES, load_product_settings
from perdix.settings.yaml_files import SettingsError


@pytest.mark.parametrize("cron", ["every day at 3", "99 2 * * *", "every day at 3 sharp", "0 2 * * 5L", "0 2 LW * *"])
def test_a_cron_that_is_none_is_reported_with_its_line(tmp_path: Path, cron: str) -> None:
    file = tmp_path / "perdix.yaml"
    file.write_text(f"training:\n  cron: {cron}\n")
    with pytest.raises(SettingsError, match=r"perdix\.yaml:2.*30 2 \* \* MON"):
        load_product_settings(file)


@pytest.mark.parametrize("cron", ["0 */6 * * *", "0 2 L * wed", "0 2 * * 5#3", *CRON_NAMES])
def test_a_cron_that_dagster_takes_is_taken(tmp_path: Path, cron: str) -> None:
    file = tmp_path / "perdix.yaml"
    file.write_text(f"training:\n  cron: '{cron}'\n")
    assert load_product_settings(file).training.cron == cron
    assert is_valid_cron_schedule(cron)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("training:\n  history_days: 1000000\n", "less than or equal to 3660"),
        ("training:\n  forecast_families: []\n", "at least 1 item"),
        ("training:\n  horizon_s: 1.0e+300\n", "less than or equal to 86400"),
        ("training:\n  seed: -1\n", "greater than or equal to 0"),
        # a date and a time: no library of trees takes it, so every family of trees would be left out
        ("training:\n  seed: 202604011230\n", "less than or equal to 4000000000"),
        ("control:\n  tick_interval_s: 0.4\n", "greater than or equal to 1"),
        ("control:\n  tick_interval_s: 1.0e+300\n", "less than or equal to 86400"),
    ],
)
def test_a_number_that_no_night_can_use_is_reported_with_its_line(tmp_path: Path, wrong: str, words: str) -> None:
    file = tmp_path / "perdix.yaml"
    file.write_text(wrong)
    with pytest.raises(SettingsError, match=rf"perdix\.yaml:2.*{words}"):
        load_product_settings(file)

"""Settings of the whole product: what cannot be used is reported with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster._utils.schedules import is_valid_cron_schedule

from perdix.settings.product import CRON_NAMES, load_product_settings
from perdix.settings.yaml_files import SettingsError


@pytest.mark.parametrize("cron", ["every day at 3", "99 2 * * *", "every day at 3 sharp"])
def test_a_cron_that_is_none_is_reported_with_its_line(tmp_path: Path, cron: str) -> None:
    file = tmp_path / "perdix.yaml"
    file.write_text(f"training:\n  cron: {cron}\n")
    with pytest.raises(SettingsError, match=r"perdix\.yaml:2.*30 2 \* \* MON"):
        load_product_settings(file)


@pytest.mark.parametrize("cron", ["0 */6 * * *", *CRON_NAMES])
def test_a_cron_that_dagster_takes_is_taken(tmp_path: Path, cron: str) -> None:
    file = tmp_path / "perdix.yaml"
    file.write_text(f"training:\n  cron: '{cron}'\n")
    assert load_product_settings(file).training.cron == cron
    assert is_valid_cron_schedule(cron)

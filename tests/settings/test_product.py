"""Settings of the whole product: what cannot be used is reported with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdix.settings.product import load_product_settings
from perdix.settings.yaml_files import SettingsError


@pytest.mark.parametrize("cron", ["every day at 3", "99 2 * * *", "every day at 3 sharp"])
def test_a_cron_that_is_none_is_reported_with_its_line(tmp_path: Path, cron: str) -> None:
    file = tmp_path / "perdix.yaml"
    file.write_text(f"training:\n  cron: {cron}\n")
    with pytest.raises(SettingsError, match=r"perdix\.yaml:2.*30 2 \* \* MON"):
        load_product_settings(file)


def test_a_cron_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "perdix.yaml"
    file.write_text("training:\n  cron: 0 */6 * * *\n")
    assert load_product_settings(file).training.cron == "0 */6 * * *"

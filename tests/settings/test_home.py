"""Where state and configuration lie, by variables of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdix.settings.home import PACKAGE, Home, conf_folder


def test_an_empty_variable_is_one_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PERDIX_HOME", "PERDIX_CONF", "PERDIX_STATE_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, "")
    home = Home.from_environment()
    assert home.root == tmp_path / ".perdix"
    assert home.state_url == f"sqlite:///{tmp_path / '.perdix' / 'state.db'}"
    assert home.mlflow_url == f"sqlite:///{tmp_path / '.perdix' / 'mlflow.db'}"
    assert not home.state_is_elsewhere
    assert conf_folder() == (PACKAGE / "conf").resolve()

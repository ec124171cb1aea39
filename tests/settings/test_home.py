"""Where state and configuration lie, by variables of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdix.settings.home import PACKAGE, Home, conf_folder


@pytest.mark.parametrize("empty", ["", " ", "\n"])
def test_an_empty_variable_is_one_that_is_not_set(empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PERDIX_HOME", "PERDIX_CONF", "PERDIX_STATE_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, empty)
    home = Home.from_environment()
    assert home.root == tmp_path / ".perdix"
    assert home.state_url == f"sqlite:///{tmp_path / '.perdix' / 'state.db'}"
    assert home.mlflow_url == f"sqlite:///{tmp_path / '.perdix' / 'mlflow.db'}"
    assert not home.state_is_elsewhere
    assert conf_folder() == (PACKAGE / "conf").resolve()


def test_a_line_end_behind_a_value_names_no_other_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets and blocks of YAML often end in one: a new, empty state would know of no pause."""
    for name, value in (
        ("PERDIX_HOME", f"{tmp_path}\n"),
        ("PERDIX_CONF", f"{tmp_path / 'conf'}\n"),
        ("PERDIX_STATE_URL", f"sqlite:///{tmp_path}/state.db\n"),
        ("MLFLOW_TRACKING_URI", " http://mlflow:5000\r\n"),
    ):
        monkeypatch.setenv(name, value)
    home = Home.from_environment()
    assert home.root == tmp_path
    assert home.state_url == f"sqlite:///{tmp_path}/state.db"
    assert home.mlflow_url == "http://mlflow:5000"
    assert home.state_is_elsewhere
    assert conf_folder() == tmp_path / "conf"

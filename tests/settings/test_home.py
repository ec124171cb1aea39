"""Where state and configuration lie, by variables of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdix.settings.home import PACKAGE, Home, conf_folder
from perdix.settings.plain_error import SettingsError


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


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite+pysqlite://",
        "sqlite:///file:any?mode=memory&uri=true",
        "sqlite:///file::memory:?cache=shared&uri=true",
    ],
)
def test_a_store_that_ends_with_its_process_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause would be kept nowhere, and the controller would never hear of it."""
    monkeypatch.setenv("PERDIX_STATE_URL", url)
    with pytest.raises(SettingsError, match=r"PERDIX_STATE_URL: .* in memory.*sqlite:////absolute/file"):
        _ = Home.from_environment().state_url


def test_a_file_is_no_store_in_memory_whatever_its_folders_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDIX_STATE_URL", "sqlite:////data/mode=memory/x.db")
    assert Home.from_environment().state_url == "sqlite:////data/mode=memory/x.db"


@pytest.mark.parametrize("value", ["~nobody-of-this-name/x", "a" * 300])
def test_a_place_that_cannot_be_is_named_with_its_variable(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDIX_HOME", value)
    with pytest.raises(SettingsError, match=f"PERDIX_HOME {value}: .*[^.]; name another folder"):
        Home.from_environment()
    monkeypatch.setenv("PERDIX_CONF", value)
    with pytest.raises(SettingsError, match=f"PERDIX_CONF {value}: "):
        conf_folder()

"""Who asks a server, and what of its certificate is checked."""

import pytest
from pydantic import ValidationError

from perdix.settings.access import AccessError, HttpAccess

URL = "https://metrics.example"


def test_certificates_are_checked_unless_somebody_says_otherwise():
    assert HttpAccess(url=URL).verify_tls


def test_no_token_no_header():
    assert HttpAccess(url=URL).headers() == {}


def test_a_token_file_is_read_anew_each_time_because_mounted_tokens_rotate(tmp_path):
    file = tmp_path / "token"
    access = HttpAccess(url=URL, token_file=file)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert access.headers() == {"Authorization": f"Bearer {token}"}


def test_a_token_may_stand_in_the_environment(monkeypatch):
    monkeypatch.setenv("FLINK_TOKEN", "s3cret")
    assert HttpAccess(url=URL, token_env="FLINK_TOKEN").headers() == {"Authorization": "Bearer s3cret"}


@pytest.mark.parametrize("text", ["", "two\nlines", "zwölf"])
def test_what_is_no_token_is_refused_by_its_place_and_never_shown(tmp_path, monkeypatch, text):
    file = tmp_path / "token"
    file.write_bytes(text.encode())
    monkeypatch.setenv("FLINK_TOKEN", text)
    for access in (HttpAccess(url=URL, token_file=file), HttpAccess(url=URL, token_env="FLINK_TOKEN")):
        with pytest.raises(AccessError) as refused:
            access.headers()
        assert str(file) in str(refused.value) or "FLINK_TOKEN" in str(refused.value)
        assert not text or text not in str(refused.value)


def test_a_token_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(AccessError, match=r"nowhere: No such file"):
        HttpAccess(url=URL, token_file=tmp_path / "nowhere").headers()


def test_files_of_the_users_own_home_may_begin_with_a_tilde(tmp_path, monkeypatch):
    """As a kubeconfig may; it was looked for in a folder that is called so."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("first\n")
    assert HttpAccess(url=URL, token_file="~/token").headers() == {"Authorization": "Bearer first"}
    assert HttpAccess(url=URL, ca_file="~/ca.pem").ca_file == tmp_path / "ca.pem"
    assert str(HttpAccess(url=URL, ca_file="~nobody-here/ca.pem").ca_file) == "~nobody-here/ca.pem"


def test_two_places_for_one_token_are_refused():
    with pytest.raises(ValidationError, match="not both"):
        HttpAccess(url=URL, token_file="a", token_env="B")


def test_authorities_for_certificates_that_nobody_checks_are_refused():
    with pytest.raises(ValidationError, match="of no use"):
        HttpAccess(url=URL, ca_file="ca.pem", verify_tls=False)

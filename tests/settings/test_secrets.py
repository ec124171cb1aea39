"""Passwords, tokens and queries never reach an error message."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdix.settings.secrets import masked, without_user
from perdix.settings.stream_job import load_stream_job
from perdix.settings.yaml_files import SettingsError


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://perdix:s3cr3t@db:5432/perdix is closed",
        "http://me:s3cr3t@prom:9090/api?x=1",
        "http://me:s3/c:r3t@x@prom:9090",
        "http://me:s3cr3t",
        "http://me:s3cr3t[prom:9090",
        "https://prom/?token=s3cr3t&x=1",
        "Authorization: Bearer s3cr3t.abc",
        "authorization: basic czNjcjN0",
    ],
)
def test_what_opens_a_door_is_masked(text: str) -> None:
    assert "s3" not in masked(text)
    assert "czNj" not in masked(text)
    assert "***" in masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://prometheus:9090/api/v1/query_range: 503",
        "sqlite:////home/me/.perdix/state.db",
        "conf/jobs/ads.yaml:3: 'mode': Input should be 'advise' or 'act'",
        "tick@host:4711 holds the lease",
        "http://a:1/x and mail me@example.org",
        "http://[::1]:9090/api, http://prom:9090, and (http://prom:9090)",
    ],
)
def test_what_opens_none_stays(text: str) -> None:
    assert masked(text) == text


def test_what_a_client_sent_is_masked_wherever_it_comes_back() -> None:
    assert masked("unknown user 'ey.s3cr3t' (ey.s3cr3t)", ["ey.s3cr3t"]) == "unknown user '***' (***)"


def test_a_user_is_cut_off_an_address_that_is_no_url() -> None:
    assert without_user("me:s3cr3t@prom") == "***@prom"
    assert without_user("http://me:s3@cr3t@prom") == "http://***@prom"


def test_what_begins_with_an_at_sign_names_no_user() -> None:
    assert without_user("@daily") == "@daily"


@given(st.text())
def test_masking_twice_is_masking_once(text: str) -> None:
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "prometheus: {url: 'http://me:s3cr3t@prom:999999/'}\n",
        "prometheus: {url: 'me:s3cr3t@prom:9090'}\n",
        "prometheus: {url: 'ftp://me:s3:c/r3t@prom'}\n",
        "prometheus: {url: 'http://prom:99999/?token=s3cr3t'}\n",
        "prometheus: {url: 'http://prom', token_env: 'ey.s3cr3t'}\n",
        "prometheus: {url: 'http://prom', token_file: [s3cr3t]}\n",
        "target: {kind: flink, url: 'http://me:s3cr3t@'}\n",
        "target: {kind: flink, url: 'http://x', password: s3cr3t}\n",
        "token: s3cr3t\ntoken: s3cr3t2\n",
        "prometheus: {url: ['http://me:s3cr3t@prom:9090']}\n",
    ],
)
def test_a_wrong_setting_is_told_without_the_secret_in_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as error:
        load_stream_job(path)
    assert "s3" not in str(error.value).replace(str(tmp_path), "")

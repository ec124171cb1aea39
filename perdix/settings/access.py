"""How a server is reached over HTTP: its address, who asks, and whether its certificate is checked."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AnyHttpUrl, Field, model_validator

from perdix.settings.plain_error import PlainError
from perdix.settings.strict import Strict


class AccessError(PlainError):
    """A token that was named cannot be used. The message names the place, and never the token."""


def _of_a_server(url: AnyHttpUrl) -> AnyHttpUrl:
    if url.query is not None or url.fragment is not None:
        raise ValueError("end it before '#' or '?': what follows is of a page, and the address of the server is asked")
    return url


ServerUrl = Annotated[AnyHttpUrl, AfterValidator(_of_a_server)]


def _of_the_user(path: Path) -> Path:
    with suppress(RuntimeError):  # nobody is called so: the path stays, for the message that it is not there
        return path.expanduser()
    return path


UserFile = Annotated[Path, AfterValidator(_of_the_user)]


class HttpAccess(Strict):
    """A server, and a bearer token for it. The token itself never stands in a settings file."""

    url: AnyHttpUrl
    # token_file, token_env: where the token is: a file, read anew for each request because mounted tokens rotate, or a
    # variable of the environment
    token_file: UserFile | None = None
    token_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    ca_file: UserFile | None = None  # certificate authorities to trust instead of the system's, PEM
    verify_tls: bool = True  # whether certificates are checked

    @model_validator(mode="after")
    def _unambiguous(self) -> HttpAccess:
        if self.token_file is not None and self.token_env is not None:
            raise ValueError("give 'token_file' or 'token_env', not both")
        if self.ca_file is not None and not self.verify_tls:
            raise ValueError("'ca_file' is of no use while 'verify_tls' is false; drop one of them")
        return self

    @property
    def asked_as(self) -> str:
        """What distinguishes a server, and who asks it and how, from others."""
        return self.model_dump_json(include=set(HttpAccess.model_fields))

    def headers(self) -> dict[str, str]:
        """Return the headers that say who asks; empty where no token is named.

        Raises ``AccessError`` when the token cannot be read, or is not one line of plain text.
        """
        if self.token_file is not None:
            return _bearer(_token_of(self.token_file), f"token file {self.token_file}")
        if self.token_env is not None:
            return _bearer(os.environ.get(self.token_env, ""), f"environment variable {self.token_env}")
        return {}


def _token_of(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except UnicodeDecodeError:
        raise AccessError(f"token file {path}: it is not plain text") from None
    except OSError as error:
        raise AccessError(f"token file {path}: {error.strerror}") from None


def _bearer(text: str, place: str) -> dict[str, str]:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise AccessError(f"{place} does not hold one line of text")
    return {"Authorization": f"Bearer {token}"}

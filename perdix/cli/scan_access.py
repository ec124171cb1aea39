"""How a server is reached that only the command line names: a Prometheus, and where a summary is sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdix.cli.output import UserError

if TYPE_CHECKING:
    from perdix.settings.access import HttpAccess

TokenFileOption = Annotated[
    Path | None, typer.Option("--token-file", help="File with a bearer token.", show_default=False)
]
TokenEnvOption = Annotated[
    str | None, typer.Option("--token-env", help="Variable of the environment with one.", show_default=False)
]
CaFileOption = Annotated[
    Path | None, typer.Option("--ca-file", help="Certificate authorities to trust.", show_default="the system's")
]
VerifyOption = Annotated[bool, typer.Option("--verify-tls/--no-verify-tls", help="Check the certificate.")]
WebhookOption = Annotated[
    str | None, typer.Option("--webhook", help="Send the summary to this address, in Slack's form.")
]


def access_of(
    url: str, *, token_file: Path | None, token_env: str | None, ca_file: Path | None, verify_tls: bool
) -> HttpAccess:
    """Return how the Prometheus is reached; raises ``UserError`` naming the option that cannot be."""
    from pydantic import ValidationError

    from perdix.settings.access import HttpAccess
    from perdix.settings.secrets import without_user

    given = {"token_file": token_file, "token_env": token_env, "ca_file": ca_file, "verify_tls": verify_tls}
    try:
        return HttpAccess.model_validate({"url": url, **given})
    except ValidationError as error:
        wrong = error.errors()[0]
        place = "--" + str(wrong["loc"][0]).replace("_", "-") if wrong["loc"] else "options"
        place = f"address '{without_user(url)}'" if place == "--url" else place
        hint = "; write it as http://prometheus:9090" if place.startswith("address") else ""
        raise UserError(f"{place}: {wrong['msg'].removeprefix('Value error, ')}{hint}") from None


def webhook_of(webhook: str | None) -> HttpAccess | None:
    """Return where the summary is sent; raises ``UserError``, in which the address is not repeated."""
    from pydantic import ValidationError

    from perdix.settings.access import HttpAccess

    try:
        return None if webhook is None else HttpAccess.model_validate({"url": webhook})
    except ValidationError as error:  # the address may hold a secret: it is not repeated
        raise UserError(f"--webhook: {error.errors()[0]['msg']}; give the whole address, with https://") from None

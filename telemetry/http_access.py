"""Which certificates a server's settings trust, as HTTP clients take it."""

from __future__ import annotations

import ssl

from settings.access import AccessError, HttpAccess


def certificates(access: HttpAccess) -> ssl.SSLContext | bool:
    """Return what to hand to a client as ``verify``.

    Raises
    ------
    AccessError
        When the file of authorities cannot be used.
    """
    if access.ca_file is None:
        return access.verify_tls
    try:
        return ssl.create_default_context(cafile=str(access.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise AccessError(f"ca_file {access.ca_file}: {error}") from None

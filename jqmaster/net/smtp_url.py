"""The address of a mail server."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

_PORTS: Final = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class SmtpUrl:
    """A parsed address.
    * `is_tls`: TLS from the start. If false, STARTTLS is used if the server supports it.
    * `user`: None if there is no login.
    """

    host: str
    port: int
    is_tls: bool
    user: str | None
    password: str = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> "SmtpUrl":
        """Return the address in `smtp://[user:password@]host[:port]` or `smtps://…`. Raise a ValueError with a
        text that never shows the password."""
        form = "expected smtp://[user:password@]host[:port] or smtps://[user:password@]host[:port]"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(form) from None
        if parts.scheme not in _PORTS or not host or port == 0 or parts.path not in ("", "/"):
            raise ValueError(form)
        if parts.query or parts.fragment or (parts.username is None) != (parts.password is None):
            raise ValueError(form)
        user = None if parts.username is None else unquote(parts.username)
        return cls(
            host, port or _PORTS[parts.scheme], parts.scheme == "smtps", user, unquote(parts.password or "")
        )

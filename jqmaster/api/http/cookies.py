"""The cookie in which a browser keeps a session."""

import re
from typing import Final
from urllib.parse import urlsplit

from jqmaster.api.encoding.negotiation import Fields
from jqmaster.domain.namespaces.namespace import PATHS

# Maximum number of cookies to look up as sessions. Each cookie costs a round trip to the store.
MAX_CANDIDATES: Final = 4
DEVICE_LIFE_S: Final = 90 * 86_400
LOGIN_LIFE_S: Final = 600
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")


class SessionCookie:
    """The cookie's name and attributes.

    The attributes protect the cookie:

    * Scripts cannot read it.
    * Other sites cannot make the browser send it.
    * With TLS, the browser does not send it over plain HTTP.
    * Other applications on the same host do not get it, because of its path.

    `namespace`: the namespace with the token that opened the session. The browser sends this cookie only to that
    namespace, in addition to the cookie of the installation.
    """

    def __init__(self, public_url: str | None, *, has_tls: bool, namespace: str | None = None) -> None:
        parts = urlsplit(public_url or "")
        path = parts.path.rstrip("/") or "/"
        if namespace is not None:
            path = f"{path.rstrip('/')}{PATHS}{namespace}"
        is_secure = parts.scheme == "https" if public_url else has_tls
        prefix = "" if not is_secure else "__Host-" if path == "/" else "__Secure-"
        self.name: Final = f"{prefix}jqmaster_{'session' if namespace is None else 'namespace'}"
        self.device_name: Final = f"{prefix}jqmaster_device"
        self.login_name: Final = f"{prefix}jqmaster_login"
        self._attributes = f"Path={path}; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
        # Attributes for the cookie of a login at a provider. The provider redirects the browser to this master,
        # and browsers send no strict cookies with such a request.
        self._lax_attributes = self._attributes.replace("Strict", "Lax")

    def candidates(self, fields: Fields) -> list[str]:
        """Return the values of cookies with this name that could be a secret.

        There are several values if another application on the same site has set a cookie with the same name.
        Return only the first few, because checking each value takes time."""
        return [value for value in _values(fields, self.name) if _SECRET.fullmatch(value)][:MAX_CANDIDATES]

    def device(self, fields: Fields) -> str | None:
        """Return the long-lived proof of the browser; see `service.devices`."""
        values = _values(fields, self.device_name)
        return values[0] if values else None

    def set_device(self, proof: str) -> tuple[bytes, bytes]:
        """Return the header that stores the proof in the browser."""
        return self._field(f"{self.device_name}={proof}; Max-Age={DEVICE_LIFE_S}")

    def login(self, fields: Fields) -> str | None:
        """Return the cookie of a login in progress at a provider. Return None if there is no such cookie, or more
        than one."""
        values = [value for value in _values(fields, self.login_name) if value]
        return values[0] if len(values) == 1 else None

    def set_login(self, value: str) -> tuple[bytes, bytes]:
        """Return the header that stores the value in the browser until the provider redirects the browser back."""
        return (
            b"set-cookie",
            f"{self.login_name}={value}; Max-Age={LOGIN_LIFE_S}; {self._lax_attributes}".encode(),
        )

    def clear_login(self) -> tuple[bytes, bytes]:
        """Return the header that removes the value from the browser."""
        return b"set-cookie", f"{self.login_name}=; Max-Age=0; {self._lax_attributes}".encode()

    def set(self, secret: str, *, max_age_s: int) -> tuple[bytes, bytes]:
        """Return the header that stores the session in the browser."""
        return self._field(f"{self.name}={secret}; Max-Age={max_age_s}")

    def clear(self) -> tuple[bytes, bytes]:
        """Return the header that removes the session from the browser."""
        return self._field(f"{self.name}=; Max-Age=0")

    def _field(self, start: str) -> tuple[bytes, bytes]:
        return b"set-cookie", f"{start}; {self._attributes}".encode()


def _values(fields: Fields, name: str) -> list[str]:
    """Return the distinct values of all cookies with this name."""
    # Also split at commas: HTTP/2 proxies send several cookie fields, and `join_fields` joins the fields with
    # commas.
    pairs = fields.get(b"cookie", b"").decode("latin-1").replace(",", ";").split(";")
    parts = (pair.strip().partition("=") for pair in pairs)
    return list(dict.fromkeys(value for found, _, value in parts if found == name))

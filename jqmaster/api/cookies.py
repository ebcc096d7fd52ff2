"""The cookie that a browser keeps a session in."""

from typing import Final
from urllib.parse import urlsplit

from jqmaster.api.wire import Fields

MAX_COOKIE_BYTES: Final = 4096


class SessionCookie:
    """Its name and attributes. Scripts never see it, other sites never have it sent, and plain HTTP does not carry it where
    there is TLS; a path of its own keeps it from neighbours on the same host."""

    def __init__(self, public_url: str | None, *, has_tls: bool) -> None:
        parts = urlsplit(public_url or "")
        path = parts.path.rstrip("/") or "/"
        is_secure = parts.scheme == "https" if public_url else has_tls
        prefix = "" if not is_secure else "__Host-" if path == "/" else "__Secure-"
        self.name: Final = f"{prefix}jqmaster_session"
        self._attributes = f"Path={path}; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")

    def read(self, fields: Fields) -> str | None:
        """What it holds; None where there is none, or where two of one name contradict each other."""
        cookies = fields.get(b"cookie", b"")
        if len(cookies) > MAX_COOKIE_BYTES:
            return None
        # HTTP/2 proxies split the field, and `join_fields` joins with commas.
        pairs = cookies.decode("latin-1").replace(",", ";").split(";")
        found = {
            value for name, _, value in (pair.strip().partition("=") for pair in pairs) if name == self.name
        }
        return found.pop() if len(found) == 1 else None

    def set(self, secret: str, *, max_age_s: int) -> tuple[bytes, bytes]:
        """The header that has a browser keep it."""
        return self._field(f"{self.name}={secret}; Max-Age={max_age_s}")

    def clear(self) -> tuple[bytes, bytes]:
        """The header that has a browser drop it."""
        return self._field(f"{self.name}=; Max-Age=0")

    def _field(self, start: str) -> tuple[bytes, bytes]:
        return b"set-cookie", f"{start}; {self._attributes}".encode()

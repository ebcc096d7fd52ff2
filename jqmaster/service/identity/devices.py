"""Known devices: browsers on which a user has logged in before. Such a browser keeps a proof of that in a cookie.

The proof gives no access. It is derived from the password's hash, which nobody else knows, so it is void once
the password changes.
"""

import hashlib
import hmac
import re
import secrets
from typing import Final

_NONCE_BYTES: Final = 16
_PROOF: Final = re.compile(r"([A-Za-z0-9_-]{22})\.([0-9a-f]{64})")


def make(user: str, hashed_password: str) -> str:
    """Return a proof for one more browser."""
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    return f"{nonce}.{_mac(user, hashed_password, nonce)}"


def is_known(proof: str | None, user: str, hashed_password: str) -> bool:
    """Return whether this proof was made for this user and password."""
    match = _PROOF.fullmatch(proof or "")
    return match is not None and hmac.compare_digest(_mac(user, hashed_password, match[1]), match[2])


def _mac(user: str, hashed_password: str, nonce: str) -> str:
    return hmac.new(hashed_password.encode(), f"device {nonce} {user}".encode(), hashlib.sha256).hexdigest()

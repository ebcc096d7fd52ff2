"""Known devices: browsers in which a user has logged in before. Such a browser keeps a proof of the login in a cookie.

The proof gives no access. It is derived from the hash of the password, which only the masters know. So a new password
makes the proof void.
"""

import hashlib
import hmac
import re
import secrets
from typing import Final

_NONCE_BYTES: Final = 16
_PROOF: Final = re.compile(r"([A-Za-z0-9_-]{22})\.([0-9a-f]{64})")


def make(user: str, hashed_password: str) -> str:
    """Return a new proof for a browser in which the user has logged in."""
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    return f"{nonce}.{_mac(user, hashed_password, nonce)}"


def is_known(proof: str | None, user: str, hashed_password: str) -> bool:
    """Return whether this proof was made for this user and password."""
    match = _PROOF.fullmatch(proof or "")
    return match is not None and hmac.compare_digest(_mac(user, hashed_password, match[1]), match[2])


def _mac(user: str, hashed_password: str, nonce: str) -> str:
    return hmac.new(hashed_password.encode(), f"device {nonce} {user}".encode(), hashlib.sha256).hexdigest()

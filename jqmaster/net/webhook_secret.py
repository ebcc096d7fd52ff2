"""The secrets that sign webhooks, in the form of Standard Webhooks."""

import base64
import binascii
from typing import Final

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the beginning of each secret, as Standard Webhooks has it
MIN_SECRET_BYTES: Final = 24
MAX_SECRET_BYTES: Final = 64


def secret_bytes(secret: str) -> bytes:
    """Return the key of a secret such as `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`. Raise ValueError."""
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"a secret of webhooks begins with {SECRET_PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the part after {SECRET_PREFIX} must be base64") from None
    if not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
        raise ValueError(
            f"a secret of webhooks must have {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes before base64"
        )
    return key

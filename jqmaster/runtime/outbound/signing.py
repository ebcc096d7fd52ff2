"""The signature that every call of the master to a worker bears. No credential that could be used elsewhere leaves the master."""

import hashlib
import hmac
import secrets
import time


def signed_headers(*, secret: str, method: str, path: str, worker_id: str, body: bytes) -> dict[str, str]:
    """`X-JQ-…` headers for one call; `path` as it is sent, with the prefix of the worker's URL."""
    # The wall clock, not the store's: a worker that has not heard from the store yet must be able to judge it.
    timestamp = str(time.time_ns() // 1_000_000)
    nonce = secrets.token_urlsafe(16)
    digest = hashlib.sha256(body).hexdigest()
    message = "\n".join((method, path, worker_id, timestamp, nonce, digest))
    signature = hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()
    return {
        "X-JQ-Worker": worker_id,
        "X-JQ-Timestamp": timestamp,
        "X-JQ-Nonce": nonce,
        "X-JQ-Signature": f"v1={signature}",
    }

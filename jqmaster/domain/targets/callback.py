"""Callbacks of endpoints that accepted a job and answer later."""

from typing import Final

import msgpack

# Combined with the secret claim token, this text yields the request ID of a callback. So the callback URL in each
# request to an endpoint needs no store access. A challenge is opened only when a callback must be awaited.
TARGET_NONCE: Final = "target"
# How long a challenge stays open if a callback has opened it before the endpoint answered.
EARLY_WAIT_MS: Final = 3_600_000
# The `meta` of the challenge of a delivery. People see it, and only deliveries settle its callback.
TARGET_META: Final[bytes] = msgpack.packb({"jq.target": True})

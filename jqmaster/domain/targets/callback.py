"""Callbacks of endpoints that accepted a job and answer later."""

from typing import Final

import msgpack

# Each request to an endpoint contains an address for a callback. No store access is needed for it, because the request
# ID is derived from the secret claim token and this text. The challenge is opened only when a callback must be awaited.
TARGET_NONCE: Final = "target"
# How long a challenge stays open if a callback opened it before the endpoint's answer came.
EARLY_WAIT_MS: Final = 3_600_000
# Marks the challenge of a delivery. People see it as the challenge's `meta`, and only deliveries settle its callback.
TARGET_META: Final[bytes] = msgpack.packb({"jq.target": True})

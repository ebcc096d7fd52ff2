"""Callbacks of endpoints that accepted a job and answer later."""

from typing import Final

import msgpack

# Each delivery tells its endpoint the address for a callback, without asking the store: the request ID follows from the
# claim token, which nobody outside knows, and this text. The challenge is opened once there is something to wait for.
TARGET_NONCE: Final = "target"
# How long a challenge is open that a callback opened before the endpoint's answer came.
EARLY_WAIT_MS: Final = 3_600_000
# Marks the challenge of a delivery. People see it as the challenge's `meta`, and only deliveries settle its callback.
TARGET_META: Final[bytes] = msgpack.packb({"jq.target": True})

"""IDs, instants and other values that examples share."""

from typing import Any, Final

JOB_ID: Final = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
OTHER_JOB_ID: Final = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6d"
EVENT_ID: Final = "0198c3f4-5e69-7b8c-9d0e-1f2a3b4c5d6e"
BATCH_ID: Final = "0198c3f4-5e68-7b8c-9d0e-1f2a3b4c5d6e"
SLOT_RULE_ID: Final = "6e1ff6b0a1f04b9f8f4a3c1f0a4e2d11"
WORKER_ID: Final = "0198c3f4-0000-7b8c-9d0e-000000000001"
ACTION_ID: Final = "0198c3f4-7a10-7b8c-9d0e-1f2a3b4c5d6e"
MASTER_ID: Final = "6f1c2b9e-3d54-4c8a-9a57-2e0b8d7c1f34"
INCIDENT_ID: Final = "1795238645000-0"
SESSION_ID: Final = "0c3f9a52be7714d8"
REQUEST_ID: Final = "AZjD9F5qe4ydDh8qO0xdbgV3kQm1pZs8Yt2LrWc0HuNfXa9ibJ4vEo"
DELIVERY_ID: Final = "019aa486-2c1f-8d7a-9b32-5f0c8e6d4b1a"
REQUEST_SHOWN: Final = "V3kQm1pZ"
TOKEN_ID: Final = "5f0c2a9b71d3"  # noqa: S105  an example
TOKEN: Final = "9f86d081884c7d659a2feaa0c55ad015"  # noqa: S105  an example
NOW_MS: Final = 1_795_238_645_000
EPOCH: Final = 1_795_238_640_123
CLAIM: Final[dict[str, Any]] = {"job_id": JOB_ID, "token": TOKEN}

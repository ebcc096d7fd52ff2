"""IDs of jobs that are derived from the job that enqueues them."""

import hashlib

# The largest number that is part of an ID. The IDs of larger numbers have no defined order.
_MAX_ORDERED = 0xFFFFF


def derived_id(job_id: str, number: int) -> str:
    """Return a UUIDv7 that is derived from `job_id` and `number`. The UUID has the time of `job_id`. So the jobs that
    one job enqueues run in the order of their numbers, before newer jobs."""
    digest = hashlib.blake2b(f"{job_id} {number}".encode(), digest_size=16).digest()
    parent = job_id.replace("-", "")
    # Only UUIDs of version 7 begin with a time.
    time_ms = int(parent[:12], 16) if parent[12] == "7" else int.from_bytes(digest[:6], "big")
    order, rest = min(number, _MAX_ORDERED), int.from_bytes(digest[8:], "big") & (1 << 54) - 1
    # The bits of the ID: 48 of time, 4 of version, 12 of order, 2 of variant, 8 of order, 54 of the digest.
    digits = f"{time_ms << 80 | 7 << 76 | (order >> 8) << 64 | 2 << 62 | (order & 0xFF) << 54 | rest:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

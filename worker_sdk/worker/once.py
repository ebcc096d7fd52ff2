"""IDs of jobs that are derived from the job that enqueues them."""

import hashlib

# Jobs with larger numbers have no defined order among themselves.
_MAX_ORDERED = 0xFFFFF


def derived_id(job_id: str, number: int) -> str:
    """Return a UUIDv7 that is derived from `job_id` and `number`. It has the time of `job_id`, so that the jobs that
    one job enqueues run in the order of their numbers, before newer jobs."""
    digest = hashlib.blake2b(f"{job_id} {number}".encode(), digest_size=16).digest()
    parent = job_id.replace("-", "")
    # UUIDs of other versions do not begin with a time.
    time_ms = int(parent[:12], 16) if parent[12] == "7" else int.from_bytes(digest[:6], "big")
    order, rest = min(number, _MAX_ORDERED), int.from_bytes(digest[8:], "big") & (1 << 54) - 1
    # 48 bits of time, 4 of version, 12 of order, 2 of variant, 8 of order, 54 of digest
    digits = f"{time_ms << 80 | 7 << 76 | (order >> 8) << 64 | 2 << 62 | (order & 0xFF) << 54 | rest:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

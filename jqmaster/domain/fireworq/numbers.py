"""Numbers for jobs whose clients expect whole numbers as IDs.

A number and the ID of its job can be computed from each other, so nothing has to be stored or counted.

A number has 53 bits, because every client can hold these exactly. 41 bits are the milliseconds since 2020, and 12 bits
tell jobs of one millisecond apart. The ID is a UUIDv7 with the same instant and the same 12 bits. Its other bits are a
digest of the number.
"""

from hashlib import blake2b
from typing import Final

from jqmaster.domain.ids import is_id

# 2020-01-01T00:00:00Z
_EPOCH_MS: Final = 1_577_836_800_000
_LOW_BITS: Final = 12
MAX_NUMBER: Final = 2**53 - 1
_VERSION: Final = 7 << 76
_VARIANT: Final = 2 << 62


def number_at(now_ms: int, random_bits: int) -> int:
    """Return a number of this instant."""
    return (max(0, now_ms - _EPOCH_MS) << _LOW_BITS | random_bits & (1 << _LOW_BITS) - 1) & MAX_NUMBER


def id_of(number: int) -> str | None:
    """Return the ID of the job with this number, or None if no job can have it."""
    if not 0 <= number <= MAX_NUMBER:
        return None
    ms, low = (number >> _LOW_BITS) + _EPOCH_MS, number & (1 << _LOW_BITS) - 1
    digest = int.from_bytes(blake2b(b"fireworq:%d" % number, digest_size=8).digest())
    digits = f"{ms << 80 | _VERSION | low << 64 | _VARIANT | digest >> 2:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def number_of(job_id: str) -> int | None:
    """Return the number of the job with this ID, or None if it was not made from a number."""
    if not is_id(job_id):
        return None
    whole = int(job_id.replace("-", ""), 16)
    number = number_at(whole >> 80, whole >> 64)
    return number if id_of(number) == job_id else None

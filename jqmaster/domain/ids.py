"""IDs and tokens: all are unguessable, and those that name things sort by creation."""

import os
import re
from collections.abc import Sequence
from typing import Final

import uuid_utils

# A UUID of RFC 9562, of any version, in canonical form. This module makes UUIDv7, whose text order is the order of
# creation.
ID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
_ID = re.compile(ID_PATTERN)
ID_LENGTH = 36
_LINES_OF_IDS = re.compile(rf"(?:{ID_PATTERN[1:-1]}\n)*+")

TOKEN_BYTES = 16


def new_id() -> str:
    """Return a new UUIDv7. The UUIDs of one process increase strictly, even within one millisecond."""
    return str(uuid_utils.uuid7())


# Matches an ID, like `is_id`, but without a call in Python. Returns None for any other text.
id_match: Final = _ID.fullmatch


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def are_ids(texts: Sequence[str]) -> bool:
    """Return whether `is_id` holds for each, at half the cost of single calls."""
    lines = "\n".join((*texts, ""))
    # Also compare the length, which differs if a text itself contains a line feed.
    return len(lines) == len(texts) * (ID_LENGTH + 1) and _LINES_OF_IDS.fullmatch(lines) is not None


def new_tokens(count: int) -> bytes:
    """Return `count` claim tokens of 128 random bits each, joined."""
    return os.urandom(TOKEN_BYTES * count)


def uuid8(number: int) -> str:
    """Return a UUIDv8 with the bits of a 128-bit number, except for the version and variant bits of RFC 9562."""
    number = number & ~(0xF << 76) | 8 << 76
    number = number & ~(0x3 << 62) | 2 << 62
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

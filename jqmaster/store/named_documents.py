"""The part that stored documents of named objects share: each begins with its ETag."""

import os
from typing import Final

ETAG_LENGTH: Final = 16


def new_etag() -> str:
    """Return an ETag that no other document has."""
    return os.urandom(ETAG_LENGTH // 2).hex()

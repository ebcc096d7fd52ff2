"""Names of jobs, and the attribute of a function with the names that it handles."""

import re
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")
# The attribute of a function that holds its handlers, for child processes. Decorators with functools.wraps copy it.
ATTRIBUTE: Final = "__worker_sdk_handlers__"


def check_name(name: str) -> None:
    """Raise ValueError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"not a name for jobs: {name[:64]!r} (1 to 200 of A-Z a-z 0-9 _ . : / -)")

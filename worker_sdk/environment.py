"""The variables that stand in for what a worker or a pusher was not told."""

import os
from collections.abc import Sequence
from typing import Final

DEFAULT_MASTER: Final = "http://127.0.0.1:8080"


def masters_or_default(given: str | Sequence[str] | None) -> str | Sequence[str]:
    """`given`; else the addresses in JQMASTER_URL, separated by blanks; else that of a master on this machine."""
    if given is not None:
        return given
    return os.environ.get("JQMASTER_URL", "").split() or DEFAULT_MASTER


def token_or_default(given: str | None) -> str | None:
    """`given`, which may be empty for none; else that of JQMASTER_TOKEN."""
    return given if given is not None else os.environ.get("JQMASTER_TOKEN") or None

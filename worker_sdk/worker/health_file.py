"""The file by which a container's health check sees that a worker is in touch with a master, whether it serves or
pulls."""

import contextlib
import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "JQMASTER_HEALTH_FILE"


def touch() -> None:
    """Set the file's time to now, if `JQMASTER_HEALTH_FILE` names one. Called after each heartbeat that was
    answered."""
    if path := os.environ.get(VARIABLE):
        # Best effort: heartbeats continue even if the disk is full.
        with contextlib.suppress(OSError):
            Path(path).touch(mode=0o600)

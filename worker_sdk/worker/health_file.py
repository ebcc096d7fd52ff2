"""The file that shows a container's health check that a worker reaches a master, whether it serves or pulls."""

import contextlib
import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "JQMASTER_HEALTH_FILE"


def touch() -> None:
    """Set the file's time to now, if `JQMASTER_HEALTH_FILE` names one. The worker calls this after each answered
    heartbeat."""
    if path := os.environ.get(VARIABLE):
        # Best effort: continue with heartbeats even if the disk is full.
        with contextlib.suppress(OSError):
            Path(path).touch(mode=0o600)

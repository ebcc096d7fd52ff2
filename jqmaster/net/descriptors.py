"""File descriptors: the limit of the process, and the part of it for clients."""

import contextlib
import resource
import sys
from typing import Final

# Maximum number of file descriptors to request. A master with thousands of clients and workers needs fewer. The
# number is used if the limit is infinite.
_ENOUGH: Final = 65_536


def allow_many() -> None:
    """Raise the descriptor limit of this process as far as allowed. The usual 1024 are too few for the connections that
    it may serve."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the system allows fewer than its stated limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def for_clients() -> int:
    """Return half of the limit. The other half is for the store, the workers and the disk."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft // 2

"""How long the suite takes: `make test` says it at its start, and the documents name the same figure.

The figure is the processor time of a whole run. When the suite changes, measure it again on a machine with nothing
beside: the last line of pytest says how long a run took, and `tests/contract/test_suite.py` names the documents to
correct.
"""

import math
import os
from typing import Final

# Processor time of `make test`, with its checks and all processes that tests start.
CPU_MINUTES: Final = 34.0
# A run has four processes (TEST_ARGS in the Makefile), whose tests often wait for other processes, and not for a
# processor.
BUSY_SHARE: Final = 0.68
MAX_CORES: Final = 4


def minutes(cores: int) -> int:
    """Return how many minutes `make test` takes on this many cores with nothing beside."""
    return math.ceil(CPU_MINUTES / min(cores, MAX_CORES) / BUSY_SHARE)


def cores_here() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def told(cores: int) -> str:
    """Return the text that `make test` says at its start."""
    cores_text = "one core" if cores == 1 else f"{cores} cores"
    return (
        f"`make test` takes about {minutes(cores)} minutes on the {cores_text} here if nothing else runs. "
        f"CONTRIBUTING.md (In one minute) names the tests of what you changed."
    )


if __name__ == "__main__":
    print(told(cores_here()), flush=True)

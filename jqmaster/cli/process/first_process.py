"""A command that runs until it is told to end, as the first process of a container."""

import importlib
import os


def give_way() -> None:
    """Return in a child if this is the first process, which from now on only forwards signals and reaps what handlers
    leave behind."""
    if os.getpid() == 1:
        # Import it by name: the packages do not import one another.
        importlib.import_module("worker_sdk.worker.first_process").give_way()

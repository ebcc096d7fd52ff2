"""Pushes from `multiprocessing` processes, with each start method: `python -m tests.system.start_methods METHOD`."""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from worker_sdk import SyncPusher

pusher = SyncPusher()


def push(n: int) -> int:
    """Return `n` by way of a worker."""
    result = pusher.result(pusher.enqueue("echo", n, keep_result=True), wait=20)
    assert result is not None
    return int(result.result)


if __name__ == "__main__":
    push(-1)
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context(sys.argv[1])) as processes:
        assert list(processes.map(push, range(100))) == list(range(100))
    assert push(-2) == -2
    print("all right")

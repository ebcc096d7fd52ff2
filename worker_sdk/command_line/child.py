"""One of several processes of a command; started by `worker_sdk.command_line.supervisor`, never by hand.

Standard input contains the instructions as one line of JSON. For a worker, this is {"target": …, "options": …,
"number": …}. When the supervisor ends, standard input closes, and this process ends in good order, as after SIGTERM.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from worker_sdk.command_line.ends import CommandError, tell

MAX_ORDER_BYTES: Final = 1024 * 1024

Ready = Callable[[], None]


def carry_out(run: Callable[[Mapping[str, Any], Ready], None]) -> None:
    """Read the instructions. Call `run` with the instructions and with a function that tells the supervisor that this
    process works. End the process with the exit code of a CommandError."""
    from worker_sdk.transport import standard_streams

    standard_streams.escape_unencodable()
    tell_ready = int(sys.argv[1])
    # Processes that a worker's handlers start must not inherit this pipe or the one from the parent.
    os.set_inheritable(tell_ready, False)
    parent = _take_standard_input()
    order = json.loads(_read_line(parent))
    threading.Thread(target=_end_with, args=(parent,), name="jq-parent", daemon=True).start()

    def ready() -> None:
        os.write(tell_ready, b"1")
        os.close(tell_ready)

    try:
        run(order, ready)
    except CommandError as error:
        tell(error)
        sys.exit(error.code)


def _run_worker(order: Mapping[str, Any], ready: Ready) -> None:
    from worker_sdk.command_line.worker import run_one

    run_one(order["target"], order["options"], ready, number=order["number"])


def _take_standard_input() -> int:
    parent = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return parent


def _read_line(parent: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_ORDER_BYTES:
        piece = os.read(parent, 65_536)
        if not piece:
            sys.exit(0)  # the parent process has already ended
        line += piece
    return line


def _end_with(parent: int) -> None:
    while os.read(parent, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    carry_out(_run_worker)

"""One of several processes of `serve` or `worker`; started by `jqmaster.cli.process.supervisor`, never by hand.

Standard input brings one line of JSON, {"command": "serve", "settings": …} or {"command": "worker", "target": …,
"options": …}. It closes when the process that sent it ends. Then this process ends in good order, as after SIGTERM.
"""

import json
import os
import signal
import sys
import threading
from typing import Final

MAX_ORDER_BYTES: Final = 1024 * 1024


def main() -> None:
    from worker_sdk.transport import standard_streams

    standard_streams.escape_unencodable()
    tell_ready = int(sys.argv[1])
    # Processes that a worker's handlers start inherit neither descriptor.
    os.set_inheritable(tell_ready, False)
    parent = _take_standard_input()
    order = json.loads(_read_line(parent))
    threading.Thread(target=_end_with, args=(parent,), name="jq-parent", daemon=True).start()

    def ready() -> None:
        os.write(tell_ready, b"1")
        os.close(tell_ready)

    import typer

    try:
        if order["command"] == "serve":
            from jqmaster.cli.commands.serve import serve_one
            from jqmaster.config import Settings

            serve_one(Settings(**order["settings"]), ready)
        else:
            from jqmaster.cli.commands.worker import run_one

            run_one(order["target"], order["options"], ready, number=order["number"])
    except typer.Exit as error:
        sys.exit(error.exit_code)


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
            sys.exit(0)  # the process that started this one is gone already
        line += piece
    return line


def _end_with(parent: int) -> None:
    while os.read(parent, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()

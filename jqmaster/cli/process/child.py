"""One of several processes of `jqmaster serve`; see `worker_sdk.command_line.child`. Its instructions are {"settings":
…}."""

import sys
from collections.abc import Mapping
from typing import Any

from worker_sdk.command_line.child import Ready, carry_out


def _serve(order: Mapping[str, Any], ready: Ready) -> None:
    import typer

    from jqmaster.cli.commands.serve import serve_one
    from jqmaster.config import Settings

    try:
        serve_one(Settings(**order["settings"]), ready)
    except typer.Exit as error:
        sys.exit(error.exit_code)


if __name__ == "__main__":
    carry_out(_serve)

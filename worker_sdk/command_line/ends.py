"""The exit codes of commands, and the error that ends a command."""

import contextlib
import sys
from typing import Final

from worker_sdk.transport.standard_streams import escape_controls

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
REFUSED: Final = 4
UNREACHABLE: Final = 5


class CommandError(Exception):
    """Ends a command. `code` is its exit code, and the text is the reason, for standard error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def tell(reason: object) -> None:
    """Print the reason for the end of a command to standard error."""
    # If the text cannot be written, the exit code still tells the reason.
    with contextlib.suppress(OSError):
        print(f"Error: {escape_controls(reason)}", file=sys.stderr, flush=True)

"""Secrets that a command reads from files, because every process of the machine can read the command line."""

import os
import sys
from pathlib import Path

from worker_sdk.command_line.ends import USAGE, CommandError


def read_token(token_file: Path | None) -> str | None:
    """Return the token in the file. Without a file, return the token in JQMASTER_TOKEN, or None if it is not set. Raise
    CommandError if the file cannot be read."""
    if token_file is None:
        return os.environ.get("JQMASTER_TOKEN") or None
    return read_secret(token_file, "token")


def read_secret(file: Path, what: str) -> str:
    """Return the only line of a file, or of standard input for `-`. Raise CommandError if there is not exactly one
    line."""
    try:
        lines = (sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(USAGE, f"the {what} cannot be read: {error}") from None
    if len(lines) != 1 or not lines[0].strip():
        raise CommandError(USAGE, f"{file}: expected one line, the {what}")
    return lines[0].strip()

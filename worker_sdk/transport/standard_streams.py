"""Make the standard streams of a process work in any locale."""

import io
import re
import sys
from typing import Final

# Control characters (C0 and C1) and characters that reorder text. They are escaped, so that a job's name cannot control
# the terminal.
ACTIVE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def escape_controls(value: object) -> str:
    """Return the value as text, with control characters escaped."""
    return ACTIVE.sub(lambda match: ascii(match[0])[1:-1], str(value))


def escape_unencodable() -> None:
    """Make standard output and standard error escape characters that their encoding lacks, as in the locale C.
    Otherwise, the first such character in a name or an error raises UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
            stream.reconfigure(errors="backslashreplace")


def read_utf8() -> None:
    """Read standard input and the arguments of the command as UTF-8, the encoding of JSON, even if the locale says
    ASCII."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8")
    sys.argv[1:] = map(_as_utf8, sys.argv[1:])


def _as_utf8(argument: str) -> str:
    if argument.isascii():
        return argument
    # Python represents bytes that the locale cannot decode as lone surrogates.
    return argument.encode(sys.getfilesystemencoding(), "surrogateescape").decode("utf-8", "backslashreplace")

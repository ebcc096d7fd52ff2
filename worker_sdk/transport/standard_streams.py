"""The standard streams of a process in any locale."""

import io
import sys


def escape_unencodable() -> None:
    """Let standard output and standard error escape characters that their encoding does not have, as in the locale C.
    Otherwise the first such character in a name or an error raises UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
            stream.reconfigure(errors="backslashreplace")


def read_utf8() -> None:
    """Read standard input as UTF-8, in which JSON is written, also where the locale says ASCII. Do the same to the
    arguments of the command."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8")
    sys.argv[1:] = map(_as_utf8, sys.argv[1:])


def _as_utf8(argument: str) -> str:
    if argument.isascii():
        return argument
    # Bytes that the locale cannot decode arrive as lone surrogates.
    return argument.encode(sys.getfilesystemencoding(), "surrogateescape").decode("utf-8", "backslashreplace")

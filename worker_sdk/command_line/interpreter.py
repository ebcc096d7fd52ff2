"""The command line for further processes of this program."""

import sys
from pathlib import Path
from typing import Final

# Python's -P option keeps `-m` from importing from the current directory. Use it if this process does not import from
# there, either.
_SAFE_PATH: Final = () if {"", str(Path.cwd())} & set(sys.path) else ("-P",)


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module with this interpreter."""
    return [sys.executable, *_SAFE_PATH, "-m", module, *arguments]

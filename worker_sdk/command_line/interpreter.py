"""The command line for further processes of this program."""

import sys
from pathlib import Path
from typing import Final

# Without this, `-m` would allow imports from the current directory even if the command itself does not.
_SAFE_PATH: Final = () if {"", str(Path.cwd())} & set(sys.path) else ("-P",)


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module with this interpreter."""
    return [sys.executable, *_SAFE_PATH, "-m", module, *arguments]

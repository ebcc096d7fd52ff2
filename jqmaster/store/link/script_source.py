"""Composes the source of a script from its file, the modules that it includes, and the values that their code names.

`-- include lib/ROOM/NAME.lua` inserts a module (script_modules.py): one table of that name, with the functions that
others may call. A module includes the modules that it needs. Each module is inserted once.

`ARGV.NAME` in a module is the argument to which the script's header gives this name.

`layout.NAME` and `layout.NAME.PART` are replaced by their values in lib/layout.lua. No script creates the table
`layout`, because its creation would cost more than many whole scripts.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from jqmaster.store.link.script_modules import LUA, ScriptHeaderError, with_modules

OF_ARGUMENTS: Final = re.compile(r"(?<![\w.])ARGV\.(\w+)")
_OF_LAYOUT: Final = re.compile(r"(?<![/\w])layout\.(\w+(?:\.\w+)?)")
_LAYOUT_ENTRY: Final = re.compile(r"^  (\w+) = (.*),$", re.MULTILINE)
_LAYOUT_PART: Final = re.compile(r"(\w+) = (\w+)")


def composed(text: str, script: str, args: Sequence[str]) -> str:
    """Return the whole source of a script. `args`: the names that its header gives to the arguments. Raise
    ScriptHeaderError."""
    return _with_layout(_with_arguments(with_modules(text), script, args))


def _with_arguments(text: str, script: str, args: Sequence[str]) -> str:
    def argument(match: re.Match[str]) -> str:
        if match[1] not in args:
            raise ScriptHeaderError(f"a module of {script}.lua needs the argument {match[1]}")
        return f"ARGV[{args.index(match[1]) + 1}]"

    return OF_ARGUMENTS.sub(argument, text)


def _with_layout(text: str) -> str:
    values = layout()

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise ScriptHeaderError(f"lib/layout.lua has no {match[1]}")
        return values[match[1]]

    return _OF_LAYOUT.sub(value, text)


@cache
def layout() -> dict[str, str]:
    """Return the values of lib/layout.lua as text, by `NAME` or `NAME.PART`."""
    values: dict[str, str] = {}
    for name, value in _LAYOUT_ENTRY.findall((LUA / "lib" / "layout.lua").read_text()):
        parts = _LAYOUT_PART.findall(value) if value.startswith("{") else ()
        values.update({f"{name}.{part}": number for part, number in parts})
        if not parts or name.startswith("is_"):
            values[name] = value
    return values

"""The source of a script: its file, the modules that it includes, and the values that these name.

`-- include lib/ROOM/NAME.lua` puts a module in its place: one table of that name, with the functions that others may
call. A module includes what it needs itself; each is put in once. Functions of modules that the script cannot reach are
left out, because the store makes all functions of a script anew with each call.

`ARGV.NAME` in a module is the argument to which the script's header gives this name.

`layout.NAME` and `layout.NAME.PART` become the values that lib/layout.lua has for them: no script makes that table,
which would cost more than many scripts do.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from jqmaster.errors import JqmasterError

LUA: Final = files("jqmaster.store") / "lua"
INCLUDE: Final = re.compile(r"^-- include (lib/[\w/]+\.lua)$", re.MULTILINE)
OF_ARGUMENTS: Final = re.compile(r"(?<![\w.])ARGV\.(\w+)")
_OF_LAYOUT: Final = re.compile(r"(?<![/\w])layout\.(\w+(?:\.\w+)?)")
_LAYOUT_ENTRY: Final = re.compile(r"^  (\w+) = (.*),$", re.MULTILINE)
_LAYOUT_PART: Final = re.compile(r"(\w+) = (\w+)")

_MODULE: Final = re.compile(
    r"^(?P<opening>local (?P<name>\w+) = [^\n]*function\(\)\n)(?P<body>.*?)^  return \{(?P<table>[^{}]*)\}\n"
    r"(?P<closing>^end\).*)",
    re.MULTILINE | re.DOTALL,
)
_FUNCTION: Final = re.compile(
    r"(?:^  --[^\n]*\n)*^  local function (\w+)(?:[^\n]* end\n|[^\n]*\n.*?^  end\n)", re.MULTILINE | re.DOTALL
)
_ENTRY: Final = re.compile(r"(\w+) = (\w+)")
_COMMENT: Final = re.compile(r"^ *--.*\n?", re.MULTILINE)
# A name, with the member that is read of it.
_NAME: Final = re.compile(
    r"(?<![\w.])(?:is_made\((?P<asked>\w+)\)|(?P<name>[A-Za-z_]\w*)(?:\.(?P<member>\w+))?)"
)


class ScriptContractError(JqmasterError):
    """A call does not fit the script's own header, or the header is not complete: a fault of this program."""

    code = "script_contract"


def composed(text: str, script: str, args: Sequence[str]) -> str:
    """Return the whole source of a script. `args`: the names that its header gives to the arguments. Raise
    ScriptContractError."""
    return _with_layout(_with_arguments(with_modules(text), script, args))


def with_modules(text: str) -> str:
    """Return the text with the modules that it includes in their places, without the functions that it cannot
    reach."""
    modules: dict[str, _Module] = {}

    def include(paths: Sequence[str]) -> list[str]:
        """Return the names of modules that were not included before, each after those that it includes itself."""
        names = []
        for path in paths:
            module = _module(path)
            if module.name not in modules:
                modules[module.name] = module
                names += [*include(module.includes), module.name]
        return names

    orders = {match[1]: include([match[1]]) for match in INCLUDE.finditer(text)}
    reached = _referenced(_COMMENT.sub("", text), modules)

    def module_text(match: re.Match[str]) -> str:
        return "\n".join(modules[name].text(reached[name]) for name in orders[match[1]] if name in reached)

    return INCLUDE.sub(module_text, text)


@dataclass(frozen=True, slots=True)
class _Part:
    """A function at the top of a module, or code between such functions, which has no name. `uses`: the names in it,
    each with the member that the code reads (None: none; empty: it only asks whether the module is made)."""

    name: str | None
    text: str
    uses: frozenset[tuple[str, str | None]]

    @classmethod
    def of(cls, text: str, name: str | None = None) -> "_Part":
        code = _COMMENT.sub("", text)
        found = _NAME.finditer(code)
        return cls(
            name,
            code,
            frozenset((one["asked"] or one["name"], "" if one["asked"] else one["member"]) for one in found),
        )


@dataclass(frozen=True, slots=True)
class _Module:
    """A module's file. `functions`: the parts that have names. `entries`: the table that others see, as the name of a
    function or value by field."""

    name: str
    includes: Sequence[str]
    parts: Sequence[_Part]
    functions: Mapping[str, _Part]
    entries: Mapping[str, str]
    closing: str

    def text(self, members: set[str]) -> str:
        """Return the text with these of its functions and entries."""
        code = "".join(part.text for part in self.parts if part.name is None or part.name in members)
        shown = ", ".join(
            f"{entry} = {name}" for entry, name in self.entries.items() if f".{entry}" in members
        )
        return f"{code}  return {{{shown}}}\n{self.closing}"


@cache
def _module(path: str) -> _Module:
    text = (LUA / path).read_text()
    found = _MODULE.search(text)
    entries: dict[str, str] = dict(_ENTRY.findall(found["table"])) if found else {}
    if found is None or len(entries) != found["table"].count("="):
        raise ScriptContractError(f"{path} is not one module that ends with a table of names")
    # The opening uses `lazily` if that makes the module.
    body, parts = found["body"], [_Part.of(found["opening"])]
    at = 0
    for function in _FUNCTION.finditer(body):
        parts += (_Part.of(body[at : function.start()]), _Part.of(function[0], function[1]))
        at = function.end()
    parts.append(_Part.of(body[at:]))
    functions = {part.name: part for part in parts if part.name}
    includes, closing = INCLUDE.findall(text), found["closing"].rstrip()
    return _Module(found["name"], includes, parts, functions, entries, closing)


def _referenced(code: str, modules: Mapping[str, _Module]) -> dict[str, set[str]]:
    """Return what a script with this code reaches in each module: its functions, and its entries with a dot before
    their names."""
    reached: dict[str, set[str]] = {}
    # Code that is not yet looked through, with its module.
    todo: list[tuple[_Module | None, _Part]] = [(None, _Part.of(code))]

    def reach_function(module: _Module, name: str) -> None:
        part = module.functions.get(name)
        if part is not None and name not in reached[module.name]:
            reached[module.name].add(name)
            todo.append((module, part))

    def reach(module: _Module, entry: str) -> None:
        if module.name not in reached:
            reached[module.name] = set()
            todo.extend((module, part) for part in module.parts if part.name is None)
        if entry in module.entries:
            reached[module.name].add(f".{entry}")
            reach_function(module, module.entries[entry])

    while todo:
        of, part = todo.pop()
        for name, member in part.uses:
            if of is not None:
                reach_function(of, name)
            # A module's name alone stands for a field of some table, because no module is a value.
            if member is not None and name in modules and modules[name] is not of:
                reach(modules[name], member)
    return reached


def _with_arguments(text: str, script: str, args: Sequence[str]) -> str:
    def argument(match: re.Match[str]) -> str:
        if match[1] not in args:
            raise ScriptContractError(f"a module of {script}.lua needs the argument {match[1]}")
        return f"ARGV[{args.index(match[1]) + 1}]"

    return OF_ARGUMENTS.sub(argument, text)


def _with_layout(text: str) -> str:
    values = layout()

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise ScriptContractError(f"lib/layout.lua has no {match[1]}")
        return values[match[1]]

    return _OF_LAYOUT.sub(value, text)


@cache
def layout() -> dict[str, str]:
    """Return the values of lib/layout.lua as they stand there, by `NAME` or `NAME.PART`."""
    values: dict[str, str] = {}
    for name, value in _LAYOUT_ENTRY.findall((LUA / "lib" / "layout.lua").read_text()):
        parts = _LAYOUT_PART.findall(value) if value.startswith("{") else ()
        values.update({f"{name}.{part}": number for part, number in parts})
        if not parts or name.startswith("is_"):
            values[name] = value
    return values

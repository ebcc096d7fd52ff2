"""Includes the modules of lib/ in scripts. Each module is a table of that name, which the script creates in each call.

Creating a function costs the store as much as running many lines of it, so a script creates no more than it needs:

* It has the functions that it can reach, and no others.
* It makes a module that says `lazily.made_by` when that is first used (lib/lazily.lua). Modules that only that one
  uses stand inside it, and are made with it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from jqmaster.errors import JqmasterError

LUA: Final = files("jqmaster.store") / "lua"
INCLUDE: Final = re.compile(r"^-- include (lib/[\w/]+\.lua)$", re.MULTILINE)

_MODULE: Final = re.compile(
    r"^local (?P<name>\w+) = (?P<lazily>lazily\.made_by)?\(function\(\)\n(?P<body>.*?)"
    r"^  return \{(?P<table>[^{}]*)\}\n^end\)",
    re.MULTILINE | re.DOTALL,
)
_FUNCTION: Final = re.compile(
    r"(?:^  --[^\n]*\n)*^  local function (\w+)(?:[^\n]* end\n|[^\n]*\n.*?^  end\n)", re.MULTILINE | re.DOTALL
)
_ENTRY: Final = re.compile(r"(\w+) = (\w+)")
_COMMENT: Final = re.compile(r"^ *--.*\n?", re.MULTILINE)
# A name, with the member of it that is read.
_NAME: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?:\.(\w+))?")
_ASKED: Final = re.compile(r"(?<![\w.])lazily\.is_made\((\w+)\)")


class ScriptHeaderError(JqmasterError):
    """A call does not match the header of its script, or the header is incomplete. This is a fault of the program."""

    code = "script_contract"


def with_modules(text: str) -> str:
    """Return the text with the included modules, each reduced to the functions that the script can reach. Raise
    ScriptHeaderError."""
    # Each module comes after those that it includes itself.
    modules: dict[str, _Module] = {}

    def include(paths: Sequence[str]) -> list[str]:
        """Return the names of the modules that were not included before."""
        names = []
        for path in paths:
            module = _module(path)
            if module.name not in modules:
                names += [*include(module.includes), module.name]
                modules[module.name] = module
        return names

    # `lazily` comes before all modules that it creates.
    orders = {match[1]: include(["lib/lazily.lua", match[1]]) for match in INCLUDE.finditer(text)}
    of_script = _Modules(_COMMENT.sub("", text), modules)
    return INCLUDE.sub(lambda match: "\n".join(of_script.texts(orders[match[1]])), text)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A function at the top of a module, or code between such functions, which has no name. `uses`: the names in it,
    each with the member that the code reads (None: none; empty: it only asks whether the module is made)."""

    name: str | None
    text: str
    uses: frozenset[tuple[str, str | None]]

    @classmethod
    def of(cls, text: str, name: str | None = None) -> "_Piece":
        code = _COMMENT.sub("", text)
        read = ((one[1], one[2]) for one in _NAME.finditer(code))
        return cls(name, code, frozenset([*read, *((asked, "") for asked in _ASKED.findall(code))]))


@dataclass(frozen=True, slots=True)
class _Module:
    """A module's file. `functions`: the parts that have names. `entries`: the fields of the module's table, each with
    the name of its function or value."""

    name: str
    is_lazy: bool
    includes: Sequence[str]
    parts: Sequence[_Piece]
    functions: Mapping[str, _Piece]
    entries: Mapping[str, str]

    def code(self, functions: Set[str]) -> str:
        """Return these functions, and all code between functions."""
        return "".join(part.text for part in self.parts if part.name is None or part.name in functions)

    def table(self, entries: Set[str]) -> str:
        """Return the table with these entries."""
        return f"{{{', '.join(f'{entry} = {self.entries[entry]}' for entry in self.entries if entry in entries)}}}"


@cache
def _module(path: str) -> _Module:
    text = (LUA / path).read_text()
    found = _MODULE.search(text)
    entries: dict[str, str] = dict(_ENTRY.findall(found["table"])) if found else {}
    if found is None or len(entries) != found["table"].count("="):
        raise ScriptHeaderError(f"{path} is not one module that ends with a table of names")
    body, at = found["body"], 0
    parts: list[_Piece] = []
    for function in _FUNCTION.finditer(body):
        parts += (_Piece.of(body[at : function.start()]), _Piece.of(function[0], function[1]))
        at = function.end()
    parts.append(_Piece.of(body[at:]))
    functions = {part.name: part for part in parts if part.name}
    return _Module(
        found["name"], found["lazily"] is not None, INCLUDE.findall(text), parts, functions, entries
    )


class _Reach:
    """The parts of its modules that a script reaches. `functions` and `entries`: by module, their names. `users`: by
    module, the modules that read it, and None for the script itself."""

    def __init__(self, code: str, modules: Mapping[str, _Module]) -> None:
        self.functions: dict[str, set[str]] = {}
        self.entries: dict[str, set[str]] = {}
        self.users: dict[str, set[str | None]] = {}
        self._modules = modules
        # Code that was not examined yet, with its module.
        self._todo: list[tuple[_Module | None, _Piece]] = [(None, _Piece.of(code))]
        while self._todo:
            self._look_through(*self._todo.pop())

    def _look_through(self, of: _Module | None, part: _Piece) -> None:
        for name, member in part.uses:
            if of is not None:
                self._reach_function(of, name)
            # Modules are not used as values, so a module's name without a member is a field of another table.
            if member is not None and name in self._modules and self._modules[name] is not of:
                self._reach(self._modules[name], member, of)

    def _reach(self, module: _Module, entry: str, user: _Module | None) -> None:
        if module.name not in self.functions:
            self.functions[module.name] = set()
            self.entries[module.name] = set()
            self.users[module.name] = set()
            self._todo.extend((module, part) for part in module.parts if part.name is None)
            if module.is_lazy:
                self._reach(self._modules["lazily"], "ON_FIRST_USE", None)
        self.users[module.name].add(user.name if user else None)
        if entry in module.entries:
            self.entries[module.name].add(entry)
            self._reach_function(module, module.entries[entry])

    def _reach_function(self, module: _Module, name: str) -> None:
        part = module.functions.get(name)
        if part is not None and name not in self.functions[module.name]:
            self.functions[module.name].add(name)
            self._todo.append((module, part))


class _Modules:
    """The modules of one script. `modules`: each after those that it includes."""

    def __init__(self, code: str, modules: Mapping[str, _Module]) -> None:
        self._modules = modules
        self._reached = _Reach(code, modules)
        # By module that the script uses: the module into which it is put; None: the top of the script.
        self._inside: dict[str, str | None] = {}
        # By module: the modules in which it is nested, the outermost first, and itself at the end if it may contain
        # others.
        around: dict[str | None, Sequence[str]] = {None: ()}
        # Begin with the last module, because a module comes after all that it includes.
        for name in reversed([*modules]):
            if name in self._reached.users:
                shared = _common_start([around[user] for user in self._reached.users[name]])
                self._inside[name] = shared[-1] if shared else None
                around[name] = (*shared, name) if modules[name].is_lazy else shared

    def texts(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the texts of those of these modules that stand at the top of the script."""
        return (self._text(name) for name in names if self._inside.get(name, "") is None)

    def _text(self, name: str) -> str:
        module = self._modules[name]
        code = module.code(self._reached.functions[name])
        table = module.table(self._reached.entries[name])
        if not module.is_lazy:
            # Use a block, because the script would create a function only to call it once.
            return f"local {name}\ndo\n{code}  {name} = {table}\nend"
        inner = "".join(
            f"{self._text(other)}\n" for other in self._modules if self._inside.get(other) == name
        )
        return f"local {name} = setmetatable({{function()\n{inner}{code}  return {table}\nend}}, lazily.ON_FIRST_USE)"


def _common_start(lists: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the longest list with which all of these begin."""
    start = min(lists, key=len)
    while any(one[: len(start)] != start for one in lists):
        start = start[:-1]
    return start

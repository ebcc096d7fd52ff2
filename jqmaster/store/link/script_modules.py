"""Includes the modules of lib/ in scripts. Each module becomes a table with the module's name. The script creates this
table in each call.

Creating a function costs the store as much as running many lines of it, so a script creates no more than it needs:

* It has only the functions that it can reach.
* It makes a module with `lazily.made_by` when the module is first used (lib/lazily.lua). Until then, the module is an
  empty table, and one function can make all such modules.
"""

import re
from collections.abc import Mapping, Sequence, Set
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
# Matches a name in Lua, and the member that the code reads from it.
_NAME: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?:\.(\w+))?")
_ASKED: Final = re.compile(r"(?<![\w.])lazily\.is_made\((\w+)\)")


class ScriptHeaderError(JqmasterError):
    """A call does not match the header of its script, or the header is incomplete. This is a fault of the program."""

    code = "script_contract"


def with_modules(text: str) -> str:
    """Return the text with the included modules, each reduced to the functions that the script can reach. Raise
    ScriptHeaderError."""
    # The modules to add, each after the ones that it includes; `lazily` is the first of all.
    modules: dict[str, _Module] = {}

    def include(path: str) -> None:
        module = _module(path)
        if module.name not in modules:
            for other in module.includes:
                include(other)
            modules[module.name] = module

    paths = INCLUDE.findall(text)
    for path in ["lib/lazily.lua", *paths] if paths else []:
        include(path)
    reach = _Reach(_COMMENT.sub("", text), modules)
    # Put all modules in place of the first include line, because they may use one another. Remove the other include
    # lines.
    places = iter([_text_of([*modules.values()], reach)])
    return INCLUDE.sub(lambda _: next(places, ""), text)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A function at the top of a module, or the code between two such functions, which has no name.

    `uses` has the names in the code, each with the member that the code reads. The member is `None` if the code reads
    no member, and empty if the code only checks whether the module is made.
    """

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
    """A module's file.

    * `functions`: the parts that have names.
    * `entries`: the fields of the module's table, each with the name of its function or value.
    """

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
    """The parts of its modules that a script reaches. `functions` and `entries`: by module, their names."""

    def __init__(self, code: str, modules: Mapping[str, _Module]) -> None:
        self.functions: dict[str, set[str]] = {}
        self.entries: dict[str, set[str]] = {}
        self._modules = modules
        # Code that is still to be examined, each with its module (None: the script itself).
        self._todo: list[tuple[_Module | None, _Piece]] = [(None, _Piece.of(code))]
        while self._todo:
            self._look_through(*self._todo.pop())

    def _look_through(self, of: _Module | None, part: _Piece) -> None:
        for name, member in part.uses:
            if of is not None:
                self._reach_function(of, name)
            # Scripts use a module only as `module.member`. So a name without a member is not the module, but a field
            # of this name in another table.
            if member is not None and name in self._modules and self._modules[name] is not of:
                self._reach(self._modules[name], member)

    def _reach(self, module: _Module, entry: str) -> None:
        if module.name not in self.functions:
            self.functions[module.name] = set()
            self.entries[module.name] = set()
            self._todo.extend((module, part) for part in module.parts if part.name is None)
            if module.is_lazy:
                self._reach(self._modules["lazily"], "ON_FIRST_USE")
        if entry in module.entries:
            self.entries[module.name].add(entry)
            self._reach_function(module, module.entries[entry])

    def _reach_function(self, module: _Module, name: str) -> None:
        part = module.functions.get(name)
        if part is not None and name not in self.functions[module.name]:
            self.functions[module.name].add(name)
            self._todo.append((module, part))


def _text_of(modules: Sequence[_Module], reach: _Reach) -> str:
    """Return the text of the modules among these that a script reaches."""
    reached = [module for module in modules if module.name in reach.functions]
    if not reached:
        return ""
    made_at_once = [_made(module, reach, "do", "end") for module in reached if not module.is_lazy]
    lazy = [module for module in reached if module.is_lazy]
    if lazy:
        # Insert the lazy modules right after `lazily`: other modules may use them, and they may use other modules.
        made_at_once.insert(1, _made_on_first_use(lazy, reach))
    return "\n".join([f"local {', '.join(module.name for module in reached)}", *made_at_once])


def _made(module: _Module, reach: _Reach, begin: str, end: str, name: str = "") -> str:
    # Write a block and not a function: the script would create the function only to call it once.
    code, table = module.code(reach.functions[module.name]), module.table(reach.entries[module.name])
    return f"{begin}\n{code}  {name or module.name} = {table}\n{end}"


def _made_on_first_use(modules: Sequence[_Module], reach: _Reach) -> str:
    stubs = "\n".join(f"{module.name} = setmetatable({{}}, lazily.ON_FIRST_USE)" for module in modules)
    branches = "else".join(
        _made(module, reach, f"if module == {module.name} then", "", "made") for module in modules
    )
    return f"""{stubs}
function lazily.ON_FIRST_USE.__index(module, name)
local made
{branches}end
setmetatable(module, {{__index = made}})
return made[name]
end"""

"""The names in a Lua script: globals, and the locals and upvalues that Lua counts against its limits."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"(?P<space>\s+|#![^\n]*|--\[(?P<c>=*)\[.*?\](?P=c)\]|--[^\n]*)"
    r"|(?P<string>\[(?P<s>=*)\[.*?\](?P=s)\]|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>0x[\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}\[\];:,.])",
    re.DOTALL,
)
_KEYWORDS = frozenset(
    ["and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
     "repeat", "return", "then", "true", "until", "while"]
)  # fmt: skip
_OPENING, _CLOSING = frozenset("({["), frozenset(")}]")
# Tokens that continue an expression after an operand.
_CONTINUING = frozenset([*"+-*/%^<>,.:([{", "..", "==", "~=", "<=", ">=", "and", "or"])
_OPERANDS = frozenset([")", "]", "}", "end", "...", "nil", "true", "false"])


@dataclass(slots=True)
class _Function:
    scopes: list[dict[str, int]] = field(default_factory=lambda: [{}])
    upvalues: set[int] = field(default_factory=set)
    active: int = 0


@dataclass(slots=True)
class LuaNames:
    """`locals` are outside any block, `inner` are all others. The numbers count what one function has at once."""

    locals: list[str] = field(default_factory=list)
    inner: set[str] = field(default_factory=set)
    most_locals: int = 0
    most_upvalues: int = 0
    globals: set[str] = field(default_factory=set)


def names_in(text: str) -> LuaNames:
    """Return the names of a script or module."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), ("sign", "")]
        self._at = 0
        self._found = LuaNames()
        self._functions = [_Function()]
        self._blocks: list[str] = []
        self._brackets: list[str] = []
        # Names that a `for` or `while` gives to its block, which begins with `do` at the same depth.
        self._loops: list[tuple[int, list[str]]] = []
        # Names of a `local` whose values are still to come and cannot use those names.
        self._coming: list[tuple[int, int, list[str]]] = []
        self._last_id = 0

    def read(self) -> LuaNames:
        while self._at < len(self._tokens):
            kind, token = self._tokens[self._at]
            self._declare_what_is_complete(kind, token)
            self._at += 1
            if kind == "name" and token in _KEYWORDS:
                self._keyword(token)
            elif kind == "name":
                self._name(token)
            elif token in _OPENING:
                self._brackets.append(token)
            elif token in _CLOSING:
                self._brackets.pop()
        if self._blocks or self._brackets:
            raise ValueError("a block or a bracket is not closed")
        return self._found

    def _peek(self, distance: int = 0) -> str:
        at = self._at + distance
        return self._tokens[at][1] if 0 <= at < len(self._tokens) else ""

    def _keyword(self, word: str) -> None:
        if word == "local" and self._peek() == "function":
            self._at += 1
            self._declare(self._take())
            self._open_function()
        elif word == "local":
            names = self._list_of_names()
            if self._peek() == "=":
                self._coming.append((len(self._blocks), len(self._brackets), names))
                self._at += 1
            else:
                self._declare(*names)
        elif word == "function":
            if self._peek() != "(":
                self._name(self._take())
                while self._peek() != "(":
                    self._at += 1
            self._open_function()
        elif word in ("for", "while"):
            self._loops.append((len(self._blocks), self._list_of_names() if word == "for" else []))
        elif word == "do":
            is_of_loop = self._loops and self._loops[-1][0] == len(self._blocks)
            self._open("do", *(self._loops.pop()[1] if is_of_loop else ()))
        elif word in ("then", "repeat"):
            self._open(word)
        elif word == "else":
            self._close()
            self._open(word)
        elif word in ("elseif", "end", "until"):
            self._close()

    def _name(self, name: str) -> None:
        is_field = self._peek(-2) in (".", ":") or (self._brackets[-1:] == ["{"] and self._peek() == "=")
        if not is_field:
            self._refer(name)

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _list_of_names(self) -> list[str]:
        names = [self._take()]
        while self._peek() == ",":
            self._at += 1
            names.append(self._take())
        return names

    def _open_function(self) -> None:
        self._at += 1
        names = [] if self._peek() == ")" else self._list_of_names()
        self._at += 1
        self._functions.append(_Function())
        self._open("function", *[name for name in names if name != "..."])

    def _open(self, kind: str, *names: str) -> None:
        self._blocks.append(kind)
        self._functions[-1].scopes.append({})
        self._declare(*names)

    def _close(self) -> None:
        function = self._functions[-1]
        function.active -= len(function.scopes.pop())
        if self._blocks.pop() == "function":
            self._found.most_upvalues = max(self._found.most_upvalues, len(function.upvalues))
            self._functions.pop()

    def _declare_what_is_complete(self, kind: str, token: str) -> None:
        while self._coming and self._coming[-1][:2] == (len(self._blocks), len(self._brackets)):
            last_kind, last = self._tokens[self._at - 1]
            is_operand = last_kind in ("string", "number") or last in _OPERANDS
            is_operand = is_operand or (last_kind == "name" and last not in _KEYWORDS)
            if not is_operand or token in _CONTINUING or kind == "string":
                return
            self._declare(*self._coming.pop()[2])

    def _declare(self, *names: str) -> None:
        function = self._functions[-1]
        for name in names:
            self._last_id += 1
            # A name that hides another in the same block takes its own slot.
            scope = function.scopes[-1]
            if name in scope:
                scope[f"{name} {self._last_id}"] = scope.pop(name)
            scope[name] = self._last_id
            function.active += 1
            if not self._blocks:
                self._found.locals.append(name)
            else:
                self._found.inner.add(name)
        self._found.most_locals = max(self._found.most_locals, function.active)

    def _refer(self, name: str) -> None:
        for level in range(len(self._functions) - 1, -1, -1):
            for scope in reversed(self._functions[level].scopes):
                if name in scope:
                    for function in self._functions[level + 1 :]:
                        function.upvalues.add(scope[name])
                    return
        self._found.globals.add(name)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"what is this: {text[at : at + 20]!r}")
        at = match.end()
        if match["space"] is None:
            yield (
                str(match.lastgroup if match.lastgroup in ("name", "number", "sign") else "string"),
                match[0],
            )

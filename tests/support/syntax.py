"""Declarations in Python sources."""

import ast
from collections.abc import Iterator

Declaration = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# The parts of a statement that hold further statements.
_INNER = ("body", "orelse", "finalbody", "handlers", "cases")


def declarations(tree: ast.Module) -> Iterator[Declaration]:
    """Yield the module and all classes and functions in it, at any depth.

    Skip expressions, which take `ast.walk` most of its time.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Declaration):
            yield node
        for part in _INNER:
            waiting += getattr(node, part, ())

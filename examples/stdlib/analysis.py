"""Analyse one source file, in plain Python without any use of the queue."""

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.Try,
    ast.With,
    ast.BoolOp,
    ast.IfExp,
    ast.ExceptHandler,
    ast.comprehension,
)


class Branches(NamedTuple):
    """The function with the most branches in a file."""

    function: str
    number: int


@dataclass(frozen=True)
class Analysis:
    """Size, definitions and imports of a file."""

    file: str
    lines: int
    functions: int
    classes: int
    imports: list[str]
    most_branches: Branches | None


@dataclass(frozen=True)
class Summary:
    """Totals of several files, and the first places of each ranking."""

    files: int
    lines: int
    functions: int
    classes: int
    longest: list[tuple[str, int]]
    most_imported: list[tuple[str, int]]
    most_branches: list[tuple[str, Branches]]


def analyse(path: Path) -> Analysis:
    """Return the analysis of a file. Raise SyntaxError for a file that does not parse."""
    source = path.read_text(encoding="utf-8", errors="replace")
    tree = ast.parse(source)
    nodes, below = _nodes(tree)
    branches = [
        Branches(node.name, 1 + number)
        for node, number in zip(nodes, below, strict=True)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return Analysis(
        file=path.name,
        lines=source.count("\n") + 1,
        functions=len(branches),
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
        imports=sorted(_imports(nodes)),
        most_branches=max(branches, key=lambda one: one.number, default=None),
    )


def summarise(analyses: Sequence[Analysis]) -> Summary:
    """Return the totals, the longest files and the most imported modules."""
    imported = Counter(name for analysis in analyses for name in analysis.imports)
    branchy = [(one.file, one.most_branches) for one in analyses if one.most_branches]
    return Summary(
        files=len(analyses),
        lines=sum(one.lines for one in analyses),
        functions=sum(one.functions for one in analyses),
        classes=sum(one.classes for one in analyses),
        longest=[(one.file, one.lines) for one in sorted(analyses, key=lambda one: -one.lines)[:5]],
        most_imported=sorted(imported.items(), key=lambda item: (-item[1], item[0]))[:5],
        most_branches=sorted(branchy, key=lambda one: -one[1].number)[:5],
    )


def _nodes(tree: ast.AST) -> tuple[list[ast.AST], list[int]]:
    """Return all nodes, parents before children, and for each node the number of branches in it and below it."""
    nodes, parents = [tree], [0]
    for place, node in enumerate(nodes):
        children = list(ast.iter_child_nodes(node))
        nodes += children  # the loop will visit these as well
        parents += [place] * len(children)
    below = [int(isinstance(node, _BRANCHES)) for node in nodes]
    for place in range(len(nodes) - 1, 0, -1):
        below[parents[place]] += below[place]
    return nodes, below


def _imports(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names

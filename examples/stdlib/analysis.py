"""What there is to know about one source file; plain Python, no queue in sight."""

import ast
from pathlib import Path
from typing import Any

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


def analyse(path: Path) -> dict[str, Any]:
    """Size, definitions, imports, and the function with the most branches."""
    source = path.read_text(encoding="utf-8", errors="replace")
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    branches = {function.name: _branches(function) for function in functions}
    worst = max(branches, key=lambda name: branches[name], default=None)
    return {
        "file": path.name,
        "lines": source.count("\n") + 1,
        "functions": len(functions),
        "classes": sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree)),
        "imports": sorted(_imports(tree)),
        "most_branches": [worst, branches[worst]] if worst else None,
    }


def summarise(analyses: list[dict[str, Any]]) -> dict[str, Any]:
    """Totals, the longest files and the most imported modules."""
    imported: dict[str, int] = {}
    for analysis in analyses:
        for name in analysis["imports"]:
            imported[name] = imported.get(name, 0) + 1
    branchy = [a for a in analyses if a["most_branches"]]
    return {
        "files": len(analyses),
        "lines": sum(a["lines"] for a in analyses),
        "functions": sum(a["functions"] for a in analyses),
        "classes": sum(a["classes"] for a in analyses),
        "longest": [[a["file"], a["lines"]] for a in sorted(analyses, key=lambda a: -a["lines"])[:5]],
        "most_imported": sorted(imported.items(), key=lambda item: (-item[1], item[0]))[:5],
        "most_branches": [
            [a["file"], *a["most_branches"]]
            for a in sorted(branchy, key=lambda a: -a["most_branches"][1])[:5]
        ],
    }


def _branches(function: ast.AST) -> int:
    return 1 + sum(isinstance(node, _BRANCHES) for node in ast.walk(function))


def _imports(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names

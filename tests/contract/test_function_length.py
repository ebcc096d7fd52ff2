"""Each function can be read at once."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("jqmaster", "worker_sdk", "tools", "examples", "benchmarks")
# Lines from the first statement to the last. Signatures and docstrings do not count: they grow with what callers may
# give, as the options of a command do.
LIMIT: Final = 70
LONGER: Final = {
    # Each call would pass eight values per byte of a hostile body.
    "jqmaster/api/encoding/validator.py:scan",
}


def lengths(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the length of each function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            has_docstring = ast.get_docstring(node, clean=False) is not None
            statements = node.body[1:] if has_docstring else node.body
            last = node.end_lineno or 0
            yield node.name, last - statements[0].lineno + 1 if statements else 0


def test_no_function_is_longer_than_the_limit() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{name}": length
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, length in lengths(path.read_text("utf-8"))
        if length > LIMIT
    }
    assert found.keys() == LONGER, f"split by meaning what is longer than {LIMIT} lines: {found}"


def test_signatures_and_docstrings_do_not_count() -> None:
    source = (
        'def f(\n    a,\n    b,\n):\n    """Two.\n\n    Lines."""\n    # Why.\n    c = a\n\n    return c\n'
    )
    assert list(lengths(source)) == [("f", 3)]
    assert list(lengths('async def g():\n    """Nothing."""\n')) == [("g", 0)]

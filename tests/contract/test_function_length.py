"""Each function can be read at once."""

import ast
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.support.syntax import declarations

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("jqmaster", "worker_sdk", "tools", "examples", "benchmarks")
WEB_TOOLS: Final = ROOT / "tools" / "web"
# Lines of a function, from its name to its end, with parameters and docstring.
LIMIT: Final = 70
# The functions that are longer, and how long each is. The numbers only fall.
LONGER: Final = {
    # Each call would pass eight values per byte of a hostile body.
    "jqmaster/api/encoding/validator.py:scan": 89,
    # Twenty options that editors show, and what they mean.
    "worker_sdk/tasks/collection.py:task": 95,
}


def lengths(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the length of each function of a Python source."""
    for node in declarations(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def faults(found: Mapping[str, int], known: Mapping[str, int]) -> list[str]:
    """Return the necessary changes to long functions or to the list of known ones."""
    longer = {name: lines for name, lines in found.items() if lines > LIMIT}
    return [
        *(
            f"split by meaning: {name} has {lines} lines, not {known.get(name, LIMIT)}"
            for name, lines in longer.items()
            if lines > known.get(name, LIMIT)
        ),
        *(
            f"lower the number of {name} to {longer[name]}"
            for name in known.keys() & longer.keys()
            if longer[name] < known[name]
        ),
        *(f"remove {name} from the list" for name in known.keys() - longer.keys()),
    ]


def test_no_function_is_longer_than_the_limit() -> None:
    found: dict[str, int] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, lines in lengths(path.read_text("utf-8")):
                key = f"{path.relative_to(ROOT).as_posix()}:{name}"
                found[key] = max(found.get(key, 0), lines)
    assert faults(found, LONGER) == []


@pytest.mark.req("J15")
@pytest.mark.skipif(
    not shutil.which("node") or not (WEB_TOOLS / "node_modules" / "typescript").exists(),
    reason="needs node and the packages of tools/web",
)
def test_no_function_of_the_web_ui_is_longer_than_the_limit() -> None:
    printed = subprocess.run(
        ["node", "lengths.js"], cwd=WEB_TOOLS, capture_output=True, text=True, check=True
    )
    found: dict[str, int] = json.loads(printed.stdout)
    assert "shell/app.js:App" in found
    assert faults(found, {}) == []


def test_parameters_docstring_and_comments_count() -> None:
    source = (
        'def f(\n    a,\n    b,\n):\n    """Two.\n\n    Lines."""\n    # Why.\n    c = a\n\n    return c\n'
    )
    assert list(lengths(source)) == [("f", 11)]
    assert list(lengths('async def g():\n    """Nothing."""\n')) == [("g", 2)]


def test_numbers_of_the_list_only_fall() -> None:
    known = {"a.py:same": 80, "a.py:longer": 80, "a.py:shorter": 80, "a.py:split": 80, "a.py:gone": 80}
    found = {"a.py:same": 80, "a.py:longer": 81, "a.py:shorter": 79, "a.py:split": 70, "b.py:new": 71}
    assert sorted(faults(found, known)) == [
        "lower the number of a.py:shorter to 79",
        "remove a.py:gone from the list",
        "remove a.py:split from the list",
        "split by meaning: a.py:longer has 81 lines, not 80",
        "split by meaning: b.py:new has 71 lines, not 70",
    ]

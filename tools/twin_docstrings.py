"""Write the docstrings of calls that exist twice, for threads and for event loops: `python -m tools.twin_docstrings
--write`.

The docstring of the call for threads is written by hand. From it, this program writes the docstring of the call for
event loops. Editors read the source, so they show both. These are the pairs:

* a method, and its sibling with an `a` before its name,
* methods of the same name in a pair of `CLASSES`,
* the functions in `FUNCTIONS`.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "worker_sdk"
# Pairs of classes, each class with its module: the class for threads, and the class for event loops.
CLASSES = (
    ("pusher/sync_client.py", "SyncPusher", "pusher/client.py", "Pusher"),
    ("outbox/relay.py", "Relay", "outbox/relay.py", "AsyncRelay"),
)
FUNCTIONS = {"wait_all": "await_all"}
# The classes of variables in examples. Any other variable with a method call is a task.
VARIABLES = {
    "pusher": ("SyncPusher",),
    "relay": ("Relay",),
    "session": ("Session",),
    "handle": ("JobHandle",),
    "handles": ("JobHandle",),
    "batch": ("Batch",),
    "flow": ("Flow",),
    "task_backends": ("JqmasterBackend",),
    "outbox": ("Outbox", "SqlAlchemyOutbox", "DjangoOutbox"),
}
NOTE = "`{}` does not block the event loop."
OF_ASYNC_SESSIONS = "`{}` is for an `AsyncSession`: enqueue with `aenqueue` and `amany`."
# Siblings with docstrings that are written by hand.
APART = {"AsyncRelay.run"}
# Sentences that some async methods have instead of `NOTE`.
NOTES = {
    "acreate_table": "`{}` is for an `AsyncEngine`.",
    "atransaction": OF_ASYNC_SESSIONS,
    "awriting": OF_ASYNC_SESSIONS,
}
WIDTH = 120

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Pair:
    """A definition with a docstring, and the definition that gets a docstring from it.

    * `files`: their files.
    * `names`: their names, with the names of their classes.
    * `nodes`: their source.
    """

    files: tuple[Path, Path]
    names: tuple[str, str]
    nodes: tuple[Function, Function]

    @property
    def text(self) -> str:
        """Return the docstring that the second definition gets."""
        return twin_of(docstring(self.nodes[0]), self)


def pairs() -> Iterator[Pair]:
    """Yield all pairs of the package."""
    trees = {file: ast.parse(file.read_text("utf-8")) for file in sorted(PACKAGE.rglob("*.py"))}
    for file, tree in trees.items():
        scopes = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
        for name, (first, second) in siblings(scopes):
            yield Pair((file, file), (f"{name}.{first.name}", f"{name}.{second.name}"), (first, second))
        top = functions(tree)
        for name, other in FUNCTIONS.items():
            if name in top and other in top:
                yield Pair((file, file), (name, other), (top[name], top[other]))
    for file_name, name, other_file, other in CLASSES:
        files = PACKAGE / file_name, PACKAGE / other_file
        ours, theirs = (
            functions(class_of(trees[one], of)) for one, of in zip(files, (name, other), strict=True)
        )
        for method in ours.values():
            twin = theirs.get(method.name) or theirs.get(f"a{method.name}")
            if twin is not None and f"{other}.{twin.name}" not in APART:
                yield Pair(files, (f"{name}.{method.name}", f"{other}.{twin.name}"), (method, twin))


def siblings(classes: list[ast.ClassDef]) -> Iterator[tuple[str, tuple[Function, Function]]]:
    """Yield the methods that have a docstring and a sibling with an `a` before its name. Each pair comes with the name
    of its class."""
    for owner in classes:
        methods = functions(owner)
        for name, method in methods.items():
            if (sibling := methods.get(f"a{name}")) is not None and docstring(method):
                yield owner.name, (method, sibling)


def class_of(tree: ast.Module, name: str) -> ast.ClassDef:
    """Return the source of a class in a module."""
    return next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)


def functions(node: ast.ClassDef | ast.Module) -> dict[str, Function]:
    """Return the public functions of a class or a module by name. If a function has overloads, return its
    implementation."""
    return {one.name: one for one in node.body if isinstance(one, Function) and not one.name.startswith("_")}


def docstring(node: ast.ClassDef | Function) -> str:
    """Return the docstring in the form that `help` shows."""
    return inspect.cleandoc(ast.get_docstring(node) or "")


def twin_of(text: str, pair: Pair) -> str:
    """Return the docstring of the call for event loops."""
    (first, second), width = pair.nodes, WIDTH - 4 * pair.names[1].count(".") - 7
    blocks = text.split("\n\n")
    if second.name != first.name:
        note = NOTES.get(second.name, NOTE).format(second.name)
        blocks[0] = textwrap.fill(f"{' '.join(blocks[0].split())} {note}", width, break_on_hyphens=False)
    arguments = [*second.args.posonlyargs, *second.args.args]
    asynchronous = [
        one.arg for one in arguments if one.annotation and "AsyncIterable" in ast.unparse(one.annotation)
    ]
    # Join the parts of an example, which blank lines have divided.
    is_code = False
    made: list[str] = []
    for block in blocks:
        if block.startswith("    "):
            if is_code:
                made[-1] += f"\n\n{block}"
            else:
                made.append(block)
            is_code = True
            continue
        is_code = False
        for one in asynchronous:
            block = re.sub(rf"(`{one}`: )an iterable\b", r"\1an iterable, or an async one,", block)
        made.append(fitted(block, width))
    return "\n\n".join(
        textwrap.indent(asynchronous_code(textwrap.dedent(one)), "    ") if one.startswith("    ") else one
        for one in made
    )


def fitted(block: str, width: int) -> str:
    """Return a paragraph or a list. If a line is too long, wrap the lines again."""
    if all(len(line) <= width for line in block.split("\n")):
        return block
    items = re.split(r"\n(?=\* )", block)
    return "\n".join(
        textwrap.fill(
            " ".join(item.split()),
            width,
            subsequent_indent="  " * item.startswith("* "),
            break_on_hyphens=False,
            break_long_words=False,
        )
        for item in items
    )


def asynchronous_code(source: str) -> str:
    """Return an example for event loops: with their calls, and with `await`, `async with` and `async for` where these
    calls need it."""
    tree = ast.parse(source)
    lines = source.split("\n")
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    edits: set[tuple[int, int, str, str]] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or (change := _change_of(node)) is None:
            continue
        parent, (old, new) = parents[node], change
        end_line, end_column = node.func.end_lineno or 0, node.func.end_col_offset or 0
        edits.add((end_line, end_column - len(old), old, new))
        if isinstance(parent, ast.withitem):
            block = parents[parent]
            assert isinstance(block, ast.With)
            edits.add((block.lineno, block.col_offset, "", "async "))
        elif old not in _MADE:
            needs_brackets = isinstance(parent, ast.Attribute | ast.Subscript)
            edits.add((node.lineno, node.col_offset, "", "(await " if needs_brackets else "await "))
            if needs_brackets:
                edits.add((node.end_lineno or 0, node.end_col_offset or 0, "", ")"))
    for line, column, old, new in sorted(edits, reverse=True):
        text = lines[line - 1]
        assert text[column : column + len(old)] == old, (text, old)
        lines[line - 1] = text[:column] + new + text[column + len(old) :]
    return "\n".join(lines)


# Classes with objects that examples construct or enter by `async with`. Examples do not await a call for them.
_MADE = {"SyncPusher": "Pusher", "Relay": "AsyncRelay", "Batch": "Batch"}


def _change_of(node: ast.Call) -> tuple[str, str] | None:
    """Return the name of a call for threads and the name of its sibling for event loops. None: the call has no
    sibling."""
    func = node.func
    if isinstance(func, ast.Name):
        other = {**_MADE, **FUNCTIONS}.get(func.id)
        return None if other is None else (func.id, other)
    if not isinstance(func, ast.Attribute):
        return None
    root: ast.expr = func.value
    while not isinstance(root, ast.Name):
        if not isinstance(root, ast.Call | ast.Attribute | ast.Subscript):
            return None
        root = root.func if isinstance(root, ast.Call) else root.value
    for owner in VARIABLES.get(root.id, ("Calls", "JqmasterTask")):
        if (other := _siblings_of_classes().get(owner, {}).get(func.attr)) is not None:
            return func.attr, other
    return None


@cache
def _siblings_of_classes() -> Mapping[str, Mapping[str, str]]:
    """Return, by the name of the class, a map of its calls for threads to its calls for event loops."""
    found: dict[str, dict[str, str]] = {"Session": {"commit": "commit"}}
    for pair in pairs():
        owner, _, name = pair.names[0].rpartition(".")
        found.setdefault(owner, {})[name] = pair.nodes[1].name
    return found


def write(pair: Pair) -> None:
    """Write the docstring of the second definition into its file."""
    path = pair.files[1]
    source = path.read_text("utf-8")
    lines = source.split("\n")
    owner, _, name = pair.names[1].rpartition(".")
    tree = ast.parse(source)
    node = functions(class_of(tree, owner) if owner else tree)[name]
    quoted = f'"""{pair.text}' + ('\n"""' if "\n\n" in pair.text else '"""')
    written = textwrap.indent(quoted, " " * (node.col_offset + 4)).split("\n")
    first = node.body[0]
    end = first.end_lineno or 0 if docstring(node) else first.lineno - 1
    lines[first.lineno - 1 : end] = written
    path.write_text("\n".join(lines), "utf-8")


def differing() -> list[Pair]:
    """Return the pairs with a second docstring that is not the one made from the first."""
    return [pair for pair in pairs() if docstring(pair.nodes[1]) != pair.text]


if __name__ == "__main__":
    for one in differing():
        if sys.argv[1:] == ["--write"]:
            write(one)
        else:
            print(f"{one.names[1]}: its docstring is not that of {one.names[0]}; run `make docs`")

"""Docstrings of calls that exist twice, for threads and for event loops: `python -m tools.twin_docstrings --write`.

The text is written by hand at the call for threads. This program writes the one for event loops from it, so that an
editor, which reads the source, shows both. Such pairs are a method and its sibling with an `a` before its name, the
methods of the classes in `CLASSES`, and the functions in `FUNCTIONS`.
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
# Pairs of classes, each with its module: the one for threads, and the one for event loops.
CLASSES = (
    ("pusher/sync_client.py", "SyncPusher", "pusher/client.py", "Pusher"),
    ("outbox/relay.py", "Relay", "outbox/relay.py", "AsyncRelay"),
)
FUNCTIONS = {"wait_all": "await_all"}
# The classes of the variables in examples. Any other variable on which a method is called is a task.
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
# Siblings that are explained by hand.
APART = {"AsyncRelay.run"}
# Sentences that replace `NOTE` in the docstrings of some async methods.
NOTES = {
    "acreate_table": "`{}` is for an `AsyncEngine`.",
    "atransaction": OF_ASYNC_SESSIONS,
    "awriting": OF_ASYNC_SESSIONS,
}
WIDTH = 120

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Pair:
    """The definition that has the text, and the one that gets it.

    * `files`: their files.
    * `names`: their names, with those of their classes.
    * `nodes`: their source.
    """

    files: tuple[Path, Path]
    names: tuple[str, str]
    nodes: tuple[Function, Function]

    @property
    def text(self) -> str:
        """Return the docstring that the second one gets."""
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
    """Yield the methods that are explained and have a sibling with an `a` before its name, with their class."""
    for owner in classes:
        methods = functions(owner)
        for name, method in methods.items():
            if (sibling := methods.get(f"a{name}")) is not None and docstring(method):
                yield owner.name, (method, sibling)


def class_of(tree: ast.Module, name: str) -> ast.ClassDef:
    """Return the source of a class of a module."""
    return next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)


def functions(node: ast.ClassDef | ast.Module) -> dict[str, Function]:
    """Return the public functions of a class or a module by name; of several overloads, their implementation."""
    return {one.name: one for one in node.body if isinstance(one, Function) and not one.name.startswith("_")}


def docstring(node: ast.ClassDef | Function) -> str:
    """Return the text as `help` shows it."""
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
    # Join the parts of an example that a blank line has divided.
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
    """Return a paragraph or a list, wrapped again where a line is too long."""
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
    """Return an example with `await`, `async with` and `async for` where the calls for event loops need them."""
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


# Classes of which examples construct an object, or enter it by `async with`, instead of awaiting a call.
_MADE = {"SyncPusher": "Pusher", "Relay": "AsyncRelay", "Batch": "Batch"}


def _change_of(node: ast.Call) -> tuple[str, str] | None:
    """Return the name of a call for threads, and that of the one for event loops; None for other calls."""
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
    """Return the calls of each class by the name of the class: those for threads, and those for event loops."""
    found: dict[str, dict[str, str]] = {"Session": {"commit": "commit"}}
    for pair in pairs():
        owner, _, name = pair.names[0].rpartition(".")
        found.setdefault(owner, {})[name] = pair.nodes[1].name
    return found


def write(pair: Pair) -> None:
    """Write the docstring of the call for event loops into its file."""
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
    """Return the pairs in which the second docstring does not follow from the first."""
    return [pair for pair in pairs() if docstring(pair.nodes[1]) != pair.text]


if __name__ == "__main__":
    for one in differing():
        if sys.argv[1:] == ["--write"]:
            write(one)
        else:
            print(f"{one.names[1]}: its docstring is not that of {one.names[0]}; run `make docs`")

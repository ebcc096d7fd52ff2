"""Each public name of the SDK explains itself where an editor shows it: a docstring, what it returns, and an example.

`tests/fundamentals/test_sdk_examples.py` runs the examples.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.support.docstring_examples import examples_in
from tools.sdk_reference import CONSTANTS, ENTRIES, Entry, Function, definition, members, text_of
from tools.twin_docstrings import asynchronous_code, differing, pairs

# Maps of options, which are given as arguments of other calls.
OPTIONS = {"TaskOptions", "CommandOptions", "DefinitionOptions", "JobOptions"}


def classes() -> Iterator[tuple[Entry, ast.ClassDef]]:
    for entry in ENTRIES:
        if isinstance(node := definition(entry), ast.ClassDef):
            yield entry, node


def calls() -> Iterator[tuple[str, Function, str]]:
    """Yield each public method that is not a property: its path, its source, and the examples of its class."""
    for entry, node in classes():
        for one in members(node):
            decorators = {ast.unparse(given) for given in one.decorator_list}
            if "property" not in decorators:
                yield f"{entry.path}.{one.name}", one, "\n".join(examples_in(text_of(node)))


CALLS = [pytest.param(node, shown, id=path) for path, node, shown in calls()]


@pytest.mark.parametrize(
    "entry", [one for one in ENTRIES if one.name not in OPTIONS | CONSTANTS.keys()], ids=lambda one: one.path
)
def test_each_public_class_and_function_has_an_example(entry: Entry) -> None:
    text = text_of(definition(entry))
    assert text, "it has no docstring"
    assert examples_in(text), (
        "its docstring has no example: a paragraph that ends with a colon, then indented code"
    )


@pytest.mark.parametrize(("node", "shown"), CALLS)
def test_each_public_method_says_what_it_returns_and_has_an_example(node: Function, shown: str) -> None:
    text = text_of(node)
    assert text, "it has no docstring"
    own = "\n".join(examples_in(text))
    assert own or f".{node.name}(" in shown or f"def {node.name}(" in shown, "it has no example"
    returned = "" if node.returns is None else ast.unparse(node.returns).strip("'\"")
    # The worker calls hooks, and blocks yield.
    is_hook = returned == "Any" or "Awaitable[None]" in returned or "Iterator" in returned
    if returned not in {"", "None", "NoReturn"} and not is_hook:
        assert "eturn" in text, f"it does not say what it returns: {returned}"


def test_the_texts_of_calls_for_event_loops_are_those_of_the_calls_for_threads() -> None:
    assert [one.names[1] for one in differing()] == [], "run `make docs`"


def test_each_public_call_that_exists_twice_has_an_example_and_names_its_errors_in_both_places() -> None:
    public = {f"{entry.name}.{one.name}" for entry, node in classes() for one in members(node)}
    public |= {entry.name for entry in ENTRIES}
    found = [one for one in pairs() if set(one.names) <= public]
    assert len(found) > 30
    for pair in found:
        for name, node in zip(pair.names, pair.nodes, strict=True):
            text = text_of(node)
            [*_, example] = examples_in(text)
            assert ("await " in example or "async with" in example) == (node is pair.nodes[1]), name
            assert (
                "Raise" in text
                or "close" in name
                or name.split(".")[0] in {"Outbox", "Relay", "AsyncRelay"}
                or ("writing" in name or "JqmasterBackend" in name or "JqmasterTask" in name)
            ), f"{name} does not say what it raises"


@pytest.mark.parametrize(
    ("threads", "event_loop"),
    [
        ("handle = send.enqueue(1)\nhandle.get()", "handle = await send.aenqueue(1)\nawait handle.aget()"),
        ("print(handle.refresh().status)", "print((await handle.arefresh()).status)"),
        ("with Batch() as batch:\n    batch.add([])", "async with Batch() as batch:\n    await batch.aadd([])"),
        ("with SyncPusher() as pusher:\n    pusher.status('a')",
         "async with Pusher() as pusher:\n    await pusher.status('a')"),
        ("flow.add(send.to_job(1))", "flow.add(send.to_job(1))"),
        ("wait_all([send.enqueue(1)])", "await await_all([await send.aenqueue(1)])"),
    ],
)  # fmt: skip
def test_an_example_for_threads_becomes_one_for_event_loops(threads: str, event_loop: str) -> None:
    assert asynchronous_code(threads) == event_loop

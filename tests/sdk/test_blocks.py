"""Each context manager of the SDK takes `with` and `async with`, or names the right one of the two."""

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest

from tools.sdk_reference import BLOCKS, ENTRIES, Entry, definition, members
from worker_sdk import Pusher, SyncPusher, Worker
from worker_sdk.blocks import AsyncWithOnly, NoBlock, WithOnly
from worker_sdk.testing import WorkerHarness, inline, recording

OF_CONTEXTLIB = {"contextmanager", "asynccontextmanager"}
# Arguments of the constructors that need some.
ARGUMENTS: dict[str, tuple[Any, ...]] = {"WorkerHarness": (Worker(),)}


def public() -> Iterator[tuple[Entry, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for entry in ENTRIES:
        node = definition(entry)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield entry, node


def found(entry: Entry) -> Any:
    return getattr(importlib.import_module(f"worker_sdk.{entry.module}"), entry.name)


def names_of(function: Any) -> set[str]:
    calls = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
    return {ast.unparse(one).rpartition(".")[2] for one in calls}


def functions() -> Iterator[tuple[str, Any, str]]:
    """Yield each public function or method that makes a block: its path, the function, and its decorator."""
    for entry, node in public():
        if isinstance(node, ast.ClassDef):
            owner = found(entry)
            for member in members(node):
                for name in names_of(member):
                    yield f"{entry.path}.{member.name}", inspect.getattr_static(owner, member.name), name
        else:
            for name in names_of(node):
                yield entry.path, found(entry), name


def classes() -> Iterator[Any]:
    for entry, node in public():
        if isinstance(node, ast.ClassDef):
            one = found(entry)
            if hasattr(one, "__enter__") or hasattr(one, "__aenter__"):
                yield one


def given_to(function: FunctionType) -> list[Any]:
    """Return arguments for a call. The block does not begin, so that their values do not matter."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [None for one in parameters if one.kind in kinds and one.default is one.empty]


async def refused(make: Callable[[], Any], form: str) -> str:
    try:
        if form == "with":
            with make():
                pass
        else:
            async with make():
                pass
    except TypeError as exc:
        return str(exc)
    raise AssertionError("the block began")


def test_each_public_block_is_made_by_the_mechanism_of_the_package() -> None:
    assert [path for path, _, decorator in functions() if decorator in OF_CONTEXTLIB] == []
    assert {decorator for _, _, decorator in functions() if decorator in BLOCKS} == BLOCKS.keys()


@pytest.mark.parametrize(
    ("function", "decorator"),
    [pytest.param(one, name, id=path) for path, one, name in functions() if name in BLOCKS],
)
async def test_a_function_that_makes_a_block_takes_both_forms_or_names_the_right_one(
    function: Any, decorator: str
) -> None:
    def make() -> Any:
        return function(*given_to(function))

    if decorator == "either_with":
        assert all(hasattr(make(), name) for name in ("__enter__", "__exit__", "__aenter__", "__aexit__"))
        return
    right, wrong = ("with", "async with") if decorator == "with_only" else ("async with", "with")
    told = await refused(make, wrong)
    assert told.startswith(f"{function.__name__}() needs `{right}`; ")


@pytest.mark.parametrize("kind", list(classes()), ids=lambda kind: kind.__name__)
async def test_a_class_with_a_block_takes_both_forms_or_names_the_right_one(kind: Any) -> None:
    def make() -> Any:
        return kind(*ARGUMENTS.get(kind.__name__, ()))

    if issubclass(kind, WithOnly):
        assert (await refused(make, "async with")).startswith(f"{kind.__name__} needs `with`")
    elif issubclass(kind, AsyncWithOnly):
        assert (await refused(make, "with")).startswith(f"{kind.__name__} needs `async with`")
    elif issubclass(kind, NoBlock):
        for form in ("with", "async with"):
            assert (await refused(make, form)).startswith(
                f"{kind.__name__} is not a block; write `async with "
            )
    else:
        assert all(hasattr(kind, name) for name in ("__enter__", "__exit__", "__aenter__", "__aexit__"))


def test_the_walk_finds_the_classes_that_people_use() -> None:
    assert {Pusher, SyncPusher, Worker, WorkerHarness} <= set(classes())


async def test_the_test_kit_takes_both_forms_and_decorates() -> None:
    async with recording() as jobs, inline() as more:
        assert (jobs, more) == ([], [])
    with recording() as jobs:
        assert jobs == []
    seen = []

    @recording()
    def twice() -> None:
        seen.append(1)

    twice()
    twice()
    assert seen == [1, 1]


async def test_an_exception_leaves_either_form_of_a_block() -> None:
    with pytest.raises(LookupError):
        async with recording():
            raise LookupError
    with pytest.raises(LookupError), recording():
        raise LookupError

"""The reference, docs/sdk.md and docs/sdk/, names everything in worker_sdk."""

import ast
import gc
import re
from collections.abc import Iterator

import pytest

import worker_sdk
from tests.support.each import for_each
from tools.sdk_reference import (
    ENTRIES,
    FOLDER,
    ROOT,
    Entry,
    constructor,
    definition,
    fields,
    members,
    parameters,
    reference,
    text_of,
)

# Arguments of another method, which explains them.
AS_ANOTHER = re.compile(r"^Do as `[\w.]+`\.$|\bas `[\w.]+` does\b")
SELF_EVIDENT = {"job_id", "tmp_path_factory"}


@pytest.fixture
def without_collections() -> Iterator[None]:
    """Disable garbage collection: CPython 3.11 miscounts its recursion during `ast.parse` otherwise (a SystemError)."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collections")
def test_the_pages_are_those_that_make_docs_writes() -> None:
    pages = reference()
    assert {ROOT / path for path in pages if path.parent == FOLDER} == set((ROOT / FOLDER).glob("*.md"))
    for path, text in pages.items():
        assert (ROOT / path).read_text("utf-8") == text, f"{path}: run `make docs`"


def test_every_exported_name_is_on_one_page() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert {entry.name for entry in ENTRIES if entry.is_exported} == set(worker_sdk.__all__)


@for_each("entry", ENTRIES, ids=lambda entry: entry.path)
def test_every_argument_and_field_is_explained(entry: Entry) -> None:
    node = definition(entry)
    if not isinstance(node, ast.ClassDef):
        assert unexplained(parameters(node), text_of(node)) == []
        return
    names = [ast.unparse(one.target) for one in fields(node)]
    if (init := constructor(node)) and entry.is_constructed and "are those of" not in text_of(node):
        names += parameters(init)
    assert unexplained(names, text_of(node)) == []
    for member in members(node):
        text = text_of(member)
        assert text, f"{entry.name}.{member.name} has no docstring"
        if not AS_ANOTHER.search(text):
            assert unexplained(parameters(member), text) == [], f"{entry.name}.{member.name}"


def unexplained(names: list[str], text: str) -> list[str]:
    """Return the arguments that are not named on a docstring line or in backticks."""
    return [name for name in names if f"`{name}`" not in text and name not in SELF_EVIDENT]

"""The reference in docs/sdk.md names everything in worker_sdk."""

import ast
import gc
import re
from collections.abc import Iterator

import pytest

import worker_sdk
from tools.sdk_reference import (
    ROOT,
    SECTIONS,
    TARGET,
    Entry,
    constructor,
    definition,
    fields,
    members,
    parameters,
    reference,
    text_of,
)

ENTRIES = [entry for entries in SECTIONS.values() for entry in entries]
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
def test_the_page_is_the_one_that_make_docs_writes() -> None:
    assert (ROOT / TARGET).read_text("utf-8") == reference(), "run `make docs`"


def test_every_exported_name_is_on_the_page() -> None:
    assert {entry.name for entry in ENTRIES if entry.is_exported} == set(worker_sdk.__all__)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.path)
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

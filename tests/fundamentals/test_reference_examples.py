"""The examples of the SDK reference run as the files that they are: with the test kit, or beside one master."""

import ast
import asyncio
import contextlib
import importlib.util
import runpy
import subprocess
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import clean_environment
from tests.support.pages import ROOT
from tools.sdk_reference import EXAMPLES, PAGES, Example, examples
from worker_sdk import Tasks, Worker, configure
from worker_sdk.tasks.client import process_pushers

BY_NAME = {example.file.stem: example for example in examples()}
# Programs that need a process of their own, because they configure Django.
ALONE = {"django_site"}
# Tests that pytest runs with the plugin of the SDK, which tests/sdk/testing covers; and a worker that runs until it is
# stopped. They are imported, and their types are checked.
IMPORTED = {"pytest_fixtures", "worker"}
LIVE = [
    name
    for name, example in BY_NAME.items()
    if '__name__ == "__main__"' in example.code and name not in IMPORTED
]
WITHOUT_MASTER = sorted(BY_NAME.keys() - ALONE - IMPORTED - set(LIVE))


@pytest.fixture(autouse=True)
def _unconfigured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    configure()
    yield
    configure()


def imported(example: Example) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{example.file.stem}", example.file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for the module of their annotations
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", WITHOUT_MASTER)
def test_an_example_runs_without_a_master(name: str) -> None:
    runpy.run_path(str(BY_NAME[name].file), run_name="__main__")


@real_time.MASTER
async def test_the_other_examples_run_beside_one_master(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JQMASTER_URL", url)
    modules = [imported(BY_NAME[name]) for name in LIVE]
    found = [tasks for module in modules if isinstance(tasks := getattr(module, "tasks", None), Tasks)]
    failed = {}
    async with Worker(url, tasks=found).running():
        for name in LIVE:
            try:
                await asyncio.to_thread(runpy.run_path, str(BY_NAME[name].file), run_name="__main__")
            except Exception as exc:
                failed[name] = f"{exc!r} {traceback.extract_tb(exc.__traceback__)[-1]}"
    process_pushers.get().sync_pusher().close()
    for module in modules:
        sys.modules.pop(module.__name__)
    assert failed == {}


@pytest.mark.parametrize("name", sorted(ALONE))
def test_an_example_runs_in_a_process_of_its_own(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BY_NAME[name].file)],
        cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(IMPORTED))
def test_an_example_that_others_run_can_be_imported(name: str) -> None:
    module = imported(BY_NAME[name])
    with contextlib.suppress(KeyError):
        del sys.modules[module.__name__]
    assert isinstance(getattr(module, "worker", None), Worker) or isinstance(
        getattr(module, "tasks", None), Tasks
    )


def test_every_class_and_function_of_the_reference_has_an_example_that_uses_it() -> None:
    shown = {name: example for example in examples() for name in example.shows}
    names = {entry.name for page in PAGES for entry in page.entries}
    assert shown.keys() == names
    # A backend is named by its path; a fixture by an argument.
    unused = []
    for name, example in shown.items():
        tree = ast.walk(ast.parse(example.code))
        used = {
            getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None)
            for node in tree
            if isinstance(node, ast.Name | ast.Attribute | ast.arg)
        }
        if name not in used and not _has_no_name_of_its_own(name):
            unused.append(name)
    assert unused == []
    assert all(example.file.parent == ROOT / EXAMPLES for example in examples())


def _has_no_name_of_its_own(name: str) -> bool:
    """Return whether users get instances of a class without naming it."""
    return name == "Calls"

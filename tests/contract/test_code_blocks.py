"""Blocks in the documents that no test runs can at least be read by the language that they are in.

`tests/fundamentals/test_pages.py` runs the blocks of Python, `tests/system/test_first_pages.py` lines of `curl` and
`jqmaster`, and `test_command_lines.py` knows all commands.
"""

import ast
import configparser
import json
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from jqmaster.cli.declared.documents import KINDS, declared_by
from jqmaster.config import Settings
from tests.support.each import for_each
from tests.support.pages import ROOT, all_blocks, commands, documents

PAGES = [str(page.relative_to(ROOT)) for page in documents() if page.parent.name != "sdk"]
# The tests of the blocks in other languages.
OTHERS = {
    "python": "tests/fundamentals/test_pages.py",
    "js": "tests/system/test_push_docs.py",
    "ts": "tests/clients/test_typescript.py",
    "ruby": "tests/system/test_push_docs.py",
    "php": "tests/system/test_push_docs.py",
    "mermaid": "tests/contract/test_lifecycle.py",
    "dockerfile": "tests/contract/test_containers.py",
}
# Pieces of several files of a site, which tests/system/test_django_ui.py has as whole files.
PIECES = {"text"}
SHELLS = {"sh", "bash", "console"}


def read(language: str, text: str) -> None:
    """Raise an error if a block cannot be read."""
    match language:
        case "json":
            _read_json(text)
        case "toml":
            document = tomllib.loads(text)
            if document.keys() & set(KINDS):
                _check_declarations(text)
            else:
                assert document.keys() <= Settings.model_fields.keys(), "these are settings"
        case "yaml":
            assert list(yaml.safe_load_all(text))
        case "ini":
            configparser.ConfigParser(strict=False, interpolation=None).read_string(text)
        case "py":  # of another library
            ast.parse(text)
        case _ if language in SHELLS:
            _read_shell(text)
        case _:
            # Commands, or diagrams, requests and output.
            assert language in {"", *OTHERS, *PIECES}, f"no test knows the language {language}"


def _check_declarations(text: str) -> None:
    """Check the tables as `jqmaster apply` does before it asks a master."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        declared = declared_by(file.name, None)
    assert any(declared.documents.values())


def _read_json(text: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            json.loads(line)


def _read_shell(text: str) -> None:
    if shutil.which("bash"):
        done = subprocess.run(
            ["bash", "-n"], input="\n".join(commands(text)), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@for_each("page", PAGES)
def test_every_block_can_be_read(page: str) -> None:
    for language, text in all_blocks(page):
        read(language, text)


def test_a_block_that_cannot_be_read_is_found() -> None:
    for language, text in (
        ("json", '{"a": }'), ("toml", "a ="), ("toml", "no_such_setting = 1"), ("toml", '[[constraint]]\nname = "a"'),
        ("yaml", "a: [b"), ("ini", "a"),
        ("py", "def"), ("sh", "if true"), ("fortran", "end"),
    ):  # fmt: skip
        with pytest.raises(
            (typer.Exit, AssertionError, ValueError, SyntaxError, yaml.YAMLError, configparser.Error)
        ):
            read(language, text)


def test_the_tests_of_other_languages_exist() -> None:
    for place in OTHERS.values():
        assert Path(ROOT / place).is_file(), place

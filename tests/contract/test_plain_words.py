"""Texts for users are plain English: whole sentences, and words that a reader can look up.

Checked are the OpenAPI documents, the settings, the help of all commands, the web UI, the documents, the docstrings,
comments and errors of the rooms in `ROOMS`, the comments of the scripts, and the comments and errors of the SDK for
TypeScript and of the sources of the web UI; and the names of tests.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from jqmaster.cli.root import app
from jqmaster.config import Settings
from jqmaster.domain.jobs.job import JobState
from jqmaster.service.operations.settings_catalog import CATALOG
from jqmaster.spec.openapi import master_document, worker_document
from tests.contract.lexicon import SAY_INSTEAD
from tests.support.syntax import declarations
from tests.support.web_sources import web_sources

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for place in (".", "changes.d", "clients/*", "clients/*/examples", "docs/**", "examples/**", "worker_sdk")
    for page in ROOT.glob(f"{place}/*.md")
    if "node_modules" not in page.parts
)
ROOMS = [
    ROOT / "jqmaster",
    ROOT / "benchmarks",
    ROOT / "tools",
    ROOT / "worker_sdk",
    ROOT / "tests",
]
SCRIPTS = sorted((ROOT / "jqmaster" / "store").rglob("*.lua"))
# Sources in JavaScript and TypeScript, without what others wrote or what is built.
CLIENTS = [*sorted(ROOT.glob("clients/typescript/src/**/*.ts")), *web_sources()]
LANGUAGES = sorted((ROOT / "jqmaster" / "web" / "lang").glob("en*.js"))

# A relative clause in the place of a subject makes the reader start again. Questions may begin so.
FRAGMENT = re.compile(
    r"(?:Of|What|Who|Whoever|Whose|Nor)[ :]|Returns? what\b|That (?:it|he|they|there|the|an?|what|who|nobody|nothing)\b"
)
IS_NO = re.compile(
    r"(?<!there )\b(?:is|are) (?:none\b|no (?!longer\b|more\b|less\b|later\b|other\b)\w+)", re.IGNORECASE
)
# The name of a test is a sentence as well, and appears in documents and reports: its subject comes first.
FRAGMENT_OF_NAME = re.compile(r"test_(?:of|what|who|whoever|whose|nor|that|where|which|whether|how|to)_")
# Words for which the lexicon has a better one.
PRIVATE = re.compile(rf"\b(?:{'|'.join(SAY_INSTEAD)})\b", re.IGNORECASE)

BAD = (
    "Of the newest leadership; 0 before the first.",
    "Return what the archive said.",
    "What is answered is leased.",
    "Who leads under a newer epoch.",
    "Whoever holds the token may settle.",
    "Nor that a disk is noticed.",
    "That it asks no more the claim tells.",
    "Fine so far. What runs goes on.",
    "Fine so far; then: an offer is no start.",
    "The constraint is none.",
    "The mender looks through the store.",
    "The **attendance** pings workers.",
    "PEM certificates of who vouches for workers.",
    "Changes a notice, and writes down who did it.",
    "The gates that its job brings along.",
    "Returns what became of the entry.",
    "The edition of the rules has changed.",
    "Orders to workers are signed.",
    "Values of the key take turns by weight.",
)
GOOD = (
    "What is a lane?",
    "That push is an offer.",
    "The master serves what it has. A worker knows who leads.",
    "If there is no store, the master starts its own.",
    "The token is no longer valid.",
    "If there is none, the answer is 404.",
    "Offers are refused when the lease is over.",
    "`BulkCommand` and `mender` are code.",
    "Is this what you want?",
)


def faults(text: str) -> list[str]:
    """Return the sentences of a plain text or a piece of Markdown that break one of the patterns."""
    text = re.sub(r"`[^`]*`", "x", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")
    sentences = re.split(r"(?<=[.!?:])\s+(?=[A-Z])", " ".join(text.split()))
    return [
        sentence
        for sentence in sentences
        if not sentence.endswith("?")
        and (FRAGMENT.match(sentence) or IS_NO.search(sentence) or PRIVATE.search(sentence))
    ]


def advice(sentence: str) -> str:
    """Return the words to use instead of those in the sentence; empty: another pattern found it."""
    better = [
        word for pattern, word in SAY_INSTEAD.items() if re.search(rf"\b(?:{pattern})\b", sentence, re.I)
    ]
    return f" (say: {', '.join(better)})" if better else ""


def blocks(markdown: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells of a page, without code, headings and short labels."""
    prose = re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:\* |\d+\. |\|))", prose):
        if block.startswith("#"):
            continue
        if block.startswith("|"):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", block) if len(cell.split()) > 3)
        else:
            yield re.sub(r"^\s*(?:\* |\d+\. )", "", block)


def descriptions(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("description", "summary") and isinstance(value, str):
                yield f"{path}/{key}", value
            elif key not in ("example", "examples"):
                yield from descriptions(value, f"{path}/{key}")
    elif isinstance(node, list):
        for number, item in enumerate(node):
            yield from descriptions(item, f"{path}/{number}")


def command_texts(command: Any, path: str) -> Iterator[tuple[str, str]]:
    yield path, command.help or ""
    for parameter in command.params:
        yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""
    for name, child in getattr(command, "commands", {}).items():
        yield from command_texts(child, f"{path} {name}")


def page_texts() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in blocks(page.read_text("utf-8")):
            yield page.name, block


def ui_texts() -> Iterator[tuple[str, str]]:
    for file in LANGUAGES:
        for key, text in re.findall(r'"([\w.+]+)":\s+"((?:[^"\\]|\\.)*)"', file.read_text("utf-8")):
            yield from ((f"{file.name} {key}", form) for form in text.split("||"))


def code_texts() -> Iterator[tuple[str, str]]:
    """Yield each docstring, and each comment that stands on lines of its own."""
    for file in sorted(
        file for room in ROOMS for file in room.rglob("*.py") if "node_modules" not in file.parts
    ):
        source, place = file.read_text("utf-8"), str(file.relative_to(ROOT))
        tree = ast.parse(source)
        yield from ((place, ast.get_docstring(node) or "") for node in declarations(tree))
        for node in () if place.startswith("tests") else ast.walk(tree):
            if isinstance(node, ast.Call):
                yield from ((place, text) for text in raised_texts(node))
        for comment in re.findall(r"^ *# .*(?:\n *# .*)*", source, re.MULTILINE):
            yield place, re.sub(r"^ *# ", "", comment, flags=re.MULTILINE)


def raised_texts(call: ast.Call) -> Iterator[str]:
    """Yield the texts with which an exception is made, with an x for each value."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    for given in call.args if name.endswith(("Error", "fail", "Fail")) else ():
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield given.value
        elif isinstance(given, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in given.values)


def client_texts() -> Iterator[tuple[str, str]]:
    """Yield the comments in JavaScript and TypeScript, without their code and tags, and the texts of errors."""
    for file in CLIENTS:
        source, place = file.read_text("utf-8"), str(file.relative_to(ROOT))
        for block in re.findall(r"^ */\*\*(.*?)\*/", source, re.DOTALL | re.MULTILINE):
            text = re.sub(
                r"```.*?```", "", re.sub(r"^ *\* ?", "", block, flags=re.MULTILINE), flags=re.DOTALL
            )
            # A tag ends the text before it, and a type in braces is code.
            for part in re.split(r"@\w+", re.sub(r"\{[^}]*\}", "x", text)):
                yield from ((place, paragraph) for paragraph in re.split(r"\n\s*\n", part))
        for comment in re.findall(r"^ *// .*(?:\n *// .*)*", source, re.MULTILINE):
            yield place, re.sub(r"^ *// ", "", comment, flags=re.MULTILINE)
        for text in re.findall(r"Error\(\s*[\"`]([^\"`]+)[\"`]", source):
            yield place, re.sub(r"\$\{[^}]*\}", "x", text)


def script_texts() -> Iterator[tuple[str, str]]:
    """Yield the comments of the Lua scripts that stand on lines of their own, without contracts and includes."""
    for file in SCRIPTS:
        source = re.sub(
            r"^-- (?:KEYS|ARGV|REPLY|CHECKS FIRST|include)\b.*(?:\n--  +.*)*",
            "",
            file.read_text("utf-8"),
            flags=re.M,
        )
        for comment in re.findall(r"^ *-- .*(?:\n *-- .*)*", source, re.MULTILINE):
            yield file.name, re.sub(r"^ *-- ", "", comment, flags=re.MULTILINE)


SOURCES = {
    "master": lambda: descriptions(master_document()),
    "worker": lambda: descriptions(worker_document()),
    "settings": lambda: ((name, field.description or "") for name, field in Settings.model_fields.items()),
    "commands": lambda: command_texts(typer.main.get_command(app), "jqmaster"),
    "pages": page_texts,
    "web UI": ui_texts,
    "code": code_texts,
    "scripts": script_texts,
    "clients": client_texts,
}


@pytest.mark.parametrize("source", SOURCES)
def test_texts_for_users_are_plain(source: str) -> None:
    texts = list(SOURCES[source]())
    assert len(texts) > 20, "the texts were not found"
    found = [f"{place}: {sentence}{advice(sentence)}" for place, text in texts for sentence in faults(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", BAD)
def test_a_bad_sentence_is_found(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize("text", GOOD)
def test_honest_english_passes(text: str) -> None:
    assert not faults(text)


def test_names_of_tests_begin_with_their_subject() -> None:
    names = [
        (file, node.name)
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in declarations(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert len(names) > 5_000, "the tests were not found"
    found = [f"{file.relative_to(ROOT)}::{name}" for file, name in names if FRAGMENT_OF_NAME.match(name)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "is_plain"),
    [
        ("test_of_a_leader_that_is_not_registered_the_lock_tells", False),
        ("test_what_it_leaves_open_warns", False),
        ("test_the_lock_tells_of_a_leader_that_is_not_registered", True),
        ("test_offers_come_back", True),
    ],
)
def test_a_name_of_a_test_that_begins_with_a_fragment_is_found(name: str, is_plain: bool) -> None:
    assert (FRAGMENT_OF_NAME.match(name) is None) is is_plain


def test_cells_and_items_of_a_page_are_read() -> None:
    page = (
        "# What it is\n\nFine.\n\n* What runs goes on.\n\n"
        "| a | b |\n|---|---|\n| x | What was pushed stays so |\n\n```\nWhat\n```\n"
    )
    assert [sentence for block in blocks(page) for sentence in faults(block)] == [
        "What runs goes on.",
        "What was pushed stays so",
    ]


def test_both_languages_of_the_web_ui_have_the_same_texts() -> None:
    def texts(language: str) -> dict[str, str]:
        files = sorted((ROOT / "jqmaster" / "web" / "lang").glob(f"{language}*.js"))
        pairs = [
            pair
            for file in files
            for pair in re.findall(r'"([\w.+]+)":\s+"((?:[^"\\]|\\.)*)"', file.read_text("utf-8"))
        ]
        assert len(pairs) > 500, "the texts were not found"
        return dict(pairs)

    english, japanese = texts("en"), texts("ja")
    # The English names of the states come from their table.
    assert english.keys() == {key for key in japanese if key not in {f"state.{state}" for state in JobState}}
    assert {f"state.{state}" for state in JobState} <= japanese.keys()
    for key, text in english.items():
        names = set(re.findall(r"\{(\w+)\}", text))
        assert set(re.findall(r"\{(\w+)\}", japanese[key])) <= names, key
        words = re.sub(r"\{\w+\}|\W", "", japanese[key])
        assert not words or not words.isascii() or text == japanese[key], f"{key} is not translated"


def test_every_setting_and_its_group_have_japanese_texts() -> None:
    source = (ROOT / "jqmaster" / "web" / "lang" / "ja_settings.js").read_text("utf-8")
    told = set(re.findall(r"^  (\w+): \[", source, re.MULTILINE))
    assert told == {info.key for info in CATALOG.values()}
    groups = source[source.index("const GROUPS") :]
    for group in {info.group for info in CATALOG.values()}:
        assert re.search(rf'^  "?{group}"?: "', groups, re.MULTILINE), group

"""Every `jqmaster …` in the documents is a command of today, with options that it has. Nobody is told to install what
no index has."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from jqmaster.cli.root import app
from tests.contract.test_containers import ROOT
from tests.support.each import for_each

PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "examples/**/*.md",
        "clients/*/*.md",
        "worker_sdk/*.md",
        "deploy/**/*",
        "changes.d/*.md",
    )
    for path in ROOT.glob(pattern)
    # The changelog tells of commands as they were.
    if path.is_file() and path.name != "CHANGELOG.md" and path.suffix in (".md", ".service", ".yml", ".yaml")
)
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(jqmaster [^`]+)`")
# From `jqmaster` to what ends a command of a shell.
COMMAND = re.compile(r"(?:^|[\s(;&|=\"'/])jqmaster ((?:[^\n|;&#<>`)]|<<<)*)")
ROOT_COMMAND = typer.main.get_command(app)


def commands(text: str) -> Iterator[str]:
    joined = re.sub(r"\\\n\s*", " ", text)
    # The SDK alone has the same command for workers.
    joined = re.sub(r"python3? -m worker_sdk (?=worker )", "jqmaster ", joined)
    for block in FENCE.findall(joined):
        for line in block.splitlines():
            stripped = line.strip().removeprefix("$ ")
            # Lines of output, of other languages and of messages are not commands.
            if re.match(r"(?:[A-Z_]+=\S+ )*(?:[\w$(\"=/.-]*/)?\"?\$?\(?jqmaster ", stripped):
                yield from COMMAND.findall(stripped)
    for inline in INLINE.findall(FENCE.sub("", joined)):
        yield from COMMAND.findall(inline)


def fault(line: str) -> str:
    """Return the fault of the words after `jqmaster`; empty if nothing is."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    command: Any = ROOT_COMMAND
    context = command.context_class(command, info_name="jqmaster")
    while words and hasattr(command, "list_commands"):
        if words[0].startswith("-"):
            break
        if words[0] == "…" or words[0].isupper():
            return ""
        found = command.get_command(context, words[0])
        if found is None:
            return f"no command {words[0]!r} in {command.name or 'jqmaster'}"
        command, context = found, found.context_class(found, parent=context, info_name=words[0])
        words = words[1:]
    known = {
        name
        for parameter in command.get_params(context)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in words:
        if word in ("--", "-"):
            break
        name = word.partition("=")[0]
        if "$(" in word:
            break
        if name.startswith("--") and name not in known:
            return f"{command.name} has no option {name}"
        if re.fullmatch(r"-[A-Za-z]", name) and name not in known:
            return f"{command.name} has no option {name}"
    return ""


@for_each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_command_lines_of_the_documents_are_commands(page: Path) -> None:
    found = [
        f"jqmaster {line.strip()}: {wrong}"
        for line in commands(page.read_text("utf-8"))
        if (wrong := fault(line))
    ]
    assert found == []


def test_a_wrong_command_line_is_found() -> None:
    block = "jqmaster challenges --states processing  # why\njqmaster job ID --follow\n"
    text = f"Run `jqmaster repair`.\n\n```\n{block}```\n"
    assert sorted(bool(fault(line)) for line in commands(text)) == [False, True, True]
    assert sum(1 for page in PAGES for _ in commands(page.read_text("utf-8"))) > 150


@for_each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nobody_is_told_to_install_by_a_name_that_no_index_has(page: Path) -> None:
    """A stranger who registered the name could run code on the machines of readers."""
    assert (
        re.findall(
            r"(?:pip|uv|pipx)[^\n`]* (?:install|add) [^\n`/]*\bjqmaster[\w-]*(?![\w/.*-])",
            page.read_text("utf-8"),
        )
        == []
    )

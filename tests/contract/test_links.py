"""Every link of the documents leads to a file of the repository, and to a heading that is there."""

import re
from functools import cache
from pathlib import Path

from tests.support.each import for_each
from tests.support.pages import ROOT, documents

LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
PAGES = [
    *documents(),
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "changes.d").glob("*.md")),
]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page, as forges make them: a repeated heading gets a number."""
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose, re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        plain = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = found[plain] = found.get(plain, -1) + 1
        if number:
            found[f"{plain}-{number}"] = 0
    return frozenset({*found, *re.findall(r'<a (?:id|name)="([^"]+)"', prose)})


@for_each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    # A fragment is moved into CHANGELOG.md with its links; both ways of writing them work there.
    bases = (page.parent, ROOT) if page.parent.name == "changes.d" else (page.parent,)
    prose = re.sub(r"```.*?```|`[^`\n]*`(?!\])", "", page.read_text("utf-8"), flags=re.DOTALL)
    dead = []
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        targets = [target for base in bases if (target := (base / path).resolve() if path else page).exists()]
        if not targets or (
            anchor and targets[0].suffix == ".md" and not any(anchor in anchors(target) for target in targets)
        ):
            dead.append(link)
    assert dead == []


def test_a_dead_link_and_a_dead_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`, three\n\n## Again\n\n## Again\n\n```\n# no heading\n```\n")
    assert anchors(page) == {"one-two-three", "again", "again-1"}
    assert LINK.findall("see [`a`](b.md#c) and ![picture](d.webp), [e [f]](g)") == ["b.md#c", "g"]


def broken_tables(page: Path) -> list[str]:
    """Return the heads of tables that are shown as text: other text stands directly above the head or in it, or it has
    another number of cells than the rule below it."""
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines = ["", *prose.splitlines()]
    found = []
    for above, head, rule in zip(lines, lines[1:], lines[2:], strict=False):
        if not re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", rule.strip()):
            continue
        bars = re.sub(r"\\\||`[^`]*`", "", head).count("|")
        if above.strip() or not head.lstrip().startswith("|") or bars != rule.count("|"):
            found.append(head)
    return found


@for_each("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_table_has_a_head(page: Path) -> None:
    assert broken_tables(page) == []


def test_a_table_whose_head_is_part_of_a_sentence_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Some words. | a | b |\n|---|---|\n| 1 | 2 |\n\n| a |\n|---|\n| 1 |\n")
    assert broken_tables(page) == ["Some words. | a | b |"]


def test_the_index_leads_to_every_document() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    listed = {link.partition("#")[0] for link in LINK.findall(index)}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - listed == {"index.md"}


def test_the_first_screen_of_the_readme_is_short_and_begins_with_a_task() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    picture = next(number for number, line in enumerate(lines) if line.startswith("!["))
    assert picture <= 60
    first = "\n".join(lines[:picture])
    assert "@tasks.task" in first
    assert "worker.handler" not in first
    assert "docs/index.md" in first


def test_links_from_code_and_texts_lead_somewhere() -> None:
    """Docstrings, errors and the web UI name documents by their path."""
    dead = []
    for folder in ("jqmaster", "worker_sdk", "tools", "benchmarks", "examples", "deploy"):
        for file in sorted((ROOT / folder).rglob("*")):
            if (
                file.suffix not in (".py", ".js", ".lua", ".yml", ".yaml", ".service", ".toml")
                or "node_modules" in file.parts
            ):
                continue
            for path, anchor in re.findall(
                r"\b(docs/[\w/]+\.md)(?:#([\w-]+))?", file.read_text("utf-8", "replace")
            ):
                target = ROOT / path
                if not target.is_file() or (anchor and anchor not in anchors(target)):
                    dead.append(f"{file.relative_to(ROOT)}: {path}#{anchor}")
    assert dead == []
